package dialect

// Groq's names do not say that requests are counted by the day and tokens by the
// minute. Both refill evenly. The requests of a minute, which refuse first, are
// in no header, only in a sentence.
var Groq = &Dialect{
	Name:        "groq",
	BaseURL:     "https://api.groq.com/openai/v1",
	Hosts:       []string{"api.groq.com"},
	Reports:     true,
	Read:        reader{requests: Day, tokens: Minute, recovery: FullAt}.read,
	Tells:       "`x-ratelimit-*`: requests of a day, tokens of a minute; the rest in sentences",
	Metering:    Metering{PerModel: true, Charges: Charging{CachedFree: true}},
	KeyPrefixes: []string{"gsk_"},
}
