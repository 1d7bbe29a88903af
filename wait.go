package paceline

import (
	"context"
	"time"

	"github.com/paceline-proxy/paceline/gate"
	"github.com/paceline-proxy/paceline/policy"
)

// A WaitKind is what kind of thing a request waits for.
type WaitKind = gate.Cause

// The kinds of waits.
const (
	WaitTurn     = gate.ForTurn   // those before it, a declared or learned limit, a place
	WaitBudget   = gate.ForBudget // a budget that the provider told of
	WaitPause    = gate.ForPause  // the end of a pause, or its own backoff
	WaitQuota    = gate.ForQuota  // the reset of a spent quota
	WaitOperator = gate.ForOrder  // an operator, who has paused the provider
)

// A Wait is what a request waits for, as [Transport.OnWait] is told. It does
// not change: another wait of the same ID takes its place.
type Wait struct {
	ID         string `json:"id"` // of the request
	Provider   string `json:"provider"`
	Credential string `json:"credential,omitempty"`
	Model      string `json:"model,omitempty"`
	Client     string `json:"client,omitempty"`
	// Since is when the request began to wait, Until when it is looked at again,
	// zero where only what others do tells.
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"`
	Kind  WaitKind  `json:"kind"`
	Why   string    `json:"why,omitempty"`
	// Budget is what a WaitBudget waits for.
	Budget *policy.Shortage `json:"budget,omitempty"`
	// Over is true where the request waits no more: it is sent, refused, or its
	// caller has left.
	Over bool `json:"over,omitempty"`

	anyway func()
}

// SendAnyway ends a wait for an observed budget: the request is sent as soon as
// nothing else holds it up. It reports false where the wait is not of that kind:
// nothing is sent before a stated wait is over, or beyond a declared limit. It
// may be called at any time, from any goroutine.
func (w *Wait) SendAnyway() bool {
	if w.Over || w.Budget == nil || !w.Budget.Anyway || w.anyway == nil {
		return false
	}
	w.anyway()
	return true
}

// tellWait tells OnWait what the call waits for, unless it has been told that.
func (c *call) tellWait(of gate.Waiting) {
	w := &Wait{
		ID: c.id, Provider: c.entry.Name, Credential: c.credential, Model: c.demand.Model, Client: c.manners.client,
		Since: c.queuedSince, Until: of.Until, Kind: of.For, Why: of.Why, Budget: of.Budget, anyway: c.sendAnyway,
	}
	if was := c.shown; was != nil {
		w.Since = was.Since
		if w.Until.Sub(was.Until).Abs() < time.Millisecond && was.Kind == w.Kind && was.Why == w.Why {
			return
		}
	}
	c.shown = w
	c.transport.OnWait(w)
}

// waited tells OnWait that the call waits no more.
func (c *call) waited() {
	if c.shown == nil {
		return
	}
	over := *c.shown
	over.Over = true
	c.shown = nil
	c.transport.OnWait(&over)
}

// sendAnyway has the call sent whatever the observed budgets say.
func (c *call) sendAnyway() {
	c.anyway.Store(true)
	c.home.gate.Hurry(c.name)
}

// WaitForCapacity returns a context with which requests wait for pauses without
// bound and without counting tries, as with X-Paceline-Wait-For-Capacity: 1.
func WaitForCapacity(ctx context.Context) context.Context {
	return context.WithValue(ctx, capacityKey{}, true)
}

type capacityKey struct{}

// waitsForCapacity reports whether a context says so.
func waitsForCapacity(ctx context.Context) bool {
	is, _ := ctx.Value(capacityKey{}).(bool)
	return is
}
