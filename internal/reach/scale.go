package reach

import (
	"math"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// scale is a share of limits. Where the share of a rate is less than one call,
// its window is longer instead; a place is left in any case.
func scale(limits []limiter.Limit, share float64) []limiter.Limit {
	scaled := make([]limiter.Limit, 0, len(limits))
	for _, l := range limits {
		if l.Calls > 0 {
			l.Calls, l.Per = scaleRate(l.Calls, l.Per, share)
		}
		if l.Concurrent > 0 {
			l.Concurrent = max(1, int(float64(l.Concurrent)*share+rounding))
		}
		scaled = merge(scaled, l)
	}
	return scaled
}

// rounding is what a product may lack of the whole number that it is.
const rounding = 1e-9

func scaleRate(calls int, per time.Duration, share float64) (int, time.Duration) {
	n := float64(calls) * share
	if n+rounding >= 1 {
		return int(n + rounding), per
	}
	long := math.Ceil(float64(per)/n/float64(time.Millisecond) - rounding)
	if long >= float64(math.MaxInt64/time.Millisecond) {
		return 1, math.MaxInt64
	}
	return 1, time.Duration(long) * time.Millisecond
}

// merge adds a limit. No bucket may have two limits of one length: of those the
// smaller holds.
func merge(limits []limiter.Limit, l limiter.Limit) []limiter.Limit {
	for i := range limits {
		o := &limits[i]
		if o.Key != l.Key || o.Per != l.Per {
			continue
		}
		o.Calls, o.Cost = min(o.Calls, l.Calls), max(o.Cost, l.Cost)
		if o.Concurrent == 0 || l.Concurrent > 0 && l.Concurrent < o.Concurrent {
			o.Concurrent = l.Concurrent
		}
		return limits
	}
	return append(limits, l)
}

// endless is more than anybody calls or holds.
const endless = 1 << 30

// unlimited is what counts as limits do and refuses nothing. Windows are as long
// as they may be asked with for a share.
func unlimited(r limiter.Request, share float64) []limiter.Limit {
	limits := make([]limiter.Limit, 0, len(r.Limits))
	for _, l := range r.Limits {
		if l.Calls > 0 {
			if cost := r.CostOf(l); cost > l.Calls {
				l.Cost = l.Calls // it counts as that many
			}
			_, long := scaleRate(l.Calls, l.Per, share)
			l.Calls, l.Per = endless, max(l.Per, long)
		}
		if l.Concurrent > 0 {
			l.Concurrent = endless
		}
		limits = merge(limits, l)
	}
	return limits
}
