package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// Release gives back the places of a permit. A permit that holds none any more,
// or never did, is no error and frees nothing.
func (l *Limiter) Release(_ context.Context, permit string) error {
	home, ok := homeOf(permit)
	if !ok {
		return nil
	}
	s := &l.shards[home.shard]
	s.mu.Lock()
	p := s.find(home.index, permit)
	several := p != nil && p.others != nil
	if p != nil && !several {
		s.give(uint32(home.index))
		l.releasing(permit)
	}
	s.mu.Unlock()
	if several {
		noted := false
		l.visit(home, permit, func(s *shard, index uint64) {
			s.give(uint32(index))
			if !noted {
				noted = true
				l.releasing(permit)
			}
		})
	}
	return nil
}

// releasing notes a release. Nobody waits for the note: without it the place
// is held for a while after a crash.
func (l *Limiter) releasing(permit string) {
	if l.journal != nil {
		now, _ := l.clock.now()
		l.changed(aRelease, permit, now, 0)
	}
}

// Renew makes each permit last for hold from now, be that longer or shorter
// than it had left. hold must be positive.
func (l *Limiter) Renew(_ context.Context, permits []string, hold time.Duration) error {
	if hold <= 0 {
		return fmt.Errorf("%w: hold %v is not positive", limiter.ErrInvalid, hold)
	}
	var written uint64
	for _, permit := range permits {
		now := int64(-1) // read once under the locks: all places of a permit lapse together
		home, ok := homeOf(permit)
		if !ok {
			continue
		}
		l.visit(home, permit, func(s *shard, index uint64) {
			if now < 0 {
				now, _ = l.clock.now()
			}
			// What has lapsed is somebody else's by right, taken or not.
			if p := &s.places[index]; p.expires > now {
				s.extend(p, now, after(now, int64(hold)))
				written = l.changed(aRenewal, permit, now, int64(hold))
			}
		})
	}
	l.commit(written)
	return nil
}

// visit calls f for each place a permit still holds, all their shards locked.
func (l *Limiter) visit(home placeID, permit string, f func(s *shard, index uint64)) {
	s := &l.shards[home.shard]
	s.mu.Lock()
	var others []placeID // never written again
	if p := s.find(home.index, permit); p != nil {
		others = p.others
	}
	s.mu.Unlock()

	// Locks are taken in ascending order, so the first had to be given back.
	set := uint64(1) << home.shard
	for _, o := range others {
		set |= 1 << o.shard
	}
	l.lock(set)
	defer l.unlock(set)
	if s.find(home.index, permit) == nil {
		return // released or lapsed, and the others with it
	}
	f(s, home.index)
	for _, o := range others {
		if s := &l.shards[o.shard]; s.find(o.index, permit) != nil {
			f(s, o.index)
		}
	}
}
