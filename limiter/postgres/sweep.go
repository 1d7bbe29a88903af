package postgres

import (
	"context"
	"fmt"
	"time"
)

// How often a limiter in use sweeps, and how many rows of each kind at most.
const (
	sweepEvery = 10 * time.Second
	sweepMost  = 1000
)

// sweepIfDue forgets what counts no more, beside the call that found it due.
func (l *Limiter) sweepIfDue() {
	now, last := int64(time.Since(l.opened)), l.swept.Load()
	if now-last < int64(sweepEvery) || !l.swept.CompareAndSwap(last, now) {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(l.life, sweepEvery/2)
		defer cancel()
		if err := l.sweep(ctx); err != nil && l.life.Err() == nil {
			l.logger.Warn("what counts no more could not be swept up", "error", err)
		}
	}()
}

func (l *Limiter) sweep(ctx context.Context) error {
	_, err := l.call(ctx, fmt.Sprintf("select %s.sweep(%d)", l.schema, sweepMost))
	return err
}
