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
	ID         string           `json:"id"`
	Provider   string           `json:"provider"`
	Credential string           `json:"credential,omitempty"`
	Model      string           `json:"model,omitempty"`
	Client     string           `json:"client,omitempty"`
	Since      time.Time        `json:"since"`
	Until      time.Time        `json:"until,omitzero"` // zero: not known
	Why        string           `json:"why,omitempty"`
	Kind       WaitKind         `json:"kind"`
	Budget     *policy.Shortage `json:"budget,omitempty"`
	Over       bool             `json:"-"`
}

// SendAnyway ends a wait for an observed budget.
func (w *Wait) SendAnyway() bool { return false }
