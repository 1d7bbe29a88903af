package gate

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// A waiter is one request in a line.
type waiter struct {
	ask      Ask
	priority Priority // what it counts as now
	seq      uint64
	queue    *queue
	index    int // in the queue
	since    time.Time
	kick     chan struct{} // told to look again
	// awake is held by itself but while it sleeps, and then by who acts for it.
	awake sync.Mutex
	told  chan *answer // of asks that others have put, nil where nobody does
	got   *answer      // what it was told last, until it has heeded it
	out   bool         // it is in the line no more
	freed bool         // a request has ended for it
	waits bool         // it has begun to wait
	// judged by its place in line, which is done once. unjudged where it looked
	// while nothing was known of how fast the line moves.
	judged, unjudged bool
	wonders          bool // it is yet to learn what holds it up
}

func (w *waiter) before(o *waiter) bool { return w.compare(o) < 0 }
func (w *waiter) at() *int              { return &w.index }

// compare puts who came first first.
func (w *waiter) compare(o *waiter) int {
	return cmp.Or(w.ask.Arrived.Compare(o.ask.Arrived), cmp.Compare(w.seq, o.seq))
}

// goesBefore orders the heads of lanes.
func (w *waiter) goesBefore(o *waiter) bool {
	return cmp.Or(cmp.Compare(w.priority, o.priority), w.queue.compare(o.queue)) < 0
}

// heed returns what the waiter was told and has not heeded yet, nil for nothing.
func (w *waiter) heed() (told *answer) {
	if told, w.got = w.got, nil; told == nil {
		select {
		case told = <-w.told:
		default:
		}
	}
	return told
}

// look has the waiter look again, once however often it is told.
func (w *waiter) look() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// wait sleeps until an instant (zero: for ever), an answer or a kick. It is an
// error where the request may not wait, its caller leaves, the waiting is ended,
// or the caller's patience.
//
// While it only hopes, its patience lasts for a call of the limiter at least.
func (w *waiter) wait(ctx context.Context, until time.Time, hopes bool) error {
	if !w.waits && w.ask.Waits != nil {
		if err := w.ask.Waits(); err != nil {
			return err
		}
	}
	w.waits = true
	deadline := w.ask.Deadline
	if hopes && !deadline.IsZero() {
		deadline = later(deadline, w.since.Add(overdue))
	}
	if own, ok := ctx.Deadline(); ok && !deadline.Before(own) {
		deadline = time.Time{} // the context says it itself
	}
	wake := sooner(sooner(until, deadline), w.ask.Leave)
	alarmed, err := w.sleep(ctx, wake)
	switch {
	case err != nil, !alarmed, wake.Equal(until):
		return err // what it waited for comes before the end of its patience
	case ctx.Err() != nil:
		return ctx.Err()
	case wake.Equal(deadline):
		return &Refused{Reason: Deadline, Why: "the deadline came while waiting in line"}
	}
	return &Refused{Reason: Queue, Why: "its turn had not come when its client was about to give up"}
}

// sleep sleeps until an alarm (zero: for ever), an answer or a kick. It is an
// error where the caller leaves, or the waiting is ended.
func (w *waiter) sleep(ctx context.Context, wake time.Time) (alarmed bool, err error) {
	var alarm <-chan time.Time
	if !wake.IsZero() {
		t := time.NewTimer(time.Until(wake))
		defer t.Stop()
		alarm = t.C
	}
	w.awake.Unlock()
	defer w.awake.Lock()
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case w.got = <-w.told:
	case <-w.ask.Stop:
		return false, stopped()
	case <-w.kick:
	case <-alarm:
		return true, nil
	}
	return false, nil
}

// sooner is the earlier of two instants, of which zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// bears returns the refusal of a waiter that must not wait for a block.
func (w *waiter) bears(b block, now time.Time) error {
	bound := w.ask.MaxPause >= 0 && !(b.quota && w.ask.WaitForQuota)
	switch {
	case b.closed, bound && !b.pause.IsZero() && b.pause.Sub(now) > w.ask.MaxPause:
		r := &Refused{Reason: Pause, Until: b.pause, Why: b.why}
		if b.quota {
			r.Reason = Quota
		}
		return r
	case !w.ask.Deadline.IsZero() && b.firm.After(w.ask.Deadline):
		return &Refused{Reason: Deadline, Until: b.firm, Why: b.why}
	}
	return nil
}

// standApart waits out what a request waits for by itself.
func (g *Gate) standApart(ctx context.Context, w *waiter) error {
	if !w.ask.NotBefore.After(time.Now()) {
		return nil
	}
	if w.ask.OrRelease {
		g.mu.Lock()
		l := g.line(w.ask.Key)
		l.apart = append(l.apart, w)
		g.mu.Unlock()
		defer func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			l.apart = slices.DeleteFunc(l.apart, func(o *waiter) bool { return o == w })
			g.drop(l)
		}()
	}
	if w.ask.Waiting != nil {
		w.ask.Waiting(Waiting{For: ForPause, Until: w.ask.NotBefore, Why: "its own wait before it is sent again"})
	}
	for time.Now().Before(w.ask.NotBefore) && !g.isFree(w) {
		if err := w.wait(ctx, w.ask.NotBefore, false); err != nil {
			return err
		}
	}
	return nil
}

// free ends a waiter's standing apart. Those behind it wait for the next.
func (l *line) free() {
	w := l.apart[0]
	l.apart = l.apart[1:]
	w.freed = true
	w.look()
}

func (g *Gate) isFree(w *waiter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return w.freed
}

// lacks reports whether a place or tokens of one of these buckets are what it
// lacks.
func (b block) lacks(held []string) bool {
	return slices.ContainsFunc(b.refused, func(f limiter.Refusal) bool {
		return f.Cause != limiter.Throttle && slices.Contains(held, f.Key)
	})
}
