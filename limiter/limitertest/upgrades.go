package limitertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

var upgrades = []Case{
	{"opening ends a throttle", nil,
		"an operator may know better than the provider's answer", checkOpen},
	{"peeking says what is counted", nil,
		"people see what binds them", checkPeek},
	{"peeking counts nothing", nil,
		"looking on must not cost", checkPeekFree},
	{"seeding counts an earlier call", []string{"P-119"},
		"what an earlier process sent counts from when it was sent", checkSeed},
	{"a restart forgets nothing", []string{"CC-27"},
		"the provider does not forget either", checkRestart},
}

func checkOpen(s *Subject) error {
	opener, ok := s.Limiter.(limiter.Opener)
	if !ok {
		return ErrNotPromised
	}
	for _, caller := range []string{"c", "other"} {
		if _, err := s.throttle(caller, 40); err != nil {
			return err
		}
	}
	for _, caller := range []string{"c", "c", "never closed"} {
		if err := opener.Open(context.Background(), s.Key(caller)); err != nil {
			return fmt.Errorf("open: %w", err)
		}
	}
	if _, err := s.Granted("opened", s.By("c", s.Rate("a", 1, 20))); err != nil {
		return err
	}
	if _, err := s.Refused("another key", s.By("other"), limiter.Throttle); err != nil {
		return err
	}
	// It can be closed again, and opens by itself.
	if _, err := s.throttle("c", 2); err != nil {
		return err
	}
	d, err := s.Refused("closed again", s.By("c"), limiter.Throttle)
	if err != nil {
		return err
	}
	_, err = s.Opens(d, s.By("c"))
	return err
}

// peek wants a view of two windows and the places of one bucket.
func (s *Subject) peek(peeker limiter.Peeker, what string, closed bool, minute, hour, held int) error {
	v, err := peeker.Peek(context.Background(), s.Key("c"),
		[]limiter.Limit{s.Rate("a", 9, 4), s.Rate("a", 9, 20), s.Places("a", 9)})
	switch {
	case err != nil:
		return fmt.Errorf("peek: %w", err)
	case len(v.Usage) != 3:
		return fmt.Errorf("%s: usage of %d limits, want 3", what, len(v.Usage))
	case v.Usage[0].Used != minute || v.Usage[1].Used != hour || v.Usage[2].Held != held:
		return fmt.Errorf("%s: %+v, want %d and %d used, %d held", what, v.Usage, minute, hour, held)
	case v.Throttled.After(v.Now) != closed:
		return fmt.Errorf("%s: closed until now%+v", what, v.Throttled.Sub(v.Now))
	}
	return nil
}

func checkPeek(s *Subject) error {
	peeker, ok := s.Limiter.(limiter.Peeker)
	if !ok {
		return ErrNotPromised
	}
	if err := s.peek(peeker, "nothing", false, 0, 0, 0); err != nil {
		return err
	}
	r := s.By("c", s.Rate("a", 9, 4), s.Rate("a", 9, 20), s.Places("a", 9))
	first, err := s.Granted("one call", r)
	if err != nil {
		return err
	}
	if _, err := s.Granted("one that costs 3", costing(r, 3)); err != nil {
		return err
	}
	if err := s.peek(peeker, "two calls", false, 4, 4, 2); err != nil {
		return err
	}
	if _, err := s.throttle("c", 40); err != nil {
		return err
	}
	if err := s.release(first.Permit); err != nil {
		return err
	}
	s.Sleep(s.Units(5))
	if err := s.peek(peeker, "later", true, 0, 4, 1); err != nil {
		return err
	}
	bad := []limiter.Limit{{Key: s.Key("a"), Calls: -1, Per: 1}}
	if _, err := peeker.Peek(context.Background(), s.Key("c"), bad); !errors.Is(err, limiter.ErrInvalid) {
		return fmt.Errorf("peek at an impossible limit: %v", err)
	}
	return nil
}

func checkPeekFree(s *Subject) error {
	peeker, ok := s.Limiter.(limiter.Peeker)
	if !ok {
		return ErrNotPromised
	}
	r := s.By("c", s.Rate("a", 3, 20), s.Places("p", 3))
	for range 3 {
		for range 3 {
			if _, err := peeker.Peek(context.Background(), r.Key, r.Limits); err != nil {
				return fmt.Errorf("peek: %w", err)
			}
		}
		if _, err := s.Granted("after peeking", r); err != nil {
			return err
		}
	}
	_, err := s.Refused("a fourth", r, limiter.Rate, limiter.Concurrent)
	return err
}

// opensAt wants a refusal that names an instant between two of the caller's
// clock, or a tolerance later.
func (s *Subject) opensAt(what string, r limiter.Request, cause limiter.Cause, least, most time.Time) error {
	before := time.Now()
	d, err := s.Refused(what, r, cause)
	if err != nil {
		return err
	}
	if early := least.Sub(time.Now().Add(d.RetryAfter())); early > 0 {
		return fmt.Errorf("%s: room %v early", what, early)
	}
	if late := before.Add(d.RetryAfter()).Sub(most); late > s.Tolerance {
		return fmt.Errorf("%s: room %v late", what, late)
	}
	return nil
}

func checkSeed(s *Subject) error {
	seeder, ok := s.Limiter.(limiter.Seeder)
	if !ok {
		return ErrNotPromised
	}
	now := time.Now()
	minute, hour := s.Rate("a", 2, 20), s.Rate("a", 3, 60)
	for _, c := range []struct {
		units float64
		limit limiter.Limit
	}{{-70, hour}, {-30, hour}, {-5, minute}} {
		if err := seeder.Seed(context.Background(), []limiter.Limit{c.limit}, now.Add(s.Units(c.units))); err != nil {
			return fmt.Errorf("seed: %w", err)
		}
	}
	late := time.Since(now) // what was told later seems to be younger
	if _, err := s.Granted("the third of three, since one is too old", s.By("c", hour)); err != nil {
		return err
	}
	at := now.Add(s.Units(30))
	if err := s.opensAt("a fourth", s.By("c", hour), limiter.Rate, at, at.Add(late)); err != nil {
		return err
	}
	at = now.Add(s.Units(15))
	if err := s.opensAt("the shorter window", s.By("c", minute), limiter.Rate, at, at.Add(late)); err != nil {
		return err
	}
	// A cost of its own, and an instant to come.
	costly := s.Rate("b", 3, 60)
	costly.Cost = 2
	before := time.Now()
	if err := seeder.Seed(context.Background(), []limiter.Limit{costly}, now.Add(s.Units(1000))); err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	after := time.Now()
	return s.opensAt("what cannot be yet", s.By("c", costly), limiter.Rate, before.Add(costly.Per), after.Add(costly.Per))
}

func checkRestart(s *Subject) error {
	if s.reopen == nil {
		return ErrNotPromised
	}
	start := time.Now()
	window, places := s.By("c", s.Rate("a", 1, 60)), s.By("c", s.Places("p", 1))
	if _, err := s.Granted("a call", window); err != nil {
		return err
	}
	if _, err := s.Granted("a place", places); err != nil {
		return err
	}
	least, most, err := s.throttleWithin("closed", 50)
	if err != nil {
		return err
	}
	granted := time.Now()
	for range 2 {
		s.Sleep(s.Units(1))
		s.Limiter = s.reopen(s.Limiter)
		if err := s.opensAt("the window", window, limiter.Rate, start.Add(s.Units(60)), granted.Add(s.Units(60))); err != nil {
			return err
		}
		if err := s.opensAt("the throttle", s.By("closed"), limiter.Throttle, least, most); err != nil {
			return err
		}
		if _, err := s.Refused("the place", places, limiter.Concurrent); err != nil {
			return err
		}
		if _, err := s.Granted("another bucket", s.By("c", s.Rate("b"+fresh(), 1, 60))); err != nil {
			return err
		}
	}
	return nil
}
