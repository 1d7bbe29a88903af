package dialect

// Cerebras names each bucket's window and refills it evenly, whatever its resets
// look like. Refusals carry no buckets: the last success tells them.
var Cerebras = &Dialect{
	Name:        "cerebras",
	BaseURL:     "https://api.cerebras.ai/v1",
	Hosts:       []string{"api.cerebras.ai"},
	Reports:     true,
	Read:        reader{recovery: Continuous}.read,
	Tells:       "`x-ratelimit-*` of requests and tokens, of minute, hour and day; nothing when it refuses",
	Metering:    Metering{PerModel: true, Charges: Charging{Output: Reserved, Default: 16384}},
	KeyPrefixes: []string{"csk-"},
}
