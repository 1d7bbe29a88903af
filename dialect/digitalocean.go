package dialect

// DigitalOcean refills evenly. Under OpenAI's names it writes the instant at
// which a request of the same size would fit, not the one when all is there.
var DigitalOcean = &Dialect{
	Name:    "digitalocean",
	Names:   []string{"digital-ocean"},
	Hosts:   []string{"inference.do-ai.run", ".agents.do-ai.run"},
	Reports: true,
	Read:    reader{requests: Minute, tokens: Minute, recovery: Continuous}.read,
	Tells:   "`x-ratelimit-*` of requests and tokens, resets as epoch seconds",
}
