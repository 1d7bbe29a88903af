package sqlite

import (
	"context"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// Peek says how full limits are and until when a caller's key is closed. It
// counts nothing and writes nothing.
func (l *Limiter) Peek(ctx context.Context, key string, limits []limiter.Limit) (w limiter.View, err error) {
	if err := (limiter.Request{Limits: limits, Hold: 1}).Validate(); err != nil {
		return w, err
	}
	err = l.view(ctx, func(v *visit) error {
		w = limiter.View{Now: instant(v.now), Usage: make([]limiter.Usage, len(limits))}
		until, err := v.throttled(key)
		if err != nil {
			return err
		}
		if until > v.now {
			w.Throttled = instant(until)
		}
		for i, limit := range limits {
			b, err := v.bucket(limit.Key)
			if err != nil {
				return err
			}
			if limit.Calls > 0 {
				w.Usage[i].Used = int(b.view(int64(limit.Per), v.now).used)
			}
			if limit.Concurrent > 0 {
				w.Usage[i].Held, _ = b.places()
			}
		}
		return nil
	})
	if err != nil {
		return limiter.View{}, err
	}
	return w, nil
}

// Seed counts a call that was granted at an earlier instant of time.Now's clock.
func (l *Limiter) Seed(ctx context.Context, limits []limiter.Limit, at time.Time) error {
	r := limiter.Request{Limits: limits, Hold: 1}
	if err := r.Validate(); err != nil {
		return err
	}
	return l.update(ctx, func(v *visit) error {
		age := int64(max(0, time.Since(at)))
		then := v.present() - age
		buckets := make([]*bucket, len(limits))
		for i, limit := range limits {
			b, err := v.bucket(limit.Key)
			if err != nil {
				return err
			}
			buckets[i] = b
			if limit.Calls == 0 {
				continue
			}
			if w := b.ask(int64(limit.Per), v.now); then > v.now-w.per {
				w.insert(then, costOf(&r, limit))
				b.changed = true
			}
		}
		v.bookUnnamed(&r, buckets, then)
		return nil
	})
}
