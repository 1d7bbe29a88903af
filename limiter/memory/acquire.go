package memory

import (
	"context"
	"hash/maphash"

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

	set := survey(&r, asks)
	closed := l.closed.Load() > 0
	var caller uint64
	if closed {
		caller = maphash.String(seed, r.Key)
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
	fits, unnamed := l.peek(&r, asks, now)
	d.Granted = fits && until <= now
	if d.Granted {
		d.Permit = l.commit(&r, asks, now)
		if unnamed {
			bookUnnamed(asks, now)
		}
	} else {
		l.explain(&d, &r, asks, now, until)
	}
	swept := l.account(asks)
	l.unlock(set)

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
	signs := int64(r.Cost) | int64(r.Hold)
	for i := range r.Limits {
		l := &r.Limits[i]
		signs |= int64(l.Calls) | int64(l.Per) | int64(l.Concurrent) | int64(l.Cost)
		if (l.Calls == 0) != (l.Per == 0) || l.Calls|l.Concurrent == 0 || l.Concurrent != 0 && r.Hold == 0 {
			return false
		}
		for j := range i {
			if earlier := &r.Limits[j]; earlier.Per == l.Per && earlier.Key == l.Key {
				return false
			}
		}
	}
	return signs >= 0
}

// survey hashes the keys and says which shards they are in.
func survey(r *limiter.Request, asks []ask) (set uint64) {
	var key string
	var hash uint64
	nth := 0
	for i := range asks {
		if next := r.Limits[i].Key; i == 0 || next != key {
			key, hash, nth = next, maphash.String(seed, next), 0
			set |= 1 << shardOf(hash)
		}
		asks[i].hash, asks[i].nth = hash, nth
		nth++
	}
	return set
}

// peek says whether every limit has room, and whether a bucket has windows that
// the request does not name. It leaves in each ask what commit needs.
func (l *Limiter) peek(r *limiter.Request, asks []ask, now int64) (fits, unnamed bool) {
	limits := r.Limits[:len(asks)]
	usual := int64(max(1, r.Cost))
	fits = true
	windows := 0 // of the buckets, less those named; a bucket met twice counts twice
	var b *bucket
	for i := range limits {
		a, limit := &asks[i], &limits[i]
		if a.nth == 0 {
			b = l.shards[shardOf(a.hash)].bucket(a.hash, limit.Key)
			windows += len(b.windows)
		}
		a.bucket = b
		if limit.Calls > 0 {
			w := b.window(int64(limit.Per), a.nth)
			if w == nil {
				// Windows found before may have moved: once more from the start.
				b.open(int64(limit.Per), now)
				return l.peek(r, asks, now)
			}
			calls, cost := int64(limit.Calls), int64(limit.Cost)
			if cost == 0 {
				cost = usual
			}
			cost = min(cost, calls) // a cost above calls counts as calls
			a.window, a.cost = w, cost
			w.asked = now
			w.expire(now)
			if w.used() > calls-cost {
				fits = false
			}
			windows--
		}
		if limit.Concurrent > 0 {
			if len(b.held) > 0 {
				l.shards[shardOf(a.hash)].lapse(b, now)
			}
			if len(b.held) >= limit.Concurrent {
				fits = false
			}
		}
	}
	return fits, windows > 0
}

// commit counts a grant in all its limits and gives the permit its places.
func (l *Limiter) commit(r *limiter.Request, asks []ask, now int64) (permit string) {
	var home placeID
	var others []placeID
	for i := range asks {
		a := &asks[i]
		if a.window != nil {
			a.window.book(now, a.cost)
		}
		if r.Limits[i].Concurrent == 0 || home.generation > 0 && holds(r, asks[:i], a.bucket) {
			continue
		}
		n := shardOf(a.hash)
		id := l.shards[n].take(n, a.bucket, now, after(now, int64(r.Hold)))
		if home.generation == 0 {
			home = id
			permit = l.shards[n].format(l.nonce, id)
		} else {
			others = append(others, id)
		}
	}
	if others != nil {
		l.shards[home.shard].places[home.index].others = others
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
