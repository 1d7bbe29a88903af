package paceline

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/paceline-proxy/paceline/gate"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/policy"
)

// A Mode is whether limits are enforced.
type Mode string

// The modes.
const (
	// Enforce has requests wait for their turn. The default.
	Enforce Mode = "enforce"
	// Observe sends every request once and at once, and notes in its record how
	// long it would have waited, and why. What fits the limits is counted.
	Observe Mode = "observe"
	// Off sends every request once and at once, and only records it.
	Off Mode = "off"
)

func (m Mode) validate() error {
	switch m {
	case "", Enforce, Observe, Off:
		return nil
	}
	return fmt.Errorf("mode is %q: it is %q, %q or %q", m, Enforce, Observe, Off)
}

// enforced reports whether requests wait, and are repeated.
func (m Mode) enforced() bool { return m != Observe && m != Off }

// Observed is what would have become of a request in the mode Enforce. Its
// record says whether the provider refused it, sent as it was.
type Observed struct {
	// Wait is how long it would have waited at least, and Why what for: for
	// pauses, and for the windows as they would be had every request observed
	// before it been started when its own wait was over. What the provider says
	// to a request that would have waited teaches nothing, since it would not
	// have been asked then. Places count as they are taken now; how long one
	// would have been waited for nobody can know.
	Wait time.Duration
	Why  string
}

// observe sends a call at once, and notes what it would have waited.
func (c *call) observe() gate.Grant {
	c.queuedSince = time.Time{}
	ask := c.ask()
	var plan policy.Plan
	ask.Plan = func(now time.Time, a policy.Activity) policy.Plan {
		plan = c.plan(now, a)
		return plan
	}
	grant := c.home.gate.Pass(context.WithoutCancel(c.ctx), ask)
	at, why := c.home.shadow.place(plan, grant.At)
	if places := takenBy(plan.Limits); why == "" && places != 0 && grant.Permit == "" {
		why = fmt.Sprintf("at most %d run at once", places)
	}
	c.observed = &Observed{Wait: at.Sub(grant.At), Why: why}
	return grant
}

func takenBy(limits []limiter.Limit) (n int) {
	for _, l := range limits {
		if l.Concurrent > 0 && (n == 0 || l.Concurrent < n) {
			n = l.Concurrent
		}
	}
	return n
}

// A shadow is the windows as enforced limits would have filled them.
type shadow struct {
	mu      sync.Mutex
	buckets map[string]shadowed
	sweepAt int // how many buckets are too many not to look at
}

// A shadowed bucket is its starts, in order, and how long they count.
type shadowed struct {
	starts []shadowedStart
	per    time.Duration
}

// A shadowedStart is when one would have been, and what it was to cost.
type shadowedStart struct {
	at   time.Time
	cost int
}

// free is when there would be room for a cost in a window of calls: where those
// that leave with the start before have left enough.
func (b shadowed) free(calls, cost int, per time.Duration) (at time.Time) {
	room := calls - min(cost, calls)
	for _, s := range slices.Backward(b.starts) {
		if room -= s.cost; room < 0 {
			return s.at.Add(per)
		}
	}
	return at
}

const (
	// mostShadows bounds the starts of a bucket that are remembered.
	mostShadows = 1 << 16
	// fewShadows are too few buckets to look for those that are empty again.
	fewShadows = 64
)

// place books a start under a plan, as early as it may be, and says what it
// would have waited for last.
func (s *shadow) place(plan policy.Plan, now time.Time) (at time.Time, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at = now
	if plan.NotBefore.After(at) {
		at, why = plan.NotBefore, plan.Why
	}
	longest, costs := map[string]time.Duration{}, map[string]int{}
	for _, l := range plan.Limits {
		if l.Calls == 0 {
			continue
		}
		longest[l.Key] = max(longest[l.Key], l.Per)
		cost := max(1, l.Cost)
		costs[l.Key] = max(costs[l.Key], cost)
		if free := s.buckets[l.Key].free(l.Calls, cost, l.Per); free.After(at) {
			if at, why = free, fmt.Sprintf("at most %d start in %v", l.Calls, l.Per); l.Cost > 0 {
				why = fmt.Sprintf("at most %d tokens in %v", l.Calls, l.Per)
			}
		}
	}
	if len(s.buckets) >= s.sweepAt {
		s.sweep(now)
	}
	for key, per := range longest {
		starts := s.buckets[key].starts
		when := func(s shadowedStart, t time.Time) int { return s.at.Compare(t) }
		gone, _ := slices.BinarySearchFunc(starts, now.Add(-per), when)
		gone = max(gone, len(starts)-mostShadows+1)
		i, _ := slices.BinarySearchFunc(starts, at, when)
		starts = slices.Insert(starts, i, shadowedStart{at, costs[key]})
		if s.buckets == nil {
			s.buckets = make(map[string]shadowed)
		}
		s.buckets[key] = shadowed{starts[gone:], per}
	}
	return at, why
}

// sweep forgets the buckets that are empty again.
func (s *shadow) sweep(now time.Time) {
	maps.DeleteFunc(s.buckets, func(_ string, b shadowed) bool {
		return now.Sub(b.starts[len(b.starts)-1].at) >= b.per
	})
	s.sweepAt = max(fewShadows, 2*len(s.buckets))
}
