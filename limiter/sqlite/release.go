package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// Release gives back the places of a permit. A permit that holds none any more,
// or never did, is no error and frees nothing.
func (l *Limiter) Release(ctx context.Context, permit string) error {
	p, ok := parsePermit(permit)
	if !ok {
		return l.alive(ctx)
	}
	return l.update(ctx, func(v *visit) error {
		buckets, err := v.holders(p)
		for _, b := range buckets {
			b.held = slices.DeleteFunc(b.held, func(h holding) bool { return h.permit == p.number })
			b.changed = true
		}
		return err
	})
}

// Renew makes each permit last for hold from now, be that longer or shorter than
// it had left. hold must be positive.
func (l *Limiter) Renew(ctx context.Context, permits []string, hold time.Duration) error {
	if hold <= 0 {
		return fmt.Errorf("%w: hold %v is not positive", limiter.ErrInvalid, hold)
	}
	return l.update(ctx, func(v *visit) error {
		for _, permit := range permits {
			p, ok := parsePermit(permit)
			if !ok {
				continue
			}
			buckets, err := v.holders(p)
			if err != nil {
				return err
			}
			for _, b := range buckets {
				b.find(p.number).expires = after(v.now, int64(hold))
				b.changed = true
			}
		}
		return nil
	})
}
