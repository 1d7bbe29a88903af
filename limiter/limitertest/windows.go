package limitertest

import (
	"fmt"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

var windows = []Case{
	{"retryAt of a full window", []string{"CC-05", "L-66", "L-67"},
		"room comes back when the oldest call leaves the window", checkOldest},
	{"room opens at retryAt", []string{"CC-06", "L-47", "L-72", "L-74"},
		"who asks at the instant named is served, and nobody before it", checkOpens},
	{"burst then steady", []string{"CC-07", "L-46", "L-49", "L-117"},
		"a bucket refilled evenly lets through twice the count in one span", checkSteady},
	{"around a boundary", []string{"CC-07", "L-46", "L-47"},
		"windows roll: there is no instant at which a new one begins", checkBoundary},
	{"a grant leaves by itself", []string{"L-47", "L-48"},
		"each call leaves a span after its own grant, not with the others", checkOneByOne},
	{"asking does not postpone", []string{"L-41", "L-74"},
		"an impatient caller must not move its own instant", checkImpatient},
	{"retryAt is no reservation", []string{"L-73"},
		"nothing is kept for somebody who may never come", checkNoReservation},
}

func checkOldest(s *Subject) error {
	r := s.By("c", s.Rate("a", 3, 20))
	oldest, err := s.Granted("the oldest", r)
	if err != nil {
		return err
	}
	for range 2 {
		s.Sleep(s.Units(1))
		if _, err := s.Granted("another", r); err != nil {
			return err
		}
	}
	s.Sleep(s.Units(1))
	d, err := s.Refused("one too many", r, limiter.Rate)
	if err != nil {
		return err
	}
	return s.At("one too many", d, oldest.Now.Add(s.Units(20)))
}

func checkOpens(s *Subject) error {
	r := s.By("c", s.Rate("a", 2, 5))
	if _, err := s.Granted("the first", r); err != nil {
		return err
	}
	s.Sleep(s.Units(2))
	second, err := s.Granted("the second", r)
	if err != nil {
		return err
	}
	for range 2 {
		d, err := s.Refused("a full window", r)
		if err != nil {
			return err
		}
		if _, err := s.Opens(d, r); err != nil {
			return err
		}
	}
	// The window holds the two that were granted on opening.
	if d, err := s.Ask(r); err != nil || d.Granted && d.Now.Before(second.Now.Add(s.Units(10))) {
		return fmt.Errorf("granted %v after the second, by the limiter's clock: %w", d.Now.Sub(second.Now), err)
	}
	return nil
}

func checkSteady(s *Subject) error {
	const calls, per = 5, 5
	r := s.By("c", s.Rate("a", calls, per))
	var granted []time.Time
	for range calls {
		d, err := s.Granted("burst", r)
		if err != nil {
			return err
		}
		granted = append(granted, d.Now)
	}
	for range 4 * per {
		s.Sleep(s.Units(0.5))
		d, err := s.Ask(r)
		if err != nil {
			return err
		}
		if d.Granted {
			granted = append(granted, d.Now)
		}
	}
	return over(granted, calls, s.Units(per))
}

func checkBoundary(s *Subject) error {
	const calls, per = 6, 6
	r := s.By("c", s.Rate("a", calls, per))
	var granted []time.Time
	ask := func(n int) error {
		for range n {
			d, err := s.Ask(r)
			if err != nil {
				return err
			}
			if d.Granted {
				granted = append(granted, d.Now)
			}
		}
		return over(granted, calls, s.Units(per))
	}
	// Wherever a fixed window begins, at the first ask or at a multiple of its
	// span, one of these steps straddles its end with a burst on either side.
	for range 2 {
		for range 4 {
			if err := ask(1); err != nil {
				return err
			}
			s.Sleep(s.Units(per / 4.0))
			if err := ask(calls); err != nil {
				return err
			}
		}
		s.Sleep(s.Units(per - 0.5))
	}
	return nil
}

func checkOneByOne(s *Subject) error {
	r := s.By("c", s.Rate("a", 2, 6))
	first, err := s.Granted("the first", r)
	if err != nil {
		return err
	}
	s.Sleep(s.Units(3))
	second, err := s.Granted("the second", r)
	if err != nil {
		return err
	}
	d, err := s.Refused("a full window", r)
	if err != nil {
		return err
	}
	if err := s.At("a full window", d, first.Now.Add(s.Units(6))); err != nil {
		return err
	}
	third, err := s.Opens(d, r)
	if err != nil {
		return err
	}
	d, err = s.Ask(r)
	if err != nil {
		return err
	}
	if until := second.Now.Add(s.Units(6)); d.Granted {
		if d.Now.Before(until) {
			return fmt.Errorf("granted though the second call is in the window for another %v", until.Sub(d.Now))
		}
		return nil // so late that it has left
	}
	if !third.Now.Before(second.Now.Add(s.Units(6))) {
		return nil
	}
	return s.At("after the first has left", d, second.Now.Add(s.Units(6)))
}

func checkImpatient(s *Subject) error {
	r := s.By("c", s.Rate("a", 1, 5))
	first, err := s.Granted("the first", r)
	if err != nil {
		return err
	}
	var d limiter.Decision
	for range 8 {
		s.Sleep(s.Units(0.25))
		if d, err = s.Refused("an impatient one", r); err != nil {
			return err
		}
		if err := s.At("an impatient one", d, first.Now.Add(s.Units(5))); err != nil {
			return err
		}
	}
	_, err = s.Opens(d, r)
	return err
}

func checkNoReservation(s *Subject) error {
	mine, theirs := s.By("mine", s.Rate("a", 1, 4)), s.By("theirs", s.Rate("a", 1, 4))
	if _, err := s.Granted("the first", mine); err != nil {
		return err
	}
	d, err := s.Refused("mine", mine)
	if err != nil {
		return err
	}
	s.Until(d, 0)
	other, err := s.Granted("theirs, at my instant", theirs)
	if err != nil {
		return err
	}
	if d, err = s.Refused("mine, too late", mine); err != nil {
		return err
	}
	return s.At("mine, too late", d, other.Now.Add(s.Units(4)))
}

// over says where more than calls were granted inside one span.
func over(granted []time.Time, calls int, per time.Duration) error {
	for i := calls; i < len(granted); i++ {
		if span := granted[i].Sub(granted[i-calls]); span < per {
			return fmt.Errorf("%d calls within %v, want at most %d in any %v", calls+1, span, calls, per)
		}
	}
	return nil
}
