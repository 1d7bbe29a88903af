package limitertest

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/paceline-proxy/paceline/limiter"
)

var settling = []Case{
	{"settling less makes room at once", nil,
		"an estimate is too much more often than not", checkSettleLess},
	{"settling more counts from then on", nil,
		"the provider counts what is produced when it is", checkSettleMore},
	{"settling is of totals", nil,
		"a long answer is settled as it comes", checkSettleTotals},
	{"settling more than calls counts as calls", []string{"CC-09"},
		"one call closes a window for no longer than a span", checkSettleOversize},
	{"settling concerns its own call", nil,
		"nobody may give back what others have taken", checkSettleOwn},
	{"settling ends with the permit", nil,
		"what is late must not count against calls that came since", checkSettleDead},
	{"a restart forgets no settling", nil,
		"it may be what the provider counts", checkSettleRestart},
}

// costly is a request that takes so much of a window, and holds nothing.
func (s *Subject) costly(bucket string, calls, cost int) limiter.Request {
	l := s.Rate(bucket, calls, 20)
	l.Cost = cost
	return s.By("c", l)
}

// settle says what a permit's call has cost in a bucket.
func (s *Subject) settle(permit, bucket string, cost int) error {
	err := s.Limiter.(limiter.Settler).Settle(context.Background(), permit, []limiter.Cost{{Key: s.Key(bucket), Cost: cost}})
	if err != nil {
		return fmt.Errorf("settling %q: %w", permit, err)
	}
	return nil
}

// settler is whether the limiter settles.
func (s *Subject) settler() error {
	if _, ok := s.Limiter.(limiter.Settler); !ok {
		return ErrNotPromised
	}
	return nil
}

func checkSettleLess(s *Subject) error {
	if err := s.settler(); err != nil {
		return err
	}
	first, err := s.Granted("60 of 100", s.costly("a", 100, 60))
	if err != nil {
		return err
	}
	if _, err := s.Refused("60 more", s.costly("a", 100, 60)); err != nil {
		return err
	}
	s.Sleep(s.Units(2))
	if err := s.settle(first.Permit, "a", 40); err != nil {
		return err
	}
	if _, err := s.Granted("60 beside 40", s.costly("a", 100, 60)); err != nil {
		return err
	}
	// What is left counts from when it was granted.
	d, err := s.Refused("40 more", s.costly("a", 100, 40))
	if err != nil {
		return err
	}
	if err := s.At("40 more", d, first.Now.Add(s.Units(20))); err != nil {
		return err
	}
	if err := s.settle(first.Permit, "a", 0); err != nil {
		return err
	}
	_, err = s.Granted("40 beside nothing", s.costly("a", 100, 40))
	return err
}

func checkSettleMore(s *Subject) error {
	if err := s.settler(); err != nil {
		return err
	}
	first, err := s.Granted("10 of 100", s.costly("a", 100, 10))
	if err != nil {
		return err
	}
	s.Sleep(s.Units(5))
	if err := s.settle(first.Permit, "a", 70); err != nil {
		return err
	}
	settled, err := s.Refused("40 beside 70", s.costly("a", 100, 40))
	if err != nil {
		return err
	}
	if err := s.At("40, once the first 10 have left", settled, first.Now.Add(s.Units(20))); err != nil {
		return err
	}
	d, err := s.Refused("50 beside 70", s.costly("a", 100, 50))
	if err != nil {
		return err
	}
	// 60 of them have counted for no longer than since they were settled.
	if early := first.Now.Add(s.Units(25)).Sub(d.RetryAt); early > 0 {
		return fmt.Errorf("50 beside 70: room %v early", early)
	}
	if late := d.RetryAt.Sub(settled.Now.Add(s.Units(20))); late > s.Tolerance {
		return fmt.Errorf("50 beside 70: room %v late", late)
	}
	return nil
}

func checkSettleTotals(s *Subject) error {
	if err := s.settler(); err != nil {
		return err
	}
	d, err := s.Granted("10 of 100", s.costly("a", 100, 10))
	if err != nil {
		return err
	}
	for _, step := range []struct{ total, room int }{{30, 70}, {30, 70}, {60, 40}, {60, 40}, {20, 80}, {50, 50}, {0, 100}, {5, 95}} {
		if err := s.settle(d.Permit, "a", step.total); err != nil {
			return err
		}
		if step.total > 0 { // else it counts as what there is room for
			if _, err := s.Refused(fmt.Sprintf("one too many beside %d", step.total), s.costly("a", 100, step.room+1)); err != nil {
				return err
			}
		}
		other, err := s.Granted(fmt.Sprintf("%d beside %d", step.room, step.total), s.costly("a", 100, step.room))
		if err != nil {
			return err
		}
		if err := s.settle(other.Permit, "a", 0); err != nil {
			return err
		}
	}
	return nil
}

func checkSettleOversize(s *Subject) error {
	if err := s.settler(); err != nil {
		return err
	}
	d, err := s.Granted("10 of 100", s.costly("a", 100, 10))
	if err != nil {
		return err
	}
	for _, total := range []int{1000, min(1<<40, math.MaxInt), 500} {
		if err := s.settle(d.Permit, "a", total); err != nil {
			return err
		}
		if _, err := s.Refused("one more of 100", s.costly("a", 100, 1)); err != nil {
			return err
		}
		other, err := s.Granted("one more of 101: it counts as 100", s.costly("a", 101, 1))
		if err != nil {
			return err
		}
		if err := s.settle(other.Permit, "a", 0); err != nil {
			return err
		}
	}
	return nil
}

func checkSettleOwn(s *Subject) error {
	if err := s.settler(); err != nil {
		return err
	}
	r := s.costly("a", 100, 50)
	r.Limits = append(r.Limits, s.Rate("requests", 2, 20), s.Places("p", 2))
	first, second, err := s.Fill(2, r)
	if err != nil {
		return err
	}
	if err := s.settle(first.Permit, "a", 0); err != nil {
		return err
	}
	// Twice is once, a bucket without a cost of its own has counted a call, and
	// strangers are passed over.
	for _, c := range []struct{ permit, bucket string }{
		{first.Permit, "a"}, {first.Permit, "requests"}, {first.Permit, "never named"}, {"", "a"}, {"no permit at all", "a"},
	} {
		if err := s.settle(c.permit, c.bucket, 0); err != nil {
			return err
		}
	}
	if _, err := s.Refused("51 beside 50", s.costly("a", 100, 51)); err != nil {
		return err
	}
	if _, err := s.Refused("a third request", s.By("c", s.Rate("requests", 2, 20))); err != nil {
		return err
	}
	if _, err := s.Refused("a third place", s.By("c", s.Places("p", 2)), limiter.Concurrent); err != nil {
		return err
	}
	if err := s.settle(second.Permit, "a", 20); err != nil {
		return err
	}
	if _, err := s.Granted("80 beside 20", s.costly("a", 100, 80)); err != nil {
		return err
	}
	err = s.Limiter.(limiter.Settler).Settle(context.Background(), second.Permit, []limiter.Cost{{Key: s.Key("a"), Cost: -1}})
	if !errors.Is(err, limiter.ErrInvalid) {
		return fmt.Errorf("settling a negative total: %v", err)
	}
	return nil
}

func checkSettleDead(s *Subject) error {
	if err := s.settler(); err != nil {
		return err
	}
	released, err := s.Granted("50 of 100", s.costly("a", 100, 50))
	if err != nil {
		return err
	}
	lapsed, err := s.Granted("50 more", holding(s.costly("a", 100, 50), s, 2))
	if err != nil {
		return err
	}
	if err := s.release(released.Permit); err != nil {
		return err
	}
	s.Sleep(s.Units(3))
	for _, permit := range []string{released.Permit, lapsed.Permit} {
		if err := s.settle(permit, "a", 0); err != nil {
			return err
		}
	}
	d, err := s.Refused("one more", s.costly("a", 100, 1))
	if err != nil {
		return err
	}
	if _, err := s.Opens(d, s.costly("a", 100, 50)); err != nil {
		return err
	}
	// What has left its window is gone, and a larger total counts all the same.
	old, err := s.Granted("50 of 100", s.costly("b", 100, 50))
	if err != nil {
		return err
	}
	s.Sleep(s.Units(21))
	if err := s.settle(old.Permit, "b", 10); err != nil {
		return err
	}
	other, err := s.Granted("100 of 100", s.costly("b", 100, 100))
	if err != nil {
		return err
	}
	if err := s.settle(other.Permit, "b", 0); err != nil {
		return err
	}
	if err := s.settle(old.Permit, "b", 40); err != nil {
		return err
	}
	if _, err := s.Refused("71 beside 30", s.costly("b", 100, 71)); err != nil {
		return err
	}
	_, err = s.Granted("70 beside 30", s.costly("b", 100, 70))
	return err
}

func checkSettleRestart(s *Subject) error {
	if err := s.settler(); err != nil {
		return err
	}
	if s.reopen == nil {
		return ErrNotPromised
	}
	less, err := s.Granted("60 of 100", s.costly("a", 100, 60))
	if err != nil {
		return err
	}
	more, err := s.Granted("10 of 100", s.costly("b", 100, 10))
	if err != nil {
		return err
	}
	s.Sleep(s.Units(2))
	if err := s.settle(less.Permit, "a", 20); err != nil {
		return err
	}
	if err := s.settle(more.Permit, "b", 70); err != nil {
		return err
	}
	for range 2 {
		s.Limiter = s.reopen(s.Limiter)
		for _, c := range []struct {
			bucket string
			room   int
		}{{"a", 80}, {"b", 30}} {
			if _, err := s.Refused("one too many in "+c.bucket, s.costly(c.bucket, 100, c.room+1)); err != nil {
				return err
			}
			d, err := s.Granted("what is left in "+c.bucket, s.costly(c.bucket, 100, c.room))
			if err != nil {
				return err
			}
			if err := s.settle(d.Permit, c.bucket, 0); err != nil {
				return err
			}
		}
		s.Sleep(s.Units(1))
	}
	return nil
}
