package dialect

// OpenRouter counts fixed minutes, and days that turn at midnight UTC. Its limits
// stand in the error's metadata, rarely in real headers.
var OpenRouter = &Dialect{
	Name:   "openrouter",
	Hosts:  []string{"openrouter.ai", ".openrouter.ai"},
	Read:   reader{recovery: StepAt}.read,
	Demand: estimate,
}
