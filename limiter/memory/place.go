package memory

// A place is what a permit holds of one bucket. It lives in its bucket's shard.
//
// One that is free keeps what it can: a pointer not written is nothing for the
// garbage collector to be told of.
type place struct {
	bucket  *bucket // whose it is or was
	permit  string  // whose it is on the other side; empty: nobody's
	expires int64
	since   int64 // when expires was set
	others  []placeID
	shares  []share // what of the permit's call can be settled
	at      int     // where it is in its bucket's heap
}

// A placeID says where a place is. The place of a permit's first limit with
// Concurrent stands for the permit and knows its other places, and what it can
// settle. A permit that is only to be settled has a place among its shard's
// unplaced ones.
type placeID struct{ shard, index uint64 }

// take takes a place of a bucket for whom the caller will name.
func (s *shard) take(b *bucket, now, expires int64) (index uint64) {
	if n := len(s.free); n > 0 {
		index = uint64(s.free[n-1])
		s.free = s.free[:n-1]
	} else {
		index = uint64(len(s.places))
		s.places = append(s.places, place{})
	}
	p := &s.places[index]
	if p.bucket != b {
		p.bucket = b
	}
	p.expires, p.since, p.at = expires, now, len(b.held)
	b.held = append(b.held, uint32(index))
	if p.at > 0 {
		s.up(b, p.at)
	}
	return index
}

// find is a place if it is the permit's, or nil.
func (s *shard) find(index uint64, permit string) *place {
	if index >= uint64(len(s.places)) || s.places[index].permit != permit {
		return nil
	}
	return &s.places[index]
}

// give takes a place back from its holder.
func (s *shard) give(index uint32) {
	p := &s.places[index]
	b, at := p.bucket, p.at
	last := len(b.held) - 1
	moved := b.held[last]
	b.held = b.held[:last]
	if at < last {
		s.set(b, at, moved)
		s.fix(b, at)
	}
	p.permit = ""
	if p.others != nil {
		p.others = nil
	}
	if p.shares != nil {
		p.shares = nil
	}
	s.free = append(s.free, index)
	if len(s.free) == len(s.places) && len(s.places) > 64 {
		s.places, s.free = nil, nil // after a crowd
	}
}

// lapse frees the places whose hold has passed.
func (s *shard) lapse(b *bucket, now int64) {
	for len(b.held) > 0 && s.places[b.held[0]].expires <= now {
		s.give(b.held[0])
	}
}

// extend makes a place last from now until expires.
func (s *shard) extend(p *place, now, expires int64) {
	p.since, p.expires = now, expires
	s.fix(p.bucket, p.at)
}

func (s *shard) set(b *bucket, at int, index uint32) {
	b.held[at] = index
	s.places[index].at = at
}

// fix restores the heap after the place at one position has changed.
func (s *shard) fix(b *bucket, at int) {
	s.up(b, s.down(b, at))
}

func (s *shard) up(b *bucket, at int) {
	index := b.held[at]
	for at > 0 {
		parent := (at - 1) / 2
		if s.places[b.held[parent]].expires <= s.places[index].expires {
			break
		}
		s.set(b, at, b.held[parent])
		at = parent
	}
	s.set(b, at, index)
}

func (s *shard) down(b *bucket, at int) int {
	index := b.held[at]
	for {
		child := 2*at + 1
		if child >= len(b.held) {
			break
		}
		if right := child + 1; right < len(b.held) && s.places[b.held[right]].expires < s.places[b.held[child]].expires {
			child = right
		}
		if s.places[index].expires <= s.places[b.held[child]].expires {
			break
		}
		s.set(b, at, b.held[child])
		at = child
	}
	s.set(b, at, index)
	return at
}
