package sqlite

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/paceline-proxy/paceline/limiter"
)

// A share is what a permit's call counts in a bucket, where that can be settled.
type share struct {
	granted int64   // when
	since   int64   // when it first cost more; 0 where it never did
	tallies []tally // the last one is for windows that it did not name
}

// A tally is what the call counts in one window, or, where per is 0, in each
// that its request did not name.
type tally struct {
	per, calls int64
	first      int64 // counted when it was granted
	later      int64 // counted since
}

// shareOf notes what a grant counts in a bucket that the request names with a
// cost of a limit's own; nil where it does not.
func shareOf(r *limiter.Request, key string, now int64) *share {
	own := func(l limiter.Limit) bool { return l.Key == key && l.Cost > 0 && l.Calls > 0 }
	if !slices.ContainsFunc(r.Limits, own) {
		return nil
	}
	s, unnamed := &share{granted: now}, tally{}
	for _, l := range r.Limits {
		if l.Key == key && l.Calls > 0 {
			c := tally{per: int64(l.Per), calls: int64(l.Calls), first: costOf(r, l)}
			s.tallies = append(s.tallies, c)
			unnamed.calls, unnamed.first = max(unnamed.calls, c.calls), max(unnamed.first, c.first)
		}
	}
	s.tallies = append(s.tallies, unnamed)
	return s
}

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
func (b *bucket) settle(s *share, total, now int64) {
	b.changed = true
	for _, c := range s.tallies {
		if c.per > 0 && c.lacks(total) > 0 {
			b.ask(c.per, now) // it may have been empty, and forgotten
		}
	}
	for i := range b.windows {
		w := &b.windows[i]
		w.expire(now)
		c := s.in(w.per)
		if more := min(c.lacks(total), math.MaxInt64-w.used); more > 0 {
			w.book(now, more)
		} else {
			first, rest := c.less(-more)
			w.giveBack(s.granted, first, now)
			w.giveBack(s.since, rest, now)
		}
	}
	for i := range s.tallies {
		c := &s.tallies[i]
		if more := c.lacks(total); more > 0 {
			c.later += more
			if s.since == 0 {
				s.since = now
			}
		} else {
			first, rest := c.less(-more)
			c.first, c.later = c.first-first, c.later-rest
		}
	}
}

// in is what the call counts in the window of a span.
func (s *share) in(per int64) tally {
	for _, c := range s.tallies {
		if c.per == per {
			return c
		}
	}
	return s.tallies[len(s.tallies)-1]
}

// lacks is how much more a total is than what counts.
func (c tally) lacks(total int64) int64 { return min(total, c.calls) - c.first - c.later }

// less is what part of a cost is taken off what the grant counted, and what off
// the rest.
func (c tally) less(cost int64) (first, rest int64) {
	first = min(cost, c.first)
	return first, cost - first
}

// giveBack takes a cost off what a window has counted since an instant, unless
// that has left it.
func (w *window) giveBack(at, cost, now int64) {
	if cost > 0 && at > now-w.per {
		w.takeOff(at, cost)
	}
}
