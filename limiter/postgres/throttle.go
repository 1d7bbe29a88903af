package postgres

import (
	"context"
	"fmt"
	"time"
)

// Throttle closes a caller's key until an instant of time.Now's clock. It lasts
// as long by the server's.
func (l *Limiter) Throttle(ctx context.Context, key string, until time.Time) error {
	left := time.Until(until)
	if left <= 0 {
		return l.alive()
	}
	_, err := l.call(ctx, fmt.Sprintf("select %s.close(%s, %d)", l.schema, appendID(nil, idOf(key)), micros(left)))
	return err
}

// Open ends the throttle of a caller's key.
func (l *Limiter) Open(ctx context.Context, key string) error {
	_, err := l.call(ctx, fmt.Sprintf("select %s.open(%s)", l.schema, appendID(nil, idOf(key))))
	return err
}
