package sqlite

import (
	"context"
	"time"
)

// Throttle closes a caller's key until an instant of time.Now's clock. A later
// instant wins; one that has passed changes nothing.
func (l *Limiter) Throttle(ctx context.Context, key string, until time.Time) error {
	if time.Until(until) <= 0 {
		return l.alive(ctx)
	}
	return l.update(ctx, func(v *visit) error {
		left := max(0, int64(time.Until(until))) // saturates
		return v.set(setThrottle, key, after(v.present(), left))
	})
}

// Open ends the throttle of a caller's key.
func (l *Limiter) Open(ctx context.Context, key string) error {
	return l.update(ctx, func(v *visit) error { return v.set(endThrottle, key) })
}

// throttled is until when a caller's key is closed; 0 where it never was.
func (v *visit) throttled(key string) (until int64, err error) {
	if v.caller != nil && *v.caller == key {
		return v.until, nil
	}
	v.caller, v.until = &key, 0
	_, err = v.l.row(getThrottle, []any{key}, &v.until)
	return v.until, err
}
