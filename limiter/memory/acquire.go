package memory

import (
	"context"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// An ask is one limit of a request on its way through Acquire.
type ask struct {
	hash   uint64
	bucket *bucket
	window *window // nil where the limit has no rate
	cost   int64
	nth    int // among successive limits of one bucket
}

// Acquire asks for one call. It looks at every limit and then counts in all of
// them or in none, with their shards locked throughout.
func (l *Limiter) Acquire(_ context.Context, r limiter.Request) (d limiter.Decision, err error) {
	if !l.ready.Load() {
		l.start()
	}
	if !sound(&r) {
		if err := r.Validate(); err != nil {
			return d, err
		}
	}
	var few [6]ask // keeps the usual request off the heap
	asks := few[:]
	if len(r.Limits) > len(few) {
		asks = make([]ask, len(r.Limits))
	}
	asks = asks[:len(r.Limits)]

	set := survey(r.Limits, asks)
	closed := l.closed.Load() > 0
	var caller uint64
	if closed {
		caller = hashOf(r.Key)
		set |= 1 << shardOf(caller)
	}
	if set == 0 {
		set = 1 // the clock is read under a lock
	}

	l.lock(set)
	now, due := l.clock.now()
	var until int64
	if closed {
		until = l.shards[shardOf(caller)].throttles.until[r.Key]
	}
	v := l.peek(&r, asks, now)
	d.Granted = v.fits && until <= now
	if d.Granted {
		for i := range asks {
			if w := asks[i].window; w != nil {
				w.book(now, asks[i].cost)
			}
		}
		if v.windows > 0 {
			bookUnnamed(asks, now)
		}
		if v.places < len(asks) || v.costs && r.Hold > 0 {
			d.Permit = l.occupy(&r, asks, v, now)
		}
	} else {
		l.explain(&d, &r, asks, now, until)
	}
	var written uint64
	if d.Granted && l.journal != nil {
		written = l.granted(&r, asks, d.Permit, now, now)
	}
	swept := l.account(asks)
	l.unlock(set)

	if written > 0 {
		l.journal.commit(written)
	}
	if due {
		l.catchUp(false)
	}
	if swept {
		l.sweep(shardOf(asks[0].hash))
	}
	d.Now = l.clock.instant(now)
	return d, nil
}

// sound says whether a request is beyond doubt. If it is not, Validate has the
// last word: its thoroughness would cost more than the whole acquire.
func sound(r *limiter.Request) bool {
	limits := r.Limits
	signs := int64(r.Cost) | int64(r.Hold) // the sign of any
	longest := time.Duration(-1)
	for i := range limits {
		l := &limits[i]
		signs |= int64(l.Calls) | int64(l.Per) | int64(l.Concurrent) | int64(l.Cost)
		if (l.Calls == 0) != (l.Per == 0) || l.Calls|l.Concurrent == 0 || l.Concurrent != 0 && r.Hold == 0 {
			return false
		}
		if l.Per > longest { // no window that has been named before
			longest = l.Per
			continue
		}
		for j := range limits[:i] {
			if limits[j].Per == l.Per && limits[j].Key == l.Key {
				return false
			}
		}
	}
	return signs >= 0
}

// survey hashes the keys and says which shards they are in.
func survey(limits []limiter.Limit, asks []ask) (set uint64) {
	for i := range limits {
		a := &asks[i]
		if i > 0 && limits[i].Key == limits[i-1].Key {
			a.hash, a.nth = asks[i-1].hash, asks[i-1].nth+1
			continue
		}
		a.hash = hashOf(limits[i].Key)
		set |= 1 << shardOf(a.hash)
	}
	return set
}

// A view is what peek sees.
type view struct {
	fits bool // every limit has room

	// windows is how many the buckets have, less those that are named. A bucket
	// that is met twice counts twice.
	windows int

	places int // the first limit with Concurrent; as many as there are if none

	costs bool // a window has a cost of its own
}

// peek looks at every limit and leaves in each ask what a grant needs.
func (l *Limiter) peek(r *limiter.Request, asks []ask, now int64) view {
	limits := r.Limits[:len(asks)]
	v := view{fits: true, places: len(limits)}
	usual := int64(max(1, r.Cost))
	var b *bucket
	for i := range limits {
		a, limit := &asks[i], &limits[i]
		if a.nth == 0 {
			b = l.shards[shardOf(a.hash)].bucket(a.hash, limit.Key)
			v.windows += len(b.windows)
		}
		a.bucket = b
		if limit.Calls > 0 {
			w := b.window(int64(limit.Per), a.nth)
			if w == nil {
				// Windows found before may have moved: once more from the start.
				b.open(int64(limit.Per), now)
				l.opened(b, int64(limit.Per), now)
				return l.peek(r, asks, now)
			}
			w.asked = now
			w.expire(now)
			calls, cost := int64(limit.Calls), int64(limit.Cost)
			if cost == 0 {
				cost = usual
			} else {
				v.costs = true
			}
			cost = min(cost, calls) // a cost above calls counts as calls
			a.window, a.cost = w, cost
			if w.used() > calls-cost {
				v.fits = false
			}
			v.windows--
		}
		if limit.Concurrent > 0 {
			v.places = min(v.places, i)
			if len(b.held) > 0 {
				l.shards[shardOf(a.hash)].lapse(b, now)
			}
			if len(b.held) >= limit.Concurrent {
				v.fits = false
			}
		}
	}
	return v
}

// occupy gives a permit its places, in asks[v.places:].
func (l *Limiter) occupy(r *limiter.Request, asks []ask, v view, now int64) (permit string) {
	expires := after(now, int64(r.Hold))
	first := v.places % len(asks)
	home := placeID{shard: shardOf(asks[first].hash)}
	s := &l.shards[home.shard]
	if first == v.places {
		home.index = s.take(asks[first].bucket, now, expires)
	} else {
		s.lapse(&s.unplaced, now)
		home.index = s.take(&s.unplaced, now, expires)
	}
	permit = s.format(home)
	s.places[home.index].permit = permit
	if v.costs {
		s.places[home.index].shares = shares(r, asks, now)
	}
	for i := first + 1; i < len(asks); i++ {
		if r.Limits[i].Concurrent == 0 || holds(r, asks[:i], asks[i].bucket) {
			continue
		}
		other := placeID{shard: shardOf(asks[i].hash)}
		o := &l.shards[other.shard]
		other.index = o.take(asks[i].bucket, now, expires)
		o.places[other.index].permit = permit
		p := &s.places[home.index]
		p.others = append(p.others, other)
	}
	return permit
}

// holds says whether one of the asks has taken a place of b: limits that share
// a bucket share the place.
func holds(r *limiter.Request, asks []ask, b *bucket) bool {
	for i := range asks {
		if asks[i].bucket == b && r.Limits[i].Concurrent > 0 {
			return true
		}
	}
	return false
}

// account adds an ask to what its first shard owes and says whether it is time
// to sweep.
func (l *Limiter) account(asks []ask) bool {
	if len(asks) == 0 {
		return false
	}
	s := &l.shards[shardOf(asks[0].hash)]
	s.debt++
	if s.debt < sweepAt {
		return false
	}
	s.debt = 0
	return true
}
