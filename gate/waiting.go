package gate

import (
	"fmt"
	"time"

	"github.com/paceline-proxy/paceline/policy"
)

// A Waiting is what a request in line waits for.
type Waiting struct {
	For Cause
	// Until is when it looks again, zero where only what others do tells.
	Until time.Time
	Why   string
	// Budget is the observed budget that it waits for, nil for none.
	Budget *policy.Shortage
}

// A Cause is what kind of thing a request waits for.
type Cause string

// The causes of a wait.
const (
	ForTurn   Cause = "turn"     // those before it, a declared or learned limit, a place
	ForBudget Cause = "budget"   // an observed budget
	ForPause  Cause = "pause"    // the end of a pause, or its own backoff
	ForQuota  Cause = "quota"    // a spent quota
	ForOrder  Cause = "operator" // an operator's pause
)

// fewWaiting are so few that they can be counted for each of them.
const fewWaiting = 100

// waiting is what a waiter waits for. It is false while nothing is known to hold
// it up: somebody is asking, and it will look again if that is not granted.
func (g *Gate) waiting(l *line, w *waiter) (_ Waiting, held bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.out {
		return Waiting{}, false
	}
	now := time.Now()
	b := l.block
	if own := w.queue.lane.block; own.by != nil {
		b = own
	}
	if l.wonder(w, b.by == nil); w.wonders {
		return Waiting{}, false
	}
	at := Waiting{For: ForTurn, Until: b.until, Why: b.why, Budget: b.budget}
	switch {
	case b.ordered:
		at.For = ForOrder
	case b.quota:
		at.For = ForQuota
	case !b.pause.IsZero() || b.closed:
		at.For = ForPause
	case b.budget != nil:
		at.For = ForBudget
	}
	if l.head(now) == w {
		return at, true
	}
	if at.For == ForTurn || at.For == ForBudget {
		at.Until = time.Time{} // those before it go first
	}
	before := "others are before it"
	if l.length() <= fewWaiting {
		n, _ := l.before(w, now)
		before = fmt.Sprintf("%d before it", n)
	}
	at.Why = before
	if b.why != "" {
		at.Why += ", and " + b.why
	}
	return at, true
}

// hopes reports whether nothing is known to hold a waiter up but that somebody
// else's question is on its way, which takes a moment of nobody's patience. It
// will look again when something is.
func (g *Gate) hopes(l *line, w *waiter) bool {
	if g.carrier == nil || w.ask.Deadline.IsZero() {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.out {
		return false
	}
	hopes := l.asking && l.block.by == nil && w.queue.lane.block.by == nil
	if hopes || w.ask.Waiting == nil {
		l.wonder(w, hopes)
	}
	return hopes
}

// wonder notes whether a waiter is yet to learn what holds it up.
func (l *line) wonder(w *waiter, wonders bool) {
	if w.wonders == wonders {
		return
	}
	if w.wonders = wonders; wonders {
		l.wondering++
	} else {
		l.wondering--
	}
}

// Hurry has a request look again that is to be sent whatever the observed
// budgets say, and lets it go first among those of its client.
func (g *Gate) Hurry(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lines[key]
	if l == nil {
		return
	}
	var hurried []*waiter
	l.each(func(w *waiter) {
		if w.anyway() && !w.ask.Arrived.IsZero() {
			hurried = append(hurried, w)
		}
	})
	for _, w := range hurried {
		l.remove(w)
		w.priority, w.ask.Arrived = Interactive, time.Time{}
		l.add(w)
	}
	l.block = block{}
	l.wakeHead(time.Now())
}

func (w *waiter) anyway() bool { return w.ask.Anyway != nil && w.ask.Anyway() }
