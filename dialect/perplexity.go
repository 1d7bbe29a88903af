package dialect

// Perplexity reports nothing: a leaky bucket that holds one second's rate.
var Perplexity = &Dialect{
	Name:   "perplexity",
	Hosts:  []string{"api.perplexity.ai"},
	Read:   reader{}.read,
	Demand: estimate,
}
