package dialect

// Fireworks reports limits of a minute that move with the traffic, on three axes
// of tokens, and often not what is left.
var Fireworks = &Dialect{
	Name:    "fireworks",
	Names:   []string{"fireworks-ai"},
	Hosts:   []string{"api.fireworks.ai"},
	Reports: true,
	Read:    reader{requests: Minute, tokens: Minute}.read,
	Demand:  estimate,
}
