package memory

import (
	"context"
	"fmt"
	"math"

	"github.com/paceline-proxy/paceline/limiter"
)

// A share is what a permit's call counts in a bucket, where that can be settled.
type share struct {
	hash    uint64
	key     string
	granted int64   // when
	since   int64   // when it first cost more; 0 where it never did
	windows []tally // the last one is for those that it did not name
}

// A tally is what the call counts in one window, or, where per is 0, in each
// that its request did not name.
type tally struct {
	per, calls int64
	first      int64 // counted when it was granted
	later      int64 // counted since
}

// shares notes what a grant counts in windows whose limits have a cost of their
// own.
func shares(r *limiter.Request, asks []ask, now int64) (all []share) {
	for i := range asks {
		b := asks[i].bucket
		if !settles(r, asks, b) || !asks[i].alone(asks[:i]) {
			continue
		}
		s := share{hash: b.hash, key: b.key, granted: now}
		unnamed := tally{}
		for k := range asks {
			a, l := &asks[k], &r.Limits[k]
			if a.bucket == b && l.Calls > 0 {
				s.windows = append(s.windows, tally{per: int64(l.Per), calls: int64(l.Calls), first: a.cost})
				unnamed.calls, unnamed.first = max(unnamed.calls, int64(l.Calls)), max(unnamed.first, a.cost)
			}
		}
		s.windows = append(s.windows, unnamed)
		all = append(all, s)
	}
	return all
}

// settles says whether a request names a window of b with a cost of its own.
func settles(r *limiter.Request, asks []ask, b *bucket) bool {
	for i := range asks {
		if asks[i].bucket == b && r.Limits[i].Cost > 0 && r.Limits[i].Calls > 0 {
			return true
		}
	}
	return false
}

// Settle puts right what a permit's call counts in buckets that its request
// named with a cost of a limit's own.
func (l *Limiter) Settle(_ context.Context, permit string, costs []limiter.Cost) error {
	for _, c := range costs {
		if c.Cost < 0 {
			return fmt.Errorf("%w: cost %d of %q is negative", limiter.ErrInvalid, c.Cost, c.Key)
		}
	}
	home, ok := homeOf(permit)
	if !ok {
		return nil
	}
	s := &l.shards[home.shard]
	set := uint64(1) << home.shard
	s.mu.Lock()
	if p := s.find(home.index, permit); p != nil {
		for i := range p.shares { // which ones they are never changes
			set |= 1 << shardOf(p.shares[i].hash)
		}
	}
	s.mu.Unlock()

	// Locks are taken in ascending order, so the first had to be given back.
	l.lock(set)
	var written uint64
	now, _ := l.clock.now()
	if p := s.find(home.index, permit); p != nil && p.expires > now {
		for i := range p.shares {
			for _, c := range costs {
				if p.shares[i].key == c.Key {
					written = max(written, l.settle(&p.shares[i], int64(c.Cost), now))
				}
			}
		}
	}
	l.unlock(set)
	l.commit(written)
	return nil
}

// settle makes a share count total. Its bucket's shard is locked.
func (l *Limiter) settle(s *share, total, now int64) (written uint64) {
	sh := &l.shards[shardOf(s.hash)]
	b := sh.bucket(s.hash, s.key)
	for _, c := range s.windows {
		if c.per > 0 && c.lacks(total) > 0 && b.seek(c.per) == nil { // it was empty, and forgotten
			b.open(c.per, now)
			l.opened(b, c.per, now)
		}
	}
	for i := range b.windows {
		w := &b.windows[i]
		w.expire(now)
		c := s.in(w.per)
		more := min(c.lacks(total), math.MaxInt64-w.used())
		if more > 0 {
			w.book(now, more)
			written = l.settled(anEntry, b, w.per, more, now, now)
			continue
		}
		first, rest := c.less(-more)
		l.takeOff(b, w, s.granted, first, now)
		l.takeOff(b, w, s.since, rest, now)
	}
	for i := range s.windows {
		c := &s.windows[i]
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
	return written
}

// in is what the call counts in the window of a span.
func (s *share) in(per int64) tally {
	for _, c := range s.windows {
		if c.per == per {
			return c
		}
	}
	return s.windows[len(s.windows)-1]
}

// lacks is how much more a total is than what counts.
func (c tally) lacks(total int64) int64 { return min(total, c.calls) - c.first - c.later }

// less is what part of a cost is taken off what the grant counted, and what off
// the rest.
func (c tally) less(cost int64) (first, rest int64) {
	first = min(cost, c.first)
	return first, cost - first
}

// takeOff takes a cost off what a window has counted since an instant, unless
// that has left it. Nobody waits for the note: without it there is less room
// after a crash.
func (l *Limiter) takeOff(b *bucket, w *window, at, cost, now int64) {
	if cost > 0 && at > now-w.per {
		w.takeOff(at, cost)
		l.settled(aReturn, b, w.per, cost, now, at)
	}
}

// shift moves what was counted at since or later on by a sleep.
func (s *share) shift(since, sleep int64) {
	for _, at := range []*int64{&s.granted, &s.since} {
		if *at >= since {
			*at += sleep
		}
	}
}
