package paceline

import (
	"time"

	"github.com/paceline-proxy/paceline/policy"
)

// A WaitKind is what a request waits for.
type WaitKind string

// The kinds of waits.
const (
	WaitTurn     WaitKind = "turn"
	WaitBudget   WaitKind = "budget"
	WaitPause    WaitKind = "pause"
	WaitQuota    WaitKind = "quota"
	WaitOperator WaitKind = "operator"
)

// A Wait is a request that waits, as it is handed to Transport.OnWait.
type Wait struct {
	ID         string
	Provider   string
	Credential string
	Model      string
	Client     string
	Since      time.Time
	Until      time.Time // zero: not known
	Why        string
	Kind       WaitKind
	Budget     *policy.Shortage
	Over       bool
}

// SendAnyway ends a wait for an observed budget.
func (w *Wait) SendAnyway() bool { return false }
