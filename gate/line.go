package gate

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/policy"
)

// A line is the requests of one caller key that wait to be started. Its fields
// belong to the gate's lock.
type line struct {
	key     string
	waiting waiters
	active  int // granted and not released
	// asking is the waiter whose question is being answered. A retry that
	// joins in front meanwhile asks after it.
	asking *waiter
	block  block // what the last ask met
	// apart are those who wait by themselves for a request of this line to end.
	apart []*waiter
	// then are lines to wake once this one has asked.
	then []*line
}

// A block is what stands before the head of a line.
type block struct {
	// firm is the instant before which no start can come, pause the end of a
	// pause of the key, zero where there is none.
	firm    time.Time
	pause   time.Time
	closed  bool // the pause is not to be waited for
	full    bool // a request of this line has to end first
	why     string
	refused []limiter.Refusal
	limits  []limiter.Limit
}

// earliest is the first start of the waiter with n before it, if all of those
// are started: a window lets in so many per span at most.
func (b block) earliest(n int, now time.Time) time.Time {
	at := b.firm
	if at.Before(now) {
		at = now
	}
	wait := time.Duration(0)
	for _, l := range b.limits {
		if l.Calls > 0 {
			wait = max(wait, l.Per*min(time.Duration(n/l.Calls), math.MaxInt64/l.Per))
		}
	}
	return at.Add(wait)
}

// A waiter is one request in a line.
type waiter struct {
	ask   Ask
	seq   uint64
	index int
	kick  chan struct{} // told to look again
	freed bool          // a request has ended for it
	// judged by its place in line, which is done once. unjudged where it looked
	// while nothing was known of how fast the line moves.
	judged, unjudged bool
}

func (w *waiter) compare(o *waiter) int {
	return cmp.Or(w.ask.Arrived.Compare(o.ask.Arrived), cmp.Compare(w.seq, o.seq))
}

// look has the waiter look again, once however often it is told.
func (w *waiter) look() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// sleep waits until an instant (zero: for ever), a kick, the caller leaving
// or its deadline. Only the last two are errors.
func (w *waiter) sleep(ctx context.Context, until time.Time) error {
	deadline := w.ask.Deadline
	if own, ok := ctx.Deadline(); ok && !deadline.Before(own) {
		deadline = time.Time{} // the context says it itself
	}
	last := !deadline.IsZero() && (until.IsZero() || deadline.Before(until))
	if last {
		until = deadline
	}
	var alarm <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(time.Until(until))
		defer t.Stop()
		alarm = t.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-w.kick:
		return nil
	case <-alarm:
		if !last {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return &Refused{Reason: Deadline, Why: "the deadline came while waiting in line"}
	}
}

// bears returns the refusal of a waiter that must not wait for a block.
func (w *waiter) bears(b block, now time.Time) error {
	switch {
	case b.closed, w.ask.MaxPause >= 0 && !b.pause.IsZero() && b.pause.Sub(now) > w.ask.MaxPause:
		return &Refused{Reason: Pause, Until: b.pause, Why: b.why}
	case !w.ask.Deadline.IsZero() && b.firm.After(w.ask.Deadline):
		return &Refused{Reason: Deadline, Until: b.firm, Why: b.why}
	}
	return nil
}

// line returns the line of a caller key, made where there is none.
func (g *Gate) line(key string) *line {
	l := g.lines[key]
	if l == nil {
		l = &line{key: key}
		g.lines[key] = l
	}
	return l
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
	for time.Now().Before(w.ask.NotBefore) && !g.isFree(w) {
		if err := w.sleep(ctx, w.ask.NotBefore); err != nil {
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

func (g *Gate) join(w *waiter) *line {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.line(w.ask.Key)
	g.joined++
	w.seq = g.joined
	heap.Push(&l.waiting, w)
	return l
}

// leave takes a waiter out, lets the next one ask, and forgets lines that
// nobody stands in.
func (g *Gate) leave(l *line, w *waiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.head() == w {
		l.block = block{}
	}
	heap.Remove(&l.waiting, w.index)
	l.wakeHead()
	if l.head() == nil {
		l.handOn()
		g.drop(l)
	}
}

// drop forgets a line with nobody in it and nothing in flight.
func (g *Gate) drop(l *line) {
	if l.head() == nil && l.active == 0 && len(l.apart) == 0 && g.lines[l.key] == l {
		delete(g.lines, l.key)
	}
}

// beginAsk reports whether it is this waiter's turn to ask, and which release
// was the last before.
func (g *Gate) beginAsk(l *line, w *waiter) (turn bool, released uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.head() != w || l.asking != nil {
		return false, 0
	}
	l.asking = w
	return true, g.released
}

// endAsk lets others ask: a retry that has joined in front, and the lines
// woken after this one.
func (g *Gate) endAsk(l *line) {
	g.mu.Lock()
	defer g.mu.Unlock()
	asked := l.asking
	l.asking = nil
	if l.head() != asked {
		l.wakeHead()
	}
	l.handOn()
}

// blocked remembers what the head met. A release since released may be the
// very thing it lacked, so it looks again then.
func (g *Gate) blocked(l *line, w *waiter, b block, released uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	news := !b.pause.Equal(l.block.pause)
	if b.limits != nil {
		for _, o := range l.waiting {
			if o.unjudged {
				o.unjudged = false
				o.look()
			}
		}
	}
	l.block = b
	if g.released != released && (b.full || len(b.refused) > 0) {
		w.look()
	}
	if news {
		// Those behind the head may be less patient than it is.
		for _, o := range l.waiting[1:] {
			o.look()
		}
	}
}

// started books a grant of the line's head.
func (g *Gate) started(l *line) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l.active++
	l.block = block{}
}

// behind returns the refusal of a waiter that cannot bear what stands before
// the head of its line, or before itself where it is the last.
func (g *Gate) behind(l *line, w *waiter) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if err := w.bears(l.block, now); err != nil || w.ask.Deadline.IsZero() || w.judged || l.head() == w {
		return err
	}
	if l.block.limits == nil {
		w.unjudged = true
		return nil
	}
	w.judged = true
	n := 0
	for _, o := range l.waiting {
		if o.compare(w) < 0 {
			n++
		}
	}
	if at := l.block.earliest(n, now); at.After(w.ask.Deadline) {
		return &Refused{Reason: Deadline, Until: at, Why: fmt.Sprintf("%d wait before it, and %s", n, l.block.why)}
	}
	return nil
}

func (g *Gate) activity(l *line) policy.Activity {
	g.mu.Lock()
	defer g.mu.Unlock()
	return l.activity()
}

func (l *line) activity() policy.Activity {
	return policy.Activity{InFlight: l.active, Waiting: len(l.waiting)}
}

func (l *line) head() *waiter {
	if len(l.waiting) == 0 {
		return nil
	}
	return l.waiting[0]
}

func (l *line) wakeHead() {
	if w := l.head(); w != nil {
		w.look()
	}
}

// handOn wakes the lines that were to follow this one.
func (l *line) handOn() {
	then := l.then
	l.then = nil
	wakeInTurn(then)
}

// wakeInTurn wakes the first line that has a head; the others follow when it
// has asked, so that what was freed goes to who has waited longest.
func wakeInTurn(lines []*line) {
	for i, l := range lines {
		if l.head() != nil {
			l.then = append(l.then, lines[i+1:]...)
			l.wakeHead()
			return
		}
	}
}

// waiters is a heap by arrival.
type waiters []*waiter

func (h waiters) Len() int           { return len(h) }
func (h waiters) Less(i, j int) bool { return h[i].compare(h[j]) < 0 }
func (h waiters) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *waiters) Push(x any) {
	w := x.(*waiter)
	w.index = len(*h)
	*h = append(*h, w)
}
func (h *waiters) Pop() any {
	old := *h
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return w
}
