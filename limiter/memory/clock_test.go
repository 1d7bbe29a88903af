package memory

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// A sleeper is a limiter on a machine whose sleeps a test decides.
type sleeper struct {
	*Limiter
	t     *testing.T
	slept time.Duration
}

func newSleeper(t *testing.T) *sleeper {
	s := &sleeper{t: t, slept: 5 * time.Hour} // since it was switched on
	s.Limiter = &Limiter{clock: clock{suspended: func() int64 { return int64(s.slept) }}}
	return s
}

func (s *sleeper) ask(limits ...limiter.Limit) limiter.Decision {
	s.t.Helper()
	d, err := s.Acquire(context.Background(), limiter.Request{Key: "c", Limits: limits, Hold: time.Minute})
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func TestSleepPassesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSleeper(t)
		minute := limiter.Limit{Key: "a", Calls: 1, Per: time.Minute}
		if !s.ask(minute).Granted || s.ask(minute).Granted {
			t.Fatal("the window does not work at all")
		}
		time.Sleep(time.Second)
		s.ask() // looks at the clocks
		s.slept += 2 * time.Hour
		time.Sleep(time.Second) // until somebody looks again
		s.ask()
		d := s.ask(minute)
		if !d.Granted {
			t.Errorf("a minute's window is full after two hours of sleep, for %v", d.RetryAfter())
		}
		if woken := time.Until(d.Now); woken != 2*time.Hour {
			t.Errorf("the clock moved on by %v", woken)
		}
	})
}

// What was granted after waking, before anybody noticed the sleep, must not
// leave its window the sooner for it.
func TestGrantsBetweenWakingAndNoticing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSleeper(t)
		limit := limiter.Limit{Key: "a", Calls: 2, Per: time.Minute}
		places := limiter.Limit{Key: "p", Concurrent: 1}
		if !s.ask(limit).Granted {
			t.Fatal("refused with room")
		}
		time.Sleep(1500 * time.Millisecond)
		s.ask() // looks at the clocks
		time.Sleep(100 * time.Millisecond)
		s.slept += time.Hour
		woken := s.ask(limit, places)
		if !woken.Granted {
			t.Fatal("refused with room")
		}
		time.Sleep(2 * time.Second)
		s.ask() // notices

		// Of the two, the one before the sleep has left and the other has not.
		if d := s.ask(places); d.Granted || d.RetryAfter() != 58*time.Second {
			t.Errorf("place granted: %t, or after %v, want 58s", d.Granted, d.RetryAfter())
		}
		if !s.ask(limit).Granted {
			t.Error("the call before the sleep is still in the window")
		}
		d := s.ask(limit)
		if d.Granted || d.RetryAfter() != 58*time.Second {
			t.Errorf("granted: %t, or after %v, want 58s", d.Granted, d.RetryAfter())
		}
	})
}

// A wait that was stated is not shortened by a sleep that nobody has noticed.
func TestThrottleAfterWaking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSleeper(t)
		s.ask()
		s.slept += time.Hour
		if err := s.Throttle(context.Background(), "c", time.Now().Add(10*time.Minute)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		s.ask()
		if d := s.ask(); d.Granted || d.RetryAfter() != 10*time.Minute-5*time.Second {
			t.Errorf("granted: %t, or after %v", d.Granted, d.RetryAfter())
		}
	})
}

// Two clocks are never read at quite the same instant.
func TestReadingsThatDifferAreNoSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSleeper(t)
		begin := s.ask().Now
		for range 10 {
			s.slept += 90 * time.Microsecond
			time.Sleep(2 * time.Second)
			s.ask()
			s.slept -= 90 * time.Microsecond
		}
		if d := s.ask(); d.Now.Sub(begin) != 20*time.Second {
			t.Errorf("%v passed, want 20s", d.Now.Sub(begin))
		}
	})
}

func TestSuspendedOfThisMachine(t *testing.T) {
	first := suspended()
	for range 100 {
		if again := suspended(); first < 0 || again < first-int64(time.Millisecond) {
			t.Fatalf("suspended for %v, then for %v", time.Duration(first), time.Duration(again))
		}
	}
}

// Instants and their difference, at the ends of what an int64 holds.
func TestInstantsDoNotWrap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		time.Sleep(time.Hour)
		forever := limiter.Limit{Key: "a", Calls: math.MaxInt, Per: math.MaxInt64}
		r := limiter.Request{Cost: math.MaxInt, Hold: math.MaxInt64, Limits: []limiter.Limit{
			forever, {Key: "a", Calls: math.MaxInt, Per: 1}, {Key: "p", Concurrent: 1},
		}}
		for range 3 {
			d, err := l.Acquire(context.Background(), r)
			if err != nil {
				t.Fatal(err)
			}
			if !d.Granted && d.RetryAfter() < 200*365*24*time.Hour {
				t.Errorf("retry after %v", d.RetryAfter())
			}
			time.Sleep(time.Nanosecond)
		}
		// A short window alone goes on, with what it adds to the long one.
		short := limiter.Request{Cost: math.MaxInt, Limits: []limiter.Limit{{Key: "a", Calls: math.MaxInt, Per: 1}}}
		for range 3 {
			if d, err := l.Acquire(context.Background(), short); err != nil || !d.Granted {
				t.Fatal(d, err)
			}
			time.Sleep(time.Nanosecond)
		}
		if d, _ := l.Acquire(context.Background(), limiter.Request{Limits: []limiter.Limit{forever}}); d.Granted {
			t.Error("an overfull window has room")
		}
	})
}
