package stub

import "time"

// bucket holds up to burst tokens and gains limit of them every per, evenly.
// A request takes one.
//
// It is kept in whole numbers, so that a token is there at its exact
// nanosecond: one token is token units, every nanosecond brings rate units,
// and both are divided by what limit and per have in common.
type bucket struct {
	token, rate int64
	burst       int

	level int64 // below zero after penalties
	at    time.Time
	begun bool
}

func newBucket(m Meter) *bucket {
	limit, per := int64(m.Limit), int64(m.per())
	common := gcd(limit, per)
	return &bucket{token: per / common, rate: limit / common, burst: m.burst()}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func (b *bucket) capacity() int64 { return b.token * int64(b.burst) }

// until says how long the level takes to reach a target, rounded up.
func (b *bucket) until(target int64) time.Duration {
	if b.level >= target {
		return 0
	}
	return time.Duration((target-b.level-1)/b.rate + 1)
}

func (b *bucket) refill(now time.Time) {
	if !b.begun {
		b.level, b.begun = b.capacity(), true
	} else if passed := now.Sub(b.at); passed >= b.until(b.capacity()) {
		// Checked first: a long pause times the rate need not fit 64 bits.
		b.level = b.capacity()
	} else if passed > 0 {
		b.level += int64(passed) * b.rate
	}
	b.at = now
}

func (b *bucket) wait(now time.Time, n int) time.Duration {
	b.refill(now)
	return b.until(b.token * int64(min(n, b.burst)))
}

func (b *bucket) take(now time.Time, n int) {
	b.refill(now)
	b.level -= b.token * int64(n)
}

func (b *bucket) give(now, _ time.Time, n int) {
	b.refill(now)
	b.level = min(b.capacity(), b.level+b.token*int64(n))
}

func (b *bucket) penalise(now time.Time, n int) {
	b.refill(now)
	// The floor keeps a client that hammered for a while from being locked out
	// for longer than two full buckets take.
	b.level = max(b.level-b.token*int64(n), -b.capacity())
}

func (b *bucket) budget(now time.Time) budget {
	b.refill(now)
	remaining := max(0, b.level/b.token)
	return budget{
		limit:     b.burst,
		remaining: int(remaining),
		full:      now.Add(b.until(b.capacity())),
		more:      now.Add(b.until(min(b.capacity(), (remaining+1)*b.token))),
	}
}
