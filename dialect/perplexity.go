package dialect

// Perplexity reports nothing: a leaky bucket that holds one second's rate.
var Perplexity = &Dialect{
	Name:        "perplexity",
	ChatPath:    "/chat/completions",
	BaseURL:     "https://api.perplexity.ai",
	Hosts:       []string{"api.perplexity.ai"},
	Read:        reader{}.read,
	Tells:       "nothing",
	Metering:    Metering{PerModel: true},
	KeyPrefixes: []string{"pplx-"},
}
