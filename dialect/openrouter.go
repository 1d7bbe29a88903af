package dialect

// OpenRouter counts fixed minutes, and days that turn at midnight UTC. Its limits
// stand in the error's metadata, rarely in real headers.
var OpenRouter = &Dialect{
	Name:        "openrouter",
	BaseURL:     "https://openrouter.ai/api/v1",
	Hosts:       []string{"openrouter.ai", ".openrouter.ai"},
	Read:        reader{recovery: StepAt}.read,
	Tells:       "nothing; limits of a minute or a day in a refusal's body",
	Kind:        kindBy(nil, []string{"/key", "/credits"}), // of a key, free of charge
	KeyPrefixes: []string{"sk-or-"},
}
