package redis

import (
	"context"
	"time"
)

// Throttle closes a caller's key until an instant of time.Now's clock. A later
// instant wins; one that has passed changes nothing.
func (l *Limiter) Throttle(ctx context.Context, key string, until time.Time) error {
	left := time.Until(until) // saturates
	if left <= 0 {
		return l.open()
	}
	_, err := l.run(ctx, l.scripts.throttle, []string{l.key(throttleKey, hashOf(key))}, []string{number(micros(left))})
	return err
}

// Open ends the throttle of a caller's key.
func (l *Limiter) Open(ctx context.Context, key string) error {
	_, err := l.run(ctx, l.scripts.open, []string{l.key(throttleKey, hashOf(key))}, nil)
	return err
}
