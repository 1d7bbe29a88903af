package paceline

import (
	"sync"
	"time"
)

// alarms cut an attempt, for a cause, when the first of some instants comes.
// They may be set and cleared from any goroutine, as the hooks of a transport
// are called.
//
// One timer serves them all. It is moved only to ring sooner, and looks what to
// do when it rings: most alarms are cleared long before, and an answer's are set
// anew with each piece of it.
type alarms struct {
	cut func(cause error)

	mu    sync.Mutex
	at    [len(causes)]time.Time // zero: not set
	rings time.Time              // when the timer does, zero for not
	timer *time.Timer
	off   bool
}

// An alarm is what an attempt must not wait for too long.
type alarm int

const (
	connecting alarm = iota
	heading
	idling
	running
)

// causes are those with which the alarms cut.
var causes = [...]error{connecting: errNotConnected, heading: errNoHead, idling: errIdle, running: errCapped}

// set has an alarm cut after a while, zero or less: never.
func (a *alarms) set(which alarm, after time.Duration) {
	if after <= 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	a.at[which] = now.Add(after)
	a.wind(now)
}

// clear ends one alarm.
func (a *alarms) clear(which alarm) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at[which] = time.Time{}
}

// stop ends all of them for good.
func (a *alarms) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.off = true
	if a.timer != nil {
		a.timer.Stop()
	}
}

// first is the alarm that is due before the others, and when: zero for none.
func (a *alarms) first() (which alarm, at time.Time) {
	for i, t := range a.at {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			which, at = alarm(i), t
		}
	}
	return which, at
}

// wind has the timer ring no later than the first alarm.
func (a *alarms) wind(now time.Time) {
	_, at := a.first()
	if a.off || at.IsZero() || !a.rings.IsZero() && !at.Before(a.rings) {
		return
	}
	a.rings = at
	if a.timer == nil {
		a.timer = time.AfterFunc(at.Sub(now), a.ring)
	} else {
		a.timer.Reset(at.Sub(now))
	}
}

// ring cuts, where an alarm is due.
func (a *alarms) ring() {
	a.mu.Lock()
	a.rings = time.Time{}
	now := time.Now()
	which, at := a.first()
	due := !a.off && !at.IsZero() && !at.After(now)
	if !due {
		a.wind(now)
	}
	a.mu.Unlock()
	if due {
		a.cut(causes[which])
	}
}
