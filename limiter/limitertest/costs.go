package limitertest

import (
	"fmt"
	"math"

	"github.com/paceline-proxy/paceline/limiter"
)

var costs = []Case{
	{"cost counts", []string{"CC-08", "L-50"},
		"a call that costs n takes what n calls would", checkCost},
	{"cost left out is one", []string{"L-50", "L-65"},
		"a zero value is an ordinary call", checkNoCost},
	{"several must leave", []string{"CC-10", "L-68"},
		"a dear call waits until enough old ones have left, no longer", checkSeveral},
	{"cost above calls waits for an empty window", []string{"CC-09", "L-52"},
		"a call that can never fit would otherwise wait for ever", checkOversize},
	{"cost above calls counts as calls", []string{"CC-09", "L-51"},
		"what does not fit must not close the window for longer than a span", checkOversizeCounts},
	{"a limit has its own cost", []string{"L-50"},
		"tokens and requests of one call are counted side by side", checkOwnCost},
	{"cost is a number", []string{"L-50"},
		"a call of a million tokens is no slower than another, and none overflows", checkHuge},
}

func costing(r limiter.Request, cost int) limiter.Request {
	r.Cost = cost
	return r
}

func checkCost(s *Subject) error {
	r := s.By("c", s.Rate("a", 10, 20))
	if _, _, err := s.Fill(2, costing(r, 4)); err != nil {
		return err
	}
	if _, err := s.Refused("12 of 10", costing(r, 4)); err != nil {
		return err
	}
	if _, err := s.Refused("11 of 10", costing(r, 3)); err != nil {
		return err
	}
	if _, err := s.Granted("10 of 10", costing(r, 2)); err != nil {
		return err
	}
	_, err := s.Refused("11 of 10", costing(r, 1))
	return err
}

func checkNoCost(s *Subject) error {
	r := s.By("c", s.Rate("a", 3, 20))
	if _, _, err := s.Fill(3, costing(r, 0)); err != nil {
		return err
	}
	_, err := s.Refused("the fourth", costing(r, 0))
	return err
}

func checkSeveral(s *Subject) error {
	r := s.By("c", s.Rate("a", 4, 20))
	var second limiter.Decision
	for i := range 4 {
		d, err := s.Granted("a small one", r)
		if err != nil {
			return err
		}
		if i == 1 {
			second = d
		}
		s.Sleep(s.Units(0.5))
	}
	d, err := s.Refused("one of cost 2", costing(r, 2))
	if err != nil {
		return err
	}
	if err := s.At("one of cost 2", d, second.Now.Add(s.Units(20))); err != nil {
		return err
	}
	if d, err = s.Refused("one of cost 1", r); err != nil {
		return err
	}
	if d.RetryAt.Sub(second.Now) >= s.Units(20) && s.Tolerance == 0 {
		return fmt.Errorf("a call of cost 1 waits as long as one of cost 2")
	}
	return nil
}

func checkOversize(s *Subject) error {
	r := s.By("c", s.Rate("a", 5, 4))
	if _, err := s.Granted("a small one", r); err != nil {
		return err
	}
	s.Sleep(s.Units(1))
	last, err := s.Granted("another", r)
	if err != nil {
		return err
	}
	d, err := s.Refused("cost 50 of 5 while two are in the window", costing(r, 50))
	if err != nil {
		return err
	}
	if err := s.At("cost 50 of 5", d, last.Now.Add(s.Units(4))); err != nil {
		return err
	}
	_, err = s.Opens(d, costing(r, 50))
	return err
}

func checkOversizeCounts(s *Subject) error {
	big, err := s.Granted("cost 50 of 5, first of all", costing(s.By("c", s.Rate("a", 5, 20)), 50))
	if err != nil {
		return err
	}
	d, err := s.Refused("cost 1 of 5 after it", s.By("c", s.Rate("a", 5, 20)))
	if err != nil {
		return err
	}
	if err := s.At("cost 1 after it", d, big.Now.Add(s.Units(20))); err != nil {
		return err
	}
	if _, err := s.Granted("3 more of 8: it counted as 5", costing(s.By("c", s.Rate("a", 8, 20)), 3)); err != nil {
		return err
	}
	_, err = s.Refused("1 more of 8", s.By("c", s.Rate("a", 8, 20)))
	return err
}

func checkOwnCost(s *Subject) error {
	tokens := s.Rate("tokens", 1000, 20)
	tokens.Cost = 400
	r := costing(s.By("c", s.Rate("requests", 4, 20), tokens), 1)
	if _, _, err := s.Fill(2, r); err != nil {
		return err
	}
	d, err := s.Refused("1200 of 1000 tokens", r)
	if err != nil {
		return err
	}
	if len(d.Refused) != 1 || d.Refused[0].Key != tokens.Key {
		return fmt.Errorf("refused by %s: want the tokens alone", causes(d))
	}
	if _, _, err := s.Fill(2, s.By("c", s.Rate("requests", 4, 20))); err != nil {
		return fmt.Errorf("requests counted as tokens: %w", err)
	}
	_, err = s.Refused("the fifth request", s.By("c", s.Rate("requests", 4, 20)))
	return err
}

func checkHuge(s *Subject) error {
	for _, calls := range []int{1 << 20, math.MaxInt32, math.MaxInt >> 11} {
		r := s.By("c", s.Rate(fmt.Sprint("a", calls), calls, 50))
		if _, err := s.Granted("all but one", costing(r, calls-1)); err != nil {
			return err
		}
		if _, err := s.Refused("two more", costing(r, 2)); err != nil {
			return err
		}
		if _, err := s.Granted("one more", costing(r, 1)); err != nil {
			return err
		}
		if _, err := s.Refused("the largest cost there is", costing(r, math.MaxInt32)); err != nil {
			return err
		}
	}
	return nil
}
