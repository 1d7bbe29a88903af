package paceline

import (
	"sync"
	"time"
)

// An alarm cuts an attempt, for a cause, some time after it has been set. It
// may be set and stopped from any goroutine, as the hooks of a transport are
// called.
type alarm struct {
	attempt *attempt
	after   time.Duration // zero or less: never
	cause   error

	mu    sync.Mutex
	timer *time.Timer
}

func (a *alarm) set() {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.after <= 0:
	case a.timer == nil:
		a.timer = time.AfterFunc(a.after, func() { a.attempt.cancel(a.cause) })
	default:
		a.timer.Reset(a.after)
	}
}

func (a *alarm) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer != nil {
		a.timer.Stop()
	}
}
