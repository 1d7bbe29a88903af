package paceline

import "time"

// A Mode is whether limits are enforced.
type Mode string

// The modes.
const (
	// Enforce has requests wait for their turn. The default.
	Enforce Mode = "enforce"
	// Observe sends every request at once and notes in its record how long it
	// would have waited, and why.
	Observe Mode = "observe"
	// Off sends every request at once, and only records it.
	Off Mode = "off"
)

// Observed is what would have become of a request in the mode Enforce.
type Observed struct {
	// Wait is how long it would have waited at least, Why what for.
	Wait time.Duration
	Why  string
}
