package memory

// Memory is given back by those who ask: after so many asks, the fewer the more
// new buckets they made, one of them looks at a stretch of its own shard and of
// another. What keeps coming is thus always outpaced by what is looked at, and
// shards that nobody asks any more are visited too.
const (
	sweepAt       = 256
	newBucketDebt = 32
	sweepSlots    = 64
)

// sweep forgets what counts nothing in a stretch of the shard and of the next
// one on patrol. The caller holds no lock.
func (l *Limiter) sweep(own uint64) {
	l.sweepShard(own)
	l.sweepShard(uint64(l.patrol.Add(1)) % shards)
}

func (l *Limiter) sweepShard(number uint64) {
	s := &l.shards[number]
	s.mu.Lock()
	defer s.mu.Unlock()
	now, _ := l.clock.now()
	l.closed.Add(-s.throttles.lapse(now))
	s.lapse(&s.unplaced, now)
	for range min(sweepSlots, len(s.slots)) {
		s.hand &= len(s.slots) - 1
		for link := &s.slots[s.hand]; *link != nil; {
			b := *link
			if s.tidy(b, now) {
				*link = b.next
				s.count--
			} else {
				link = &b.next
			}
		}
		s.hand++
	}
	if n := len(s.slots); n > 4 && s.count < n/8 {
		s.resize(n / 2)
	}
}

// tidy gives back what a bucket does not need and says whether it counts
// nothing at all: no window holds a grant and no permit a place.
func (s *shard) tidy(b *bucket, now int64) (empty bool) {
	s.lapse(b, now)
	empty = len(b.held) == 0
	if empty {
		b.held = nil
	}
	for i := range b.windows {
		w := &b.windows[i]
		w.expire(now)
		if w.used() > 0 {
			empty = false
		} else {
			w.ring, w.head = nil, 0
		}
	}
	if !empty && len(b.windows) > 1 {
		b.prune(now)
	}
	return empty
}
