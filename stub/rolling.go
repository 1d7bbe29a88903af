package stub

import (
	"sort"
	"time"
)

// rolling admits at most limit requests in any span of per. A request counts
// from its arrival until per later, when it counts no more.
//
// Only the last limit requests can matter: one more is admitted exactly when
// the oldest of those has left the window.
type rolling struct {
	limit int
	per   time.Duration

	counted []time.Time // a ring once it holds limit instants
	oldest  int         // its oldest entry then
}

func (r *rolling) wait(now time.Time, _ int) time.Duration {
	if len(r.counted) < r.limit {
		return 0
	}
	return max(0, r.counted[r.oldest].Add(r.per).Sub(now))
}

func (r *rolling) take(now time.Time, _ int) {
	if len(r.counted) < r.limit {
		r.counted = append(r.counted, now)
		return
	}
	r.counted[r.oldest] = now
	r.oldest = (r.oldest + 1) % r.limit
}

func (r *rolling) penalise(now time.Time, n int) { r.take(now, n) }

func (r *rolling) give(time.Time, time.Time, int) {} // a request is not given back

func (r *rolling) budget(now time.Time) budget {
	// From the newest back to the first that has left: they are in order.
	used := sort.Search(len(r.counted), func(n int) bool { return !r.back(n).Add(r.per).After(now) })
	b := budget{limit: r.limit, remaining: r.limit - used, full: now}
	if b.more = now; used > 0 {
		b.more = r.back(used - 1).Add(r.per)
		b.full = r.back(0).Add(r.per)
	}
	return b
}

// back returns the instant counted n before the newest.
func (r *rolling) back(n int) time.Time {
	size := len(r.counted)
	return r.counted[(r.oldest+2*size-1-n)%size]
}
