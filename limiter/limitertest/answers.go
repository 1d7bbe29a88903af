package limitertest

import (
	"fmt"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

var answers = []Case{
	{"the latest retryAt stands", []string{"CC-11", "L-71"},
		"a call needs all its limits, so it need not be asked before the slowest", checkLatest},
	{"no method blocks", []string{"CC-24", "L-37"},
		"whoever asks does the waiting, so that it can be cut short, counted and shown", checkNoBlocking},
	{"extreme numbers", []string{"L-46", "L-66"},
		"a span of a nanosecond or a year and a million calls are limits like others", checkExtremes},
}

func checkLatest(s *Subject) error {
	early, late := s.Rate("early", 1, 20), s.Rate("late", 1, 60)
	if _, err := s.Granted("early", s.By("c", early)); err != nil {
		return err
	}
	last, err := s.Granted("late", s.By("c", late))
	if err != nil {
		return err
	}
	for _, r := range []limiter.Request{s.By("c", early, late), s.By("c", late, early)} {
		d, err := s.Refused("both", r)
		if err != nil {
			return err
		}
		if err := s.At("both", d, last.Now.Add(s.Units(60))); err != nil {
			return err
		}
		if len(d.Refused) != 2 {
			return fmt.Errorf("refused by %s: want both buckets", causes(d))
		}
	}
	return nil
}

func checkNoBlocking(s *Subject) error {
	r := s.By("c", s.Rate("a", 1, 20), s.Places("p", 1))
	held, err := s.Granted("the first", r)
	if err != nil {
		return err
	}
	for what, act := range map[string]func() error{
		"a refused acquire": func() error { _, err := s.Refused("full", r); return err },
		"a release":         func() error { return s.release(held.Permit) },
		"a throttle":        func() error { _, err := s.throttle("c", 20); return err },
	} {
		start := time.Now()
		if err := act(); err != nil {
			return err
		}
		if took := time.Since(start); took > s.Units(5) {
			return fmt.Errorf("%s took %v", what, took)
		}
	}
	return nil
}

func checkExtremes(s *Subject) error {
	const year = 365 * 24 * time.Hour
	for _, l := range []limiter.Limit{
		{Calls: 1, Per: year},
		{Calls: 1, Per: 200 * year},
		{Calls: 1_000_000, Per: s.Units(100)},
	} {
		l.Key = s.Key(fmt.Sprint(l.Calls, l.Per))
		r := costing(s.By("c", l), l.Calls)
		first, err := s.Granted("all at once", r)
		if err != nil {
			return err
		}
		d, err := s.Refused("more", r)
		if err != nil {
			return err
		}
		if err := s.At("more", d, first.Now.Add(l.Per)); err != nil {
			return err
		}
	}
	short := s.By("c", limiter.Limit{Key: s.Key("short"), Calls: 1, Per: time.Nanosecond})
	for range 20 {
		d, err := s.Ask(short)
		if err != nil {
			return err
		}
		if !d.Granted && d.RetryAfter() > time.Nanosecond+s.Tolerance {
			return fmt.Errorf("a window of 1 ns is full for %v", d.RetryAfter())
		}
		s.Sleep(time.Nanosecond)
	}
	return nil
}
