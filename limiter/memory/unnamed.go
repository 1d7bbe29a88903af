package memory

import (
	"math"

	"github.com/paceline-proxy/paceline/limiter/internal/spans"
)

// bookUnnamed counts a grant in those windows of its buckets that the request
// did not name: they are views of the same history. It counts there as the most
// it counts in any that was named, and not at all in a bucket that was asked
// for places only.
func bookUnnamed(asks []ask, now int64) {
	for i := range asks {
		b := asks[i].bucket
		if asks[i].alone(asks[i+1:]) && b.book(asks, now) {
			b.prune(now)
		}
	}
}

// alone says whether none of some other asks is for the same bucket.
func (a *ask) alone(others []ask) bool {
	for i := range others {
		if others[i].bucket == a.bucket {
			return false
		}
	}
	return true
}

// book counts a grant in the windows none of the asks names, and says whether
// one of them has become stale.
func (b *bucket) book(asks []ask, now int64) (stale bool) {
	var cost int64
	for i := range asks {
		if asks[i].bucket == b {
			cost = max(cost, asks[i].cost)
		}
	}
	if cost == 0 {
		return false
	}
	for i := range b.windows {
		w := &b.windows[i]
		if !named(asks, w) {
			w.expire(now)
			// Without regard to its numbers: up to the brim, if need be.
			w.book(now, min(cost, math.MaxInt64-w.used()))
			stale = stale || spans.Stale(w.per, w.asked, now)
		}
	}
	return stale
}

func named(asks []ask, w *window) bool {
	for i := range asks {
		if asks[i].window == w {
			return true
		}
	}
	return false
}
