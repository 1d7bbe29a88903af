package memory

import (
	"context"
	"fmt"
	"math"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/internal/settling"
)

// A share is what a permit's call counts in a bucket, and which one that is.
type share struct {
	hash uint64
	key  string
	settling.Share
}

// shares notes what a grant counts in buckets that the request names with a cost
// of a limit's own.
func shares(r *limiter.Request, asks []ask, now int64) (all []share) {
	for i := range asks {
		b := asks[i].bucket
		if !asks[i].alone(asks[:i]) {
			continue
		}
		if s, ok := settling.Of(r, b.key, now); ok {
			all = append(all, share{b.hash, b.key, s})
		}
	}
	return all
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
	for _, c := range s.Tallies {
		if more, _, _ := c.Change(total); c.Per > 0 && more > 0 && b.seek(c.Per) == nil { // it was empty, and forgotten
			b.open(c.Per, now)
			l.opened(b, c.Per, now)
		}
	}
	for i := range b.windows {
		w := &b.windows[i]
		w.expire(now)
		more, first, later := s.In(w.per).Change(total)
		if more = min(more, math.MaxInt64-w.used()); more > 0 {
			w.book(now, more)
			written = l.settled(anEntry, b, w.per, more, now, now)
		}
		l.takeOff(b, w, s.Granted, first, now)
		l.takeOff(b, w, s.Since, later, now)
	}
	s.Settle(total, now)
	return written
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
	for _, at := range []*int64{&s.Granted, &s.Since} {
		if *at >= since {
			*at += sleep
		}
	}
}
