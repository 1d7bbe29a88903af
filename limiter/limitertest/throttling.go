package limitertest

import (
	"context"
	"fmt"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

var throttling = []Case{
	{"throttle closes a key", []string{"CC-17", "L-39", "L-57", "L-78", "L-79", "L-80"},
		"a provider that said wait means every call of the caller", checkThrottle},
	{"retryAt of a throttle", []string{"CC-18", "L-69", "L-72"},
		"a stated wait is neither cut short nor prolonged", checkThrottleEnd},
	{"throttle leaves other keys open", []string{"CC-19", "L-81", "L-82"},
		"zones with limits of their own are callers of their own", checkThrottleOthers},
	{"throttle and full window", []string{"CC-20", "L-71"},
		"both must have passed", checkThrottleAndFull},
	{"throttled refusal spends nothing", []string{"L-41", "L-84"},
		"what was not sent was not counted by the provider either", checkThrottleFree},
	{"later throttle wins", []string{"L-85"},
		"a second answer does not take back what the first has said", checkThrottleLater},
	{"past throttle does nothing", []string{"L-86"},
		"an answer read late, or a date decoded as the year 1, must not matter", checkThrottlePast},
	{"throttle without end", []string{"L-69", "L-78"},
		"a date beyond any clock must not wrap into the past", checkThrottleForever},
	{"throttle leaves permits held", []string{"L-87"},
		"calls under way are under way", checkThrottleHeld},
}

// throttle closes a caller's key for some units.
func (s *Subject) throttle(caller string, units float64) (until time.Time, err error) {
	until, _, err = s.throttleWithin(caller, units)
	return until, err
}

// throttleWithin says as well until when it may be closed at most: it was under
// way for so long.
func (s *Subject) throttleWithin(caller string, units float64) (least, most time.Time, err error) {
	start := time.Now()
	until := start.Add(s.Units(units))
	if err := s.Throttle(context.Background(), s.Key(caller), until); err != nil {
		return until, until, fmt.Errorf("throttle: %w", err)
	}
	return until, until.Add(time.Since(start)), nil
}

func checkThrottle(s *Subject) error {
	if _, err := s.Granted("before", s.By("c", s.Rate("a", 9, 20))); err != nil {
		return err
	}
	if _, err := s.throttle("c", 40); err != nil {
		return err
	}
	for what, r := range map[string]limiter.Request{
		"the bucket it used":   s.By("c", s.Rate("a", 9, 20)),
		"a bucket of its own":  s.By("c", s.Rate("b", 9, 20)),
		"places":               s.By("c", s.Places("p", 3)),
		"no limits":            s.By("c"),
		"several, with a cost": costing(s.By("c", s.Rate("a", 9, 20), s.Rate("b", 9, 20)), 3),
	} {
		d, err := s.Refused(what, r, limiter.Throttle)
		if err != nil {
			return err
		}
		if len(d.Refused) != 1 || d.Refused[0].Key != s.Key("c") {
			return fmt.Errorf("%s: refused by %s: want the caller's key alone", what, causes(d))
		}
	}
	return nil
}

func checkThrottleEnd(s *Subject) error {
	r := s.By("c", s.Rate("a", 9, 20))
	start := time.Now()
	until, err := s.throttle("c", 4)
	if err != nil {
		return err
	}
	d, err := s.Refused("closed", r, limiter.Throttle)
	if err != nil {
		return err
	}
	// The caller's clock and the limiter's are compared by how long is left.
	end := time.Now().Add(d.RetryAfter())
	if early := until.Sub(end); early > 0 {
		return fmt.Errorf("opens %v early", early)
	}
	if delay := end.Sub(until) - time.Since(start); delay > s.Tolerance {
		return fmt.Errorf("opens at least %v late", delay)
	}
	_, err = s.Opens(d, r)
	return err
}

func checkThrottleOthers(s *Subject) error {
	if _, err := s.throttle("closed", 40); err != nil {
		return err
	}
	shared := s.Rate("shared", 2, 20)
	if _, err := s.Refused("the closed one", s.By("closed", shared), limiter.Throttle); err != nil {
		return err
	}
	if _, _, err := s.Fill(2, s.By("open", shared)); err != nil {
		return fmt.Errorf("another key: %w", err)
	}
	// A bucket named as a caller is named is not that caller.
	_, err := s.Granted("a bucket of that name", s.By("open", s.Rate("closed", 1, 20)))
	return err
}

func checkThrottleAndFull(s *Subject) error {
	short, long := s.By("c", s.Rate("short", 1, 10)), s.By("c", s.Rate("long", 1, 60))
	for _, r := range []limiter.Request{short, long} {
		if _, err := s.Granted("the only one", r); err != nil {
			return err
		}
	}
	if _, err := s.throttle("c", 30); err != nil {
		return err
	}
	closed, err := s.Refused("short", short, limiter.Throttle, limiter.Rate)
	if err != nil {
		return err
	}
	if left := closed.RetryAfter(); left <= s.Units(10) {
		return fmt.Errorf("the window stands: %v left, want the throttle's 30 units of %v", left, s.Unit)
	}
	full, err := s.Refused("long", long, limiter.Throttle, limiter.Rate)
	if err != nil {
		return err
	}
	if left := full.RetryAt.Sub(closed.RetryAt); left <= 0 {
		return fmt.Errorf("the throttle stands, %v before the window opens", -left)
	}
	return nil
}

func checkThrottleFree(s *Subject) error {
	r := s.By("c", s.Rate("a", 2, 30), s.Places("p", 1))
	d, err := s.throttle("c", 2)
	if err != nil {
		return err
	}
	for range 5 {
		if _, err := s.Refused("closed", r, limiter.Throttle); err != nil {
			return err
		}
	}
	s.Sleep(time.Until(d) + s.Tolerance)
	if _, err := s.Granted("open again", r); err != nil {
		return err
	}
	if _, err := s.Granted("the second of 2", s.By("c", s.Rate("a", 2, 30))); err != nil {
		return err
	}
	_, err = s.Refused("the third of 2", s.By("c", s.Rate("a", 2, 30)), limiter.Rate)
	return err
}

func checkThrottleLater(s *Subject) error {
	for _, units := range []float64{20, 2, 40, 10} {
		if _, err := s.throttle("c", units); err != nil {
			return err
		}
		least := max(units, 20)
		if units == 10 {
			least = 40
		}
		d, err := s.Refused("closed", s.By("c"), limiter.Throttle)
		if err != nil {
			return err
		}
		if left := d.RetryAfter(); left < s.Units(least-5) {
			return fmt.Errorf("%v left after a throttle of %v units, want about %v", left, units, s.Units(least))
		}
	}
	return nil
}

func checkThrottlePast(s *Subject) error {
	for _, until := range []time.Time{
		{}, time.Unix(0, 0), time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Now().Add(-time.Hour), time.Now(),
	} {
		if err := s.Throttle(context.Background(), s.Key("c"), until); err != nil {
			return fmt.Errorf("throttle until %v: %w", until, err)
		}
		if _, err := s.Granted("after a past throttle", s.By("c")); err != nil {
			return err
		}
	}
	if _, err := s.throttle("c", 40); err != nil {
		return err
	}
	if _, err := s.throttle("c", -40); err != nil {
		return err
	}
	_, err := s.Refused("closed, and a past throttle since", s.By("c"), limiter.Throttle)
	return err
}

func checkThrottleForever(s *Subject) error {
	if err := s.Throttle(context.Background(), s.Key("c"), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)); err != nil {
		return fmt.Errorf("throttle: %w", err)
	}
	d, err := s.Refused("closed for good", s.By("c", s.Rate("a", 1, 1)), limiter.Throttle)
	if err != nil {
		return err
	}
	if left := d.RetryAfter(); left < 100*365*24*time.Hour {
		return fmt.Errorf("%v left of a throttle until the year 9999", left)
	}
	_, err = s.Granted("another key", s.By("d", s.Rate("a", 1, 1)))
	return err
}

func checkThrottleHeld(s *Subject) error {
	r := s.By("c", s.Places("p", 1))
	held, err := s.Granted("before", r)
	if err != nil {
		return err
	}
	if _, err := s.throttle("c", 40); err != nil {
		return err
	}
	other := s.By("other", s.Places("p", 1))
	if _, err := s.Refused("another caller, while it is held", other, limiter.Concurrent); err != nil {
		return err
	}
	if err := s.Release(context.Background(), held.Permit); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	_, err = s.Granted("another caller, once it is released", other)
	return err
}
