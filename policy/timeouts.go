package policy

import "time"

// Timeouts bound one attempt. 0 means the default of the provider's entry,
// and a negative one none.
type Timeouts struct {
	// Connect bounds getting a connection (10 s).
	Connect time.Duration
	// Header bounds the time from sending to the head (none: a model may think
	// for minutes).
	Header time.Duration
	// Idle bounds the time between two pieces of the answer (5 min).
	Idle time.Duration
	// Total is the duration cap of an attempt (30 min).
	Total time.Duration
}

// Or fills what t leaves open with what the entry's defaults say.
func (t Timeouts) Or(d Timeouts) Timeouts {
	t.Connect = or(t.Connect, d.Connect)
	t.Header = or(t.Header, d.Header)
	t.Idle = or(t.Idle, d.Idle)
	t.Total = or(t.Total, d.Total)
	return t
}
