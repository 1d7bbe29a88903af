package memory

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// FuzzSettle reads bytes as grants, totals and time, two to an operation, and
// compares what a window holds with a list of what each call has counted when.
func FuzzSettle(f *testing.F) {
	f.Add([]byte("\x00\x20\x01\x08\x02\x10\x00\x60\x01\xff\x03\x20\x05\x00"))
	f.Add([]byte("\x00\x01\x00\x02\x02\x30\x05\x40\x01\x03\x02\x60\x01\x01\x09\x09"))
	f.Fuzz(func(t *testing.T, ops []byte) {
		synctest.Test(t, func(t *testing.T) {
			run := &settlings{l: New()}
			for i := 0; i+1 < len(ops) && i < 2000; i += 2 {
				if err := run.do(ops[i], int(ops[i+1])); err != nil {
					t.Fatalf("operation %d (%d %d): %v", i/2, ops[i], ops[i+1], err)
				}
			}
		})
	})
}

type settlings struct {
	l       *Limiter
	permits []string
	calls   []map[time.Time]int // what each has counted, by when
	// What falls after it rose is counted for longer than it need be.
	vague bool
}

const settledCalls, settledPer = 300, 10 * time.Second

func (s *settlings) limit(cost int) limiter.Limit {
	return limiter.Limit{Key: "tokens", Calls: settledCalls, Per: settledPer, Cost: cost}
}

func (s *settlings) used(now time.Time) (used int) {
	for _, c := range s.calls {
		for at, cost := range c {
			if at.Add(settledPer).After(now) {
				used += cost
			}
		}
	}
	return used
}

func (s *settlings) do(op byte, arg int) error {
	ctx, now := context.Background(), time.Now()
	switch {
	case op%4 == 0:
		d, err := s.l.Acquire(ctx, limiter.Request{Key: "c", Limits: []limiter.Limit{s.limit(1 + arg)}, Hold: time.Hour})
		if err != nil || !d.Granted {
			return err
		}
		if used := s.used(now) + 1 + arg; used > settledCalls {
			return fmt.Errorf("granted: %d of %d", used, settledCalls)
		}
		s.permits, s.calls = append(s.permits, d.Permit), append(s.calls, map[time.Time]int{now: 1 + arg})
	case op%4 == 1:
		time.Sleep(time.Duration(arg) * 20 * time.Millisecond)
	case len(s.permits) > 0:
		i := int(op/4) % len(s.permits)
		if err := s.l.Settle(ctx, s.permits[i], []limiter.Cost{{Key: "tokens", Cost: arg}}); err != nil {
			return err
		}
		s.settle(s.calls[i], arg, now)
	}
	v, err := s.l.Peek(ctx, "c", []limiter.Limit{s.limit(1)})
	if err != nil {
		return err
	}
	if got, want := v.Usage[0].Used, s.used(time.Now()); got < want || got > want && !s.vague {
		return fmt.Errorf("%d used, want %d", got, want)
	}
	return nil
}

func (s *settlings) settle(c map[time.Time]int, total int, now time.Time) {
	for _, cost := range c {
		total -= cost
	}
	if total >= 0 {
		c[now] += total
		return
	}
	s.vague = s.vague || len(c) > 1
	for total < 0 { // the earliest first
		var first time.Time
		for at, cost := range c {
			if cost > 0 && (first.IsZero() || at.Before(first)) {
				first = at
			}
		}
		less := min(-total, c[first])
		c[first] -= less
		total += less
	}
}

// A bucket that was forgotten while its call went on counts again.
func TestSettleAfterForgetting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, ctx := New(), context.Background()
		limit := limiter.Limit{Key: "tokens", Calls: 100, Per: time.Minute, Cost: 10}
		d, err := l.Acquire(ctx, limiter.Request{Key: "c", Limits: []limiter.Limit{limit}, Hold: time.Hour})
		if err != nil || !d.Granted {
			t.Fatal(d, err)
		}
		time.Sleep(2 * time.Minute)
		for i := range uint64(shards) {
			l.sweepShard(i)
		}
		if err := l.Settle(ctx, d.Permit, []limiter.Cost{{Key: "tokens", Cost: 70}}); err != nil {
			t.Fatal(err)
		}
		v, err := l.Peek(ctx, "c", []limiter.Limit{limit})
		if err != nil || v.Usage[0].Used != 60 {
			t.Errorf("%+v %v, want 60 used", v, err)
		}
	})
}

// What can be settled moves with a sleep of the machine, as its window does.
func TestSettleAcrossASleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asleep := int64(0)
		l := new(Limiter)
		l.clock.suspended = func() int64 { return asleep }
		ctx := context.Background()
		limit := limiter.Limit{Key: "tokens", Calls: 100, Per: time.Minute, Cost: 60}
		d, err := l.Acquire(ctx, limiter.Request{Key: "c", Limits: []limiter.Limit{limit}, Hold: time.Hour})
		if err != nil || !d.Granted {
			t.Fatal(d, err)
		}
		asleep = int64(50 * time.Second)
		time.Sleep(2 * time.Second)
		l.catchUp(true)
		time.Sleep(50 * time.Second) // a minute and more by the machine, were it not dated late
		if err := l.Settle(ctx, d.Permit, []limiter.Cost{{Key: "tokens", Cost: 20}}); err != nil {
			t.Fatal(err)
		}
		v, err := l.Peek(ctx, "c", []limiter.Limit{limit})
		if err != nil || v.Usage[0].Used != 20 {
			t.Errorf("%+v %v, want 20 used", v, err)
		}
	})
}
