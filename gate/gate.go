// Package gate is the line in front of a limiter, and the only place that
// waits. Each caller key has one line; its head asks policy for a plan and the
// limiter for a grant, and sleeps until an answer of theirs says that asking
// again is worth it. Nobody overtakes the head, but for those who do not share
// the limits that it waits for.
//
// A line goes by priority, then by clients in turn, the one with the fewest
// starts in the last minute first, then by arrival.
//
// The head's goroutine does the asking, and hands the line on when it leaves.
// Where the limiter answers several requests in one go ([limiter.Batcher]), as
// shared ones do in one round trip, the head asks for those behind it as well,
// asks of several lines travel together, and nobody waits for the limiter who
// only has something to tell it. Nothing of the gate outlives its grants.
package gate

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/policy"
)

// A Gate keeps the lines in front of one limiter. There is one gate per
// limiter in a process, since a place freed in one line may be what another
// waits for.
type Gate struct {
	limiter limiter.Limiter
	carrier *carrier // nil where the limiter answers one request at a time

	mu       sync.Mutex
	lines    map[string]*line
	sweepAt  int    // how many lines are too many not to look at
	joined   uint64 // numbers the waiters, for arrivals of one instant
	roaming  int    // waiters that may go to another line
	renewals map[time.Duration]*renewal
	errands  int                 // under way
	flushed  chan struct{}       // closed when there are none, nil where nobody waits
	lost     map[string][]string // what permits held that have lapsed too soon
	losing   atomic.Bool         // there are some
	fixed    atomic.Bool         // the limiter cannot prolong permits after all
}

// New returns a gate in front of a limiter.
func New(l limiter.Limiter) *Gate {
	g := &Gate{limiter: l, lines: make(map[string]*line), sweepAt: fewLines, renewals: make(map[time.Duration]*renewal)}
	if b, ok := l.(limiter.Batcher); ok {
		g.carrier = &carrier{limiter: b}
	}
	return g
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
	// Hold is how long its places last without a renewal. Where the limiter can
	// renew permits, the gate has it do so until the grant is released.
	Hold time.Duration
	// Fault is told when the limiter could not be told something of the grant.
	// nil is silence.
	Fault func(error)
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
	// Plan says what holds at now. While the request sleeps in line it may be
	// called for it by another goroutine.
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
	// Permit is what the limiter knows it by, empty where the grant holds no
	// place and has nothing to settle.
	Permit string
	At     time.Time
	key    string
	client string
	holds  []string // buckets of which it may give something back
	hold   time.Duration
	fault  func(error)
	errand *errand // nil where the limiter is told at once
}

// grant is the leave to send what was asked for.
func (g *Gate) grant(a *Ask, plan policy.Plan, permit string, at time.Time) Grant {
	grant := Grant{
		Permit: permit, At: at, key: a.Key, client: a.Client, holds: holdsOf(plan.Limits),
		hold: a.Hold, fault: a.Fault,
	}
	if g.carrier != nil && permit != "" {
		grant.errand = new(errand)
	}
	return grant
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
	if g.carrier != nil {
		w.since = time.Now()
		w.told = make(chan *answer, 1)
	}
	w.awake.Lock()
	if err := g.standApart(ctx, w); err != nil {
		return Grant{}, err
	}
	l := g.join(w)
	start := func(grant Grant) (Grant, error) {
		a.Started(grant.At)
		g.begun(l)
		return grant, nil
	}
	leave := func(err error) (Grant, error) {
		if grant, granted := g.leave(l, w); granted {
			return start(grant)
		}
		return Grant{}, err
	}
	var until, again time.Time // zero: until somebody wakes us
	underway := false          // its own question
	for {
		now := time.Now()
		ages := g.age(l, w, now)
		if !until.After(now) { // else its lane may sleep by this alarm
			until = time.Time{}
		}
		var got answer
		if told := w.heed(); told != nil {
			got, underway = *told, false
		} else if turn, seen := g.beginAsk(l, w); turn {
			if got = g.ask(ctx, l, w, seen); got.came && !got.granted {
				g.endAsk(l)
			}
			underway = !got.came
		} else if !underway {
			got.err = g.behind(l, w)
		}
		switch {
		case got.granted:
			return start(got.grant)
		case got.err != nil:
			return leave(got.err)
		case got.came:
			until = got.next
		}
		var err error
		if underway {
			_, err = w.sleep(ctx, ages) // its patience ends with the answer
		} else {
			if a.Elsewhere != nil && (got.came || !again.IsZero() && !again.After(now)) {
				var elsewhere bool
				if elsewhere, again = a.Elsewhere(now, until); elsewhere {
					return leave(ErrElsewhere)
				}
			}
			if a.Waiting != nil {
				if at, held := g.waiting(l, w); held {
					a.Waiting(at)
				}
			}
			err = w.wait(ctx, sooner(sooner(until, again), ages), g.hopes(l, w))
		}
		if err != nil {
			g.explain(l, w, err)
			return leave(err)
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
	if held, granted := g.acquire(ctx, &a, a.Plan(now, activity), now); granted {
		grant = held
		g.mu.Lock()
		g.keep(grant)
		g.mu.Unlock()
	}
	a.Started(now)
	return grant
}

// Release gives back what a grant holds and wakes the lines that may have
// waited for it, the longest-waiting first. freed is whether the provider, too,
// has one request less to work on: a refused one never took a place there.
//
// Where the limiter cannot be reached, it is told again until it has been, or
// until what the grant holds has lapsed by itself.
func (g *Gate) Release(grant Grant, freed bool) {
	atOnce := grant.errand == nil && grant.Permit != ""
	if atOnce {
		g.tryFree(grant)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.forget(grant)
	if l := g.lines[grant.key]; l != nil {
		l.active--
		l.ended++
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
	if atOnce {
		g.giveBack(grant, now)
	} else if grant.errand != nil {
		grant.errand.ends = true
		g.dispatch(grant)
	}
	g.rouse(grant.key, now)
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
		if l.asking {
			l.miss(grant.holds)
		}
		if l.unblock(grant.holds) && l.head(now) != nil {
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
