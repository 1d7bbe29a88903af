package budget

import (
	"time"

	"github.com/paceline-proxy/paceline/dialect"
)

// A Level is what a budget comes to now: the latest reading, replayed.
type Level struct {
	dialect.Snapshot
	// Sent is when the request was sent whose answer reported it.
	Sent time.Time
	// Projected is what is left now, Floor what should be before a request is
	// sent: its own charge and what others may take meanwhile.
	Projected, Floor float64
	// Enough is when there is enough for the request itself, zero where nobody
	// knows.
	Enough time.Time
}

// Levels replays every reading that still counts up to now, for a request with
// a charge of its own.
func (s *State) Levels(starts *Starts, now time.Time, own Charge) []Level {
	return nil
}
