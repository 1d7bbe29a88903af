// Package gate is the line in front of a limiter, and the only place that
// waits. Each caller key has one line; its head asks policy for a plan and the
// limiter for a grant, and sleeps until an answer of theirs says that asking
// again is worth it. Nobody overtakes the head, but for those who do not share
// the limits that it waits for.
//
// A line goes by priority, then by clients in turn, the one with the fewest
// starts in the last minute first, then by arrival.
//
// There is no goroutine of the gate's own: the head's does the asking, and
// hands the line on when it leaves.
package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/policy"
)

// A Gate keeps the lines in front of one limiter. There is one gate per
// limiter in a process, since a place freed in one line may be what another
// waits for.
type Gate struct {
	limiter limiter.Limiter

	mu       sync.Mutex
	lines    map[string]*line
	sweepAt  int    // how many lines are too many not to look at
	released uint64 // counts releases
	joined   uint64 // numbers the waiters, for arrivals of one instant
	roaming  int    // waiters that may go to another line
}

// New returns a gate in front of a limiter.
func New(l limiter.Limiter) *Gate {
	return &Gate{limiter: l, lines: make(map[string]*line), sweepAt: fewLines}
}

// An Ask is a request that wants to be started.
type Ask struct {
	// Key is the caller key: which line to stand in, and whom throttles close.
	Key string
	// Priority, Client and Arrived order the line. A retry keeps the arrival of
	// its request.
	Priority Priority
	Client   string
	Arrived  time.Time
	// Lane names those of the key's requests that have the same limits of their
	// own beside the key's.
	Lane string
	// Hold is how long its places last without a renewal.
	Hold time.Duration
	// NotBefore is a wait of this request alone. It stands outside the line
	// until then, or with OrRelease until another request of the key ends.
	NotBefore time.Time
	OrRelease bool
	// Deadline is when the caller stops waiting, zero for never. A start that
	// cannot come before it is refused at once.
	Deadline time.Time
	// Leave is when the request leaves the line, zero for never: not that it
	// would be too late then, but its client has to be answered.
	Leave time.Time
	// Stop ends the waiting when it is closed.
	Stop <-chan struct{}
	// MaxPause is the longest rest of a pause to wait for; negative is any.
	// WaitForQuota waits for any pause of a spent quota.
	MaxPause     time.Duration
	WaitForQuota bool
	// Waits is asked once, before the request begins to wait; its error ends
	// it. nil lets it.
	Waits func() error
	// Waiting is told what the request waits for, whenever it begins to, and
	// whenever it has looked again. nil: nobody wants to know.
	Waiting func(Waiting)
	// Anyway is whether the request is to be sent whatever the observed budgets
	// say. nil: it is not.
	Anyway func() bool
	// Plan says what holds at now.
	Plan func(now time.Time, a policy.Activity) policy.Plan
	// Reread is how often the plan of one that waits for a budget is made again,
	// since another process may have been told more. 0: when the wait is over.
	Reread time.Duration
	// Started is told of the grant before anyone else of the line may ask.
	Started func(at time.Time)
	// Others are other caller keys under which the request may be made instead.
	// Where there are any, Elsewhere is asked after each ask that was not
	// granted: whether to leave this line with ErrElsewhere, and if not, when to
	// look again at the latest (zero for whenever). until is when the line asks
	// again, zero where no clock tells.
	Others    []string
	Elsewhere func(now, until time.Time) (leave bool, again time.Time)
}

// ErrElsewhere is what a request leaves a line with that does better in
// another.
var ErrElsewhere = errors.New("another line is shorter")

// A Grant is the leave to send one request. It must be released.
type Grant struct {
	// Permit is what to renew and to settle, empty where the grant holds no
	// place and has nothing to settle.
	Permit string
	At     time.Time
	key    string
	client string
	holds  []string // buckets of which it may give something back
}

// Enter stands in line until the request may be started. It returns
// *Refused where it may not, ctx.Err() where the caller left, and any other
// error where the limiter could not be asked.
func (g *Gate) Enter(ctx context.Context, a Ask) (Grant, error) {
	if err := ctx.Err(); err != nil {
		return Grant{}, err
	}
	if !a.Deadline.IsZero() && a.NotBefore.After(a.Deadline) {
		return Grant{}, &Refused{Reason: Deadline, Until: a.NotBefore, Why: "its own backoff ends later"}
	}
	w := &waiter{ask: a, priority: a.Priority, kick: make(chan struct{}, 1)}
	if err := g.standApart(ctx, w); err != nil {
		return Grant{}, err
	}
	l := g.join(w)
	var until, again time.Time // zero: until somebody wakes us
	for {
		now := time.Now()
		ages := g.age(l, w, now)
		if !until.After(now) { // else its lane may sleep by this alarm
			until = time.Time{}
		}
		turn, seen := g.beginAsk(l, w)
		if turn {
			grant, granted, next, err := g.ask(ctx, l, w, seen)
			leaves := err != nil || granted
			g.endAsk(l, w, leaves)
			if leaves {
				return grant, err
			}
			until = next
		} else if err := g.behind(l, w); err != nil {
			g.leave(l, w)
			return Grant{}, err
		}
		if a.Elsewhere != nil && (turn || !again.IsZero() && !again.After(now)) {
			var leave bool
			if leave, again = a.Elsewhere(now, until); leave {
				g.leave(l, w)
				return Grant{}, ErrElsewhere
			}
		}
		if a.Waiting != nil {
			if at, held := g.waiting(l, w); held {
				a.Waiting(at)
			}
		}
		if err := w.sleep(ctx, sooner(sooner(until, again), ages)); err != nil {
			g.explain(l, w, err)
			g.leave(l, w)
			return Grant{}, err
		}
	}
}

// Pass lets a request through at once, whatever its plan says. What fits is
// counted in the limiter, so that others see it.
func (g *Gate) Pass(ctx context.Context, a Ask) Grant {
	now := time.Now()
	grant := Grant{At: now, key: a.Key, client: a.Client}
	g.mu.Lock()
	l := g.line(a.Key)
	l.active++
	l.client(a.Client).active++
	if a.Priority != Background {
		l.foreground = now
	}
	activity := l.activity()
	g.mu.Unlock()
	activity.Background = a.Priority == Background
	limits := a.Plan(now, activity).Limits
	if d, err := g.limiter.Acquire(ctx, limiter.Request{Key: a.Key, Limits: limits, Hold: a.Hold}); err == nil && d.Granted {
		grant.Permit, grant.holds = d.Permit, holdsOf(limits)
	}
	a.Started(now)
	return grant
}

// ask puts the head's question. Where it is not granted, next is when to ask
// again, zero where only somebody's waking tells.
func (g *Gate) ask(ctx context.Context, l *line, w *waiter, seen view) (grant Grant, granted bool, next time.Time, err error) {
	if err := ctx.Err(); err != nil {
		return Grant{}, false, time.Time{}, err
	}
	select {
	case <-w.ask.Stop:
		return Grant{}, false, time.Time{}, stopped()
	default:
	}
	now := time.Now()
	plan := w.ask.Plan(now, seen.activity)
	b := block{limits: plan.Limits[plan.Own : len(plan.Limits)-plan.Passing], why: plan.Why}
	if plan.Full {
		b.full, b.limits = true, nil
		g.blocked(l, w, b, false, seen.released)
		return Grant{}, false, time.Time{}, nil
	}
	if plan.NotBefore.After(now) {
		b.until, b.closed, b.quota = plan.NotBefore, plan.Closed, plan.Quota
		b.ordered, b.budget = plan.Ordered, plan.Budget
		if plan.Paused {
			b.firm = plan.NotBefore
			if !plan.Ordered {
				b.pause = plan.NotBefore
			}
		}
		g.blocked(l, w, b, false, seen.released)
		next := plan.NotBefore
		if plan.Look.After(now) {
			next = sooner(next, plan.Look)
		}
		if w.ask.Reread > 0 && plan.Budget != nil {
			next = sooner(next, now.Add(w.ask.Reread))
		}
		return Grant{}, false, next, w.bears(b, now)
	}
	d := limiter.Decision{Granted: plan.Free}
	if !plan.Free {
		d, err = g.limiter.Acquire(ctx, limiter.Request{
			Key: w.ask.Key, Limits: plan.Limits, Hold: w.ask.Hold,
		})
	}
	if err != nil {
		return Grant{}, false, time.Time{}, cmp.Or(ctx.Err(), fmt.Errorf("asking the limiter: %w", err))
	}
	if d.Granted {
		at := time.Now() // the answer may have taken its time
		g.started(l, w, at)
		w.ask.Started(at)
		return Grant{Permit: d.Permit, At: at, key: w.ask.Key, client: w.ask.Client, holds: holdsOf(plan.Limits)}, true, time.Time{}, nil
	}
	// Its clock may be another than ours, so only differences count, from an
	// instant after the answer: asking early would only be refused again.
	now = time.Now()
	own := plan.Limits[:plan.Own]
	mine := block{refused: d.Refused, limits: own, why: describe(d.Refused, own)}
	b.refused, b.why = d.Refused, describe(d.Refused, plan.Limits[plan.Own:])
	meetsOwn := true
	for _, f := range d.Refused {
		at := now.Add(f.RetryAt.Sub(d.Now))
		to := &b
		if names(own, f.Key) {
			if to = &mine; !plan.Eases.IsZero() {
				at = sooner(at, plan.Eases)
			}
		} else {
			meetsOwn = false
		}
		to.until = later(to.until, at)
		if f.Cause == limiter.Throttle {
			to.pause = at
		}
		// Places and tokens may be given back before.
		if f.Cause != limiter.Concurrent && !counts(plan.Limits, f.Key) {
			to.firm = later(to.firm, at)
		}
	}
	// What the line meets holds everybody up; then only its lane waits on.
	if meetsOwn = meetsOwn && len(d.Refused) > 0; meetsOwn {
		b = mine
	}
	if !b.until.After(now) {
		b.until = now.Add(time.Millisecond) // not all the time for what has passed
	}
	g.blocked(l, w, b, meetsOwn, seen.released)
	if err := w.bears(mine, now); err != nil {
		return Grant{}, false, time.Time{}, err
	}
	return Grant{}, false, b.until, w.bears(b, now)
}

// names reports whether one of these limits counts in a bucket.
func names(limits []limiter.Limit, bucket string) bool {
	return slices.ContainsFunc(limits, func(l limiter.Limit) bool { return l.Key == bucket })
}

// counts reports whether a bucket is one of tokens, in which a request counts
// with a cost that may yet change.
func counts(limits []limiter.Limit, bucket string) bool {
	return slices.ContainsFunc(limits, func(l limiter.Limit) bool { return l.Key == bucket && l.Cost > 0 })
}

// holdsOf names the buckets in which a grant of these limits holds a place or
// counts with a cost that can be settled.
func holdsOf(limits []limiter.Limit) (keys []string) {
	for _, l := range limits {
		if l.Concurrent > 0 || l.Cost > 0 {
			keys = append(keys, l.Key)
		}
	}
	return keys
}

// Release gives back what a grant holds and wakes the lines that may have
// waited for it, the longest-waiting first. freed is whether the provider, too,
// has one request less to work on: a refused one never took a place there.
func (g *Gate) Release(ctx context.Context, grant Grant, freed bool) error {
	var err error
	if grant.Permit != "" {
		if err = g.limiter.Release(ctx, grant.Permit); err != nil {
			err = fmt.Errorf("releasing a permit: %w", err)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.released++
	now := time.Now()
	if l := g.lines[grant.key]; l != nil {
		l.active--
		c := l.client(grant.client)
		c.active--
		l.forget(c)
		if freed && len(l.apart) > 0 {
			l.free()
		}
		if l.block.full {
			l.wakeHead(now)
		}
		g.drop(l)
	}
	g.giveBack(grant, now)
	g.rouse(grant.key, now)
	return err
}

// rouse has those look who may go to a line that nobody waits in. The lock is
// held.
func (g *Gate) rouse(key string, now time.Time) {
	if l := g.lines[key]; g.roaming == 0 || l != nil && l.length() > 0 {
		return
	}
	for _, l := range g.lines {
		if w := l.head(now); w != nil && slices.Contains(w.ask.Others, key) {
			w.look()
		}
	}
}

// giveBack wakes the lines that may have waited for what a grant held. The lock
// is held.
func (g *Gate) giveBack(grant Grant, now time.Time) {
	if len(grant.holds) == 0 {
		return
	}
	var woken []*line
	for _, l := range g.lines {
		if l.lacks(grant.holds) && l.head(now) != nil {
			woken = append(woken, l)
		}
	}
	slices.SortFunc(woken, func(a, b *line) int { return a.head(now).compare(b.head(now)) })
	wakeInTurn(woken, now)
}

// Wake has the head of a line look again, after what its plan is made from
// has changed.
func (g *Gate) Wake(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := g.lines[key]; l != nil {
		// Nobody is to be judged any more by what may be over.
		l.block = block{}
		for _, a := range l.lanes {
			a.block = block{}
		}
		l.wakeHead(time.Now())
	}
	g.rouse(key, time.Now())
}

// Activity is what the line of a caller key is doing.
func (g *Gate) Activity(key string) policy.Activity {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := g.lines[key]; l != nil {
		return l.activity()
	}
	return policy.Activity{}
}
