package dialect

// Cerebras names each bucket's window and refills it evenly, whatever its resets
// look like. Refusals carry no buckets: the last success tells them.
var Cerebras = &Dialect{
	Name:    "cerebras",
	Hosts:   []string{"api.cerebras.ai"},
	Reports: true,
	Read:    reader{recovery: Continuous}.read,
	Demand:  estimate,
}
