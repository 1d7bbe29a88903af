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
	id, ok := l.parse(permit)
	if !ok {
		return nil
	}
	home := &l.shards[id.shard]
	home.mu.Lock()
	p := home.find(id)
	several := p != nil && p.others != nil
	if p != nil && !several {
		home.give(uint32(id.index))
	}
	home.mu.Unlock()
	if several {
		l.visit(id, func(s *shard, id placeID, _ *place) { s.give(uint32(id.index)) })
	}
	return nil
}

// Renew makes each permit last for hold from now, be that longer or shorter
// than it had left. hold must be positive.
func (l *Limiter) Renew(_ context.Context, permits []string, hold time.Duration) error {
	if hold <= 0 {
		return fmt.Errorf("%w: hold %v is not positive", limiter.ErrInvalid, hold)
	}
	for _, permit := range permits {
		now := int64(-1) // read once under the locks: all places of a permit lapse together
		id, ok := l.parse(permit)
		if !ok {
			continue
		}
		l.visit(id, func(s *shard, _ placeID, p *place) {
			if now < 0 {
				now, _ = l.clock.now()
			}
			// What has lapsed is somebody else's by right, taken or not.
			if p.expires > now {
				s.extend(p, now, after(now, int64(hold)))
			}
		})
	}
	return nil
}

// visit calls f for each place a permit still holds, all their shards locked.
func (l *Limiter) visit(id placeID, f func(*shard, placeID, *place)) {
	home := &l.shards[id.shard]
	home.mu.Lock()
	var others []placeID // never written again
	if p := home.find(id); p != nil {
		others = p.others
	}
	home.mu.Unlock()

	// Locks are taken in ascending order, so the first had to be given back.
	set := uint64(1) << id.shard
	for _, o := range others {
		set |= 1 << o.shard
	}
	l.lock(set)
	defer l.unlock(set)
	p := home.find(id)
	if p == nil {
		return // released or lapsed, and the others with it
	}
	f(home, id, p)
	for _, o := range others {
		if p := l.shards[o.shard].find(o); p != nil {
			f(&l.shards[o.shard], o, p)
		}
	}
}
