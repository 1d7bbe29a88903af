package stub

import (
	"container/heap"
	"time"
)

// places are the requests in service. A place is given up at an instant known
// when it is taken, so nothing has to run for it: those that are over are
// dropped when the next request arrives. limit 0 caps nothing and still
// counts.
type places struct {
	limit int
	live  byEnd
}

// A place is one request in service.
type place struct {
	end   time.Time // when its service is over
	open  bool      // held until its client leaves, and until end at least
	index int       // in the heap, -1 when given up
}

// expire drops the places that are over at now, that instant included.
func (p *places) expire(now time.Time) {
	for len(p.live) > 0 && !p.live[0].open && !p.live[0].end.After(now) {
		heap.Pop(&p.live)
	}
}

// full says whether no place is left, and for how long if nobody leaves
// early. known is false where that is for a client to say.
func (p *places) full(now time.Time) (full bool, wait time.Duration, known bool) {
	p.expire(now)
	if p.limit == 0 || len(p.live) < p.limit {
		return false, 0, true
	}
	next := p.live[0]
	return true, next.end.Sub(now), !next.open
}

// take adds a place that is given up at end.
func (p *places) take(end time.Time, open bool) *place {
	taken := &place{end: end, open: open}
	heap.Push(&p.live, taken)
	return taken
}

// leave is told that the client of a place is gone. A place that stays is
// given up at its end.
func (p *places) leave(left *place, stays bool) {
	switch {
	case left.index < 0:
	case stays:
		left.open = false
		heap.Fix(&p.live, left.index)
	default:
		heap.Remove(&p.live, left.index)
	}
}

// byEnd is a heap of places, the one that is over first on top, open ones
// last.
type byEnd []*place

func (b byEnd) Len() int { return len(b) }
func (b byEnd) Less(i, j int) bool {
	if b[i].open != b[j].open {
		return b[j].open
	}
	return b[i].end.Before(b[j].end)
}
func (b byEnd) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].index, b[j].index = i, j
}

func (b *byEnd) Push(x any) {
	p := x.(*place)
	p.index = len(*b)
	*b = append(*b, p)
}

func (b *byEnd) Pop() any {
	old := *b
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*b = old[:len(old)-1]
	last.index = -1
	return last
}
