package memory

import (
	"math"
	"time"
)

// A clock counts nanoseconds: the process's monotonic clock plus what the
// machine has slept meanwhile.
//
// It is read under any shard's lock, so that what is booked in a bucket is in
// order, and set under all of them.
type clock struct {
	base time.Time // with the monotonic reading, for time.Since

	// The clock's zero since 1970, for the instants we give out.
	seconds, nanos int64

	slept     int64 // how much longer the machine has been asleep than at base, and epoch
	reference int64 // what suspended said at base, less epoch
	checked   int64 // the instant slept was last known to be right
	next      int64 // when to look again, in terms of time.Since(base)

	// suspended is the time this machine has slept since it started. It is a
	// field for the tests of this package.
	suspended func() int64
}

// Differences below this are the distance between two readings, not sleep.
const leastSleep = int64(time.Millisecond)

// How long we may go without asking whether the machine has slept: two system
// calls are too dear for every acquire.
const checkEvery = int64(time.Second)

// epoch is what a limiter's clock begins with: 36 years, so that what an
// earlier limiter granted has an instant, too.
const epoch = int64(1) << 60

func (c *clock) start() {
	if c.suspended == nil {
		c.suspended = suspended
	}
	c.base = time.Now()
	zero := c.base.Add(-time.Duration(epoch))
	c.seconds, c.nanos = zero.Unix(), int64(zero.Nanosecond())
	c.slept, c.checked = epoch, epoch
	c.reference = c.suspended() - epoch
	c.next = checkEvery
}

// now is the instant, and whether it is time to check for sleep.
func (c *clock) now() (now int64, due bool) {
	awake := int64(time.Since(c.base))
	return awake + c.slept, awake >= c.next
}

// at is the instant of a reading of the process's clock.
func (c *clock) at(t time.Time) int64 { return int64(t.Sub(c.base)) + c.slept }

// instant is what a caller sees of t. Instants carry no monotonic reading:
// their difference is exact, whatever is done to the wall clock meanwhile.
func (c *clock) instant(t int64) time.Time {
	return time.Unix(c.seconds+t/1e9, c.nanos+t%1e9)
}

// after is t+d, or the end of time. Neither may be negative.
func after(t, d int64) int64 {
	if d > math.MaxInt64-t {
		return math.MaxInt64
	}
	return t + d
}

// catchUp looks whether the machine has slept since the last look and, if so,
// moves the clock on. What was booked since that look may have been booked
// after waking, with a clock that was behind by the whole sleep. It moves along,
// since a grant may be dated late but never early.
//
// The caller holds no lock. Unless insisted on, it looks once a second at most.
func (l *Limiter) catchUp(insist bool) {
	l.lock(all)
	defer l.unlock(all)
	c := &l.clock
	awake := int64(time.Since(c.base))
	if awake < c.next && !insist {
		return
	}
	c.next = awake + checkEvery
	if sleep := c.suspended() - c.reference - c.slept; sleep >= leastSleep {
		for i := range l.shards {
			l.shards[i].shift(c.checked, sleep)
		}
		c.slept += sleep
	}
	c.checked = awake + c.slept
}

// shift moves everything booked at since or later on by a sleep.
func (s *shard) shift(since, sleep int64) {
	for _, b := range s.slots {
		for ; b != nil; b = b.next {
			for i := range b.windows {
				b.windows[i].shift(since, sleep)
			}
		}
	}
	for i := range s.places {
		if p := &s.places[i]; p.permit != "" && p.since >= since {
			p.since += sleep
			p.expires = after(p.expires, sleep)
			s.fix(p.bucket, p.at)
		}
		for k := range s.places[i].shares {
			s.places[i].shares[k].shift(since, sleep)
		}
	}
}
