package memory

import "github.com/paceline-proxy/paceline/limiter"

// explain puts into a refusal what stood in the way: one entry for each bucket,
// with the latest instant of its limits, and one for the caller's throttle.
func (l *Limiter) explain(d *limiter.Decision, r *limiter.Request, asks []ask, now, until int64) {
	latest := now
	var refused []limiter.Refusal
	if until > now {
		latest = until
		refused = append(refused, limiter.Refusal{Key: r.Key, RetryAt: l.clock.instant(until), Cause: limiter.Throttle})
	}
	for i := range asks {
		at, cause := l.obstacle(&r.Limits[i], &asks[i])
		if at == 0 || l.outlasted(r, asks, i, at) {
			continue
		}
		latest = max(latest, at)
		refused = append(refused, limiter.Refusal{Key: r.Limits[i].Key, RetryAt: l.clock.instant(at), Cause: cause})
	}
	d.Refused = refused
	d.RetryAt = l.clock.instant(latest)
}

// obstacle is when a limit will have room and what it lacks; 0 where it has
// room now.
//
// For places that is the next lapse, also where more than one would have to
// lapse: whoever waits for places is served by a release, not by an instant.
func (l *Limiter) obstacle(limit *limiter.Limit, a *ask) (at int64, cause limiter.Cause) {
	if a.window != nil {
		if full, ok := a.window.fits(int64(limit.Calls), a.cost); !ok {
			at, cause = full, limiter.Rate
		}
	}
	if held := a.bucket.held; limit.Concurrent > 0 && len(held) >= limit.Concurrent {
		if lapse := l.shards[shardOf(a.hash)].places[held[0]].expires; lapse > at {
			at, cause = lapse, limiter.Concurrent
		}
	}
	return at, cause
}

// outlasted says whether another limit of the i-th's bucket stands in the way
// for longer, or for as long and comes first.
func (l *Limiter) outlasted(r *limiter.Request, asks []ask, i int, at int64) bool {
	for j := range asks {
		if j == i || asks[j].bucket != asks[i].bucket {
			continue
		}
		if other, _ := l.obstacle(&r.Limits[j], &asks[j]); other > at || other == at && j < i {
			return true
		}
	}
	return false
}
