package sqlite

import (
	"context"
	"fmt"
	"math"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/internal/settling"
)

// Settle puts right what a permit's call counts in buckets that its request
// named with a cost of a limit's own.
func (l *Limiter) Settle(ctx context.Context, permit string, costs []limiter.Cost) error {
	for _, c := range costs {
		if c.Cost < 0 {
			return fmt.Errorf("%w: cost %d of %q is negative", limiter.ErrInvalid, c.Cost, c.Key)
		}
	}
	p, ok := parsePermit(permit)
	if !ok {
		return l.alive(ctx)
	}
	return l.update(ctx, func(v *visit) error {
		buckets, err := v.holders(p)
		for _, b := range buckets {
			for _, c := range costs {
				if s := b.find(p.number).share; s != nil && c.Key == b.key {
					b.settle(s, int64(c.Cost), v.now)
				}
			}
		}
		return err
	})
}

// settle makes a share count total.
func (b *bucket) settle(s *settling.Share, total, now int64) {
	b.changed = true
	for _, c := range s.Tallies {
		if more, _, _ := c.Change(total); more > 0 && c.Per > 0 {
			b.ask(c.Per, now) // it may have been empty, and forgotten
		}
	}
	for i := range b.windows {
		w := &b.windows[i]
		w.expire(now)
		more, first, later := s.In(w.per).Change(total)
		if more = min(more, math.MaxInt64-w.used); more > 0 {
			w.book(now, more)
		}
		w.giveBack(s.Granted, first, now)
		w.giveBack(s.Since, later, now)
	}
	s.Settle(total, now)
}

// giveBack takes a cost off what a window has counted since an instant, unless
// that has left it.
func (w *window) giveBack(at, cost, now int64) {
	if cost > 0 && at > now-w.per {
		w.takeOff(at, cost)
	}
}
