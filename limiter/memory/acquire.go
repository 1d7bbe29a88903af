package memory

import (
	"context"
	"hash/maphash"

	"github.com/paceline-proxy/paceline/limiter"
)

// An ask is one limit of a request on its way through Acquire.
type ask struct {
	bucket *bucket
	hash   uint64
	cost   int64
	window int
	retry  int64 // when to ask again; 0: it fits
	cause  limiter.Cause
}

// Acquire asks for one call. It looks at every limit and then counts in all of
// them or in none, with their shards locked throughout.
func (l *Limiter) Acquire(_ context.Context, r limiter.Request) (limiter.Decision, error) {
	if !l.ready.Load() {
		l.start()
	}
	var few [8]ask // keeps the usual request off the heap
	asks := few[:]
	if len(r.Limits) > len(few) {
		asks = make([]ask, len(r.Limits))
	}
	asks = asks[:len(r.Limits)]

	set, sound := survey(&r, asks)
	if !sound {
		if err := r.Validate(); err != nil {
			return limiter.Decision{}, err
		}
	}
	var caller uint64
	closed := l.closed.Load() > 0
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
	granted := l.peek(&r, asks, now) && until <= now
	var permit placeID
	if granted {
		permit = l.commit(&r, asks, now)
	}
	swept := l.account(asks)
	l.unlock(set)

	if due {
		l.catchUp(false)
	}
	if swept {
		l.sweep(shardOf(asks[0].hash))
	}
	d := limiter.Decision{Granted: granted, Now: l.clock.instant(now)}
	switch {
	case !granted:
		l.explain(&d, &r, asks, now, until)
	case permit.generation > 0:
		d.Permit = l.format(permit)
	}
	return d, nil
}

// survey hashes the keys and says which shards they are in, and whether the
// request is beyond doubt. If it is not, Validate has the last word: its
// thoroughness would cost more than the whole acquire.
func survey(r *limiter.Request, asks []ask) (set uint64, sound bool) {
	sound = r.Cost >= 0 && r.Hold >= 0
	for i := range r.Limits {
		limit := &r.Limits[i]
		if i > 0 && limit.Key == r.Limits[i-1].Key {
			asks[i].hash = asks[i-1].hash
		} else {
			asks[i].hash = maphash.String(seed, limit.Key)
		}
		set |= 1 << shardOf(asks[i].hash)

		if limit.Calls < 0 || limit.Per < 0 || limit.Concurrent < 0 || limit.Cost < 0 ||
			(limit.Calls > 0) != (limit.Per > 0) ||
			limit.Calls == 0 && limit.Concurrent == 0 ||
			limit.Concurrent > 0 && r.Hold == 0 {
			sound = false
		}
		for j := range i {
			if asks[j].hash == asks[i].hash && r.Limits[j].Per == limit.Per {
				sound = false
			}
		}
	}
	return set, sound
}

// peek says whether every limit has room, and notes in each ask what it found.
func (l *Limiter) peek(r *limiter.Request, asks []ask, now int64) bool {
	fits := true
	for i := range asks {
		a, limit := &asks[i], &r.Limits[i]
		s := &l.shards[shardOf(a.hash)]
		if i > 0 && a.hash == asks[i-1].hash && limit.Key == r.Limits[i-1].Key {
			a.bucket = asks[i-1].bucket
		} else {
			a.bucket = s.bucket(a.hash, limit.Key)
		}
		b := a.bucket
		if limit.Calls > 0 {
			calls := int64(limit.Calls)
			a.cost = min(int64(r.CostOf(*limit)), calls)
			a.window = b.window(int64(limit.Per), now)
			w := &b.windows[a.window]
			w.expire(now)
			if at, ok := w.fits(calls, a.cost); !ok {
				a.retry, a.cause = at, limiter.Rate
			}
		}
		if limit.Concurrent > 0 {
			s.lapse(b, now)
			if len(b.held) >= limit.Concurrent {
				if at := s.places[b.held[0]].expires; at > a.retry {
					a.retry, a.cause = at, limiter.Concurrent
				}
			}
		}
		if a.retry > 0 {
			fits = false
		}
	}
	return fits
}

// commit counts a grant in all its limits and is the place that stands for its
// permit, if it holds any.
func (l *Limiter) commit(r *limiter.Request, asks []ask, now int64) (permit placeID) {
	var others []placeID
	for i := range asks {
		a, limit := &asks[i], &r.Limits[i]
		if limit.Calls > 0 {
			a.bucket.windows[a.window].book(now, a.cost)
		}
		if limit.Concurrent > 0 && !holds(r, asks[:i], a.bucket) {
			n := shardOf(a.hash)
			id := l.shards[n].take(n, a.bucket, now, after(now, int64(r.Hold)))
			if permit.generation == 0 {
				permit = id
			} else {
				others = append(others, id)
			}
		}
	}
	if others != nil {
		l.shards[permit.shard].places[permit.index].others = others
	}
	for i := range asks {
		if asks[i].last(asks[i+1:]) {
			bookUnnamed(r, asks, asks[i].bucket, now)
		}
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

// last says whether none of the later asks is for the same bucket.
func (a *ask) last(later []ask) bool {
	for i := range later {
		if later[i].bucket == a.bucket {
			return false
		}
	}
	return true
}

// bookUnnamed counts a grant in the windows of its bucket that the request did
// not name: they are views of the same history. It counts there as the most it
// counts in any that was named, and not at all where only places were asked
// for.
func bookUnnamed(r *limiter.Request, asks []ask, b *bucket, now int64) {
	named, cost := 0, int64(0)
	for i := range asks {
		if asks[i].bucket == b && r.Limits[i].Calls > 0 {
			named++
			cost = max(cost, asks[i].cost)
		}
	}
	if named == 0 || named == len(b.windows) {
		return
	}
	aged := false
next:
	for i := range b.windows {
		for j := range asks {
			if asks[j].bucket == b && r.Limits[j].Calls > 0 && asks[j].window == i {
				continue next
			}
		}
		w := &b.windows[i]
		w.expire(now)
		w.book(now, cost)
		aged = aged || w.stale(now)
	}
	if aged {
		b.prune(now)
	}
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
