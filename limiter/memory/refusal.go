package memory

import "github.com/paceline-proxy/paceline/limiter"

// explain puts into a refusal what stood in the way: one entry for each bucket,
// with the latest instant of its limits, and one for the caller's throttle.
func (l *Limiter) explain(d *limiter.Decision, r *limiter.Request, asks []ask, now, until int64) {
	entries := 0
	for i := range asks {
		if asks[i].retry > 0 {
			entries++
		}
	}
	if until > now {
		entries++
	}
	d.Refused = make([]limiter.Refusal, 0, entries)
	latest := now
	if until > now {
		latest = until
		d.Refused = append(d.Refused, limiter.Refusal{Key: r.Key, RetryAt: l.clock.instant(until), Cause: limiter.Throttle})
	}
	for i := range asks {
		a := &asks[i]
		if a.retry == 0 || outlasted(asks, i) {
			continue
		}
		latest = max(latest, a.retry)
		d.Refused = append(d.Refused, limiter.Refusal{Key: r.Limits[i].Key, RetryAt: l.clock.instant(a.retry), Cause: a.cause})
	}
	d.RetryAt = l.clock.instant(latest)
}

// outlasted says whether another limit of the same bucket refuses for longer
// than the i-th, or as long and comes first.
func outlasted(asks []ask, i int) bool {
	for j := range asks {
		if asks[j].bucket == asks[i].bucket && (asks[j].retry > asks[i].retry || asks[j].retry == asks[i].retry && j < i) {
			return true
		}
	}
	return false
}
