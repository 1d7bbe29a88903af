package memory

import (
	"context"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// Peek says how full limits are and until when a caller's key is closed. It
// counts nothing and makes no bucket.
func (l *Limiter) Peek(_ context.Context, key string, limits []limiter.Limit) (v limiter.View, err error) {
	if err := (limiter.Request{Limits: limits, Hold: 1}).Validate(); err != nil {
		return v, err
	}
	if !l.ready.Load() {
		l.start()
	}
	l.catchUp(false)
	asks := make([]ask, len(limits))
	caller := hashOf(key)
	set := survey(limits, asks) | 1<<shardOf(caller)
	l.lock(set)
	defer l.unlock(set)
	now, _ := l.clock.now()
	v.Now = l.clock.instant(now)
	if until := l.shards[shardOf(caller)].throttles.until[key]; until > now {
		v.Throttled = l.clock.instant(until)
	}
	v.Usage = make([]limiter.Usage, len(limits))
	for i, limit := range limits {
		s := &l.shards[shardOf(asks[i].hash)]
		b := s.seek(asks[i].hash, limit.Key)
		if b == nil {
			continue
		}
		if limit.Calls > 0 {
			w := b.view(int64(limit.Per), now)
			w.expire(now)
			v.Usage[i].Used = int(w.used())
		}
		if limit.Concurrent > 0 {
			s.lapse(b, now)
			v.Usage[i].Held = len(b.held)
		}
	}
	return v, nil
}

// Seed counts a call that was granted at an earlier instant of time.Now's
// clock. It is best done in order, the earliest first, which costs the least.
func (l *Limiter) Seed(_ context.Context, limits []limiter.Limit, at time.Time) error {
	r := limiter.Request{Limits: limits, Hold: 1}
	if err := r.Validate(); err != nil {
		return err
	}
	if !l.ready.Load() {
		l.start()
	}
	if time.Since(at) >= time.Duration(epoch) { // before the clock's beginning
		return nil
	}
	asks := make([]ask, len(limits))
	set := survey(limits, asks)
	l.lock(set)
	read := time.Now()
	now := l.clock.at(read)
	then := now - int64(max(0, read.Sub(at))) // by one reading of the clock
	l.peek(&r, asks, now)
	for i := range asks {
		if w := asks[i].window; w != nil && then > now-w.per {
			w.insert(then, asks[i].cost)
		}
	}
	bookUnnamed(asks, then)
	var written uint64
	if l.journal != nil && len(asks) > 0 {
		written = l.granted(&r, asks, "", now, then)
	}
	l.unlock(set)
	l.commit(written)
	return nil
}
