package dialect

// Fireworks reports limits of a minute that move with the traffic, on three axes
// of tokens, and often not what is left.
var Fireworks = &Dialect{
	Name:        "fireworks",
	Names:       []string{"fireworks-ai"},
	BaseURL:     "https://api.fireworks.ai/inference/v1",
	Hosts:       []string{"api.fireworks.ai"},
	Reports:     true,
	Read:        reader{requests: Minute, tokens: Minute}.read,
	Tells:       "`x-ratelimit-*` of a minute: requests, prompt and generated tokens",
	KeyPrefixes: []string{"fw_"},
}
