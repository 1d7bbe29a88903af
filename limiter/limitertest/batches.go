package limitertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

var batches = []Case{
	{"a batch is answered in order", []string{"CC-07"},
		"asking together must grant what asking one after the other grants", checkBatchOrder},
	{"a batch goes no further than its first refusal", nil,
		"nobody of a line overtakes whoever was refused before them", checkBatchRefusal},
	{"a batch holds a place each", nil,
		"each call ends by itself", checkBatchPermits},
	{"an impossible request fails its batch", []string{"L-65"},
		"whoever asks cannot know which of them would have counted", checkBatchInvalid},
	{"a throttle refuses its key in a batch", []string{"L-79", "L-81"},
		"a batch may be of several callers", checkBatchThrottle},
	{"a crowd of batches does not overshoot", []string{"CC-25"},
		"batches made at once are counted one after the other", checkBatchCrowd},
}

// batch asks for calls in one go, and holds each answer to what answers are.
func (s *Subject) batch(rs ...limiter.Request) ([]limiter.Decision, error) {
	ds, err := limiter.AcquireBatch(context.Background(), s.Limiter, rs)
	switch {
	case err != nil:
		return nil, fmt.Errorf("a batch of %d: %w", len(rs), err)
	case len(ds) != len(rs):
		return nil, fmt.Errorf("%d answers to a batch of %d", len(ds), len(rs))
	}
	for i, d := range ds {
		if err := sensible(d); err != nil {
			return nil, fmt.Errorf("request %d of a batch of %d: %w", i+1, len(rs), err)
		}
	}
	return ds, nil
}

// granted says whether the answers to a batch are these: true is granted.
func granted(ds []limiter.Decision, want ...bool) error {
	for i, d := range ds {
		switch {
		case d.Granted && !want[i]:
			return fmt.Errorf("request %d of %d was granted", i+1, len(ds))
		case !d.Granted && want[i]:
			return fmt.Errorf("request %d of %d was refused by %s", i+1, len(ds), causes(d))
		}
	}
	return nil
}

func checkBatchOrder(s *Subject) error {
	if ds, err := s.batch(); err != nil || len(ds) != 0 {
		return fmt.Errorf("a batch of none: %d answers, %v", len(ds), err)
	}
	for seed := range uint64(s.steps() / 75) {
		rng := rand.New(rand.NewPCG(seed, 25))
		o := &oracle{}
		requests := s.windowed(rng, fmt.Sprint(seed))
		for range s.steps() / 8 {
			s.Sleep(time.Duration(rng.ExpFloat64() * float64(s.Unit)))
			var rs []limiter.Request
			for i := range 1 + rng.IntN(12) {
				r := requests[rng.IntN(len(requests))]
				r.Key += fmt.Sprint(i) // so that no refusal is one of those after it
				rs = append(rs, r)
			}
			ds, err := s.batch(rs...)
			if err != nil {
				return fmt.Errorf("seed %d: %w", seed, err)
			}
			for i, d := range ds {
				if err := s.judge(o, rs[i], d); err != nil {
					return fmt.Errorf("seed %d, request %d of %d: %w", seed, i+1, len(ds), err)
				}
			}
		}
		if err := o.over(requests); err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
	}
	return nil
}

func checkBatchRefusal(s *Subject) error {
	a := s.Rate("a", 4, 20)
	one, large := s.By("c", a), costing(s.By("c", a), 3)
	ds, err := s.batch(one, one, large, one, s.By("other", a), s.By("c", s.Rate("b", 9, 20)), s.By("other", a))
	if err != nil {
		return err
	}
	if err := granted(ds, true, true, false, false, true, false, true); err != nil {
		return err
	}
	for _, d := range []limiter.Decision{ds[3], ds[5]} {
		if !d.RetryAt.Equal(ds[2].RetryAt) || causes(d) != causes(ds[2]) {
			return fmt.Errorf("refused by %s, after a refusal by %s", causes(d), causes(ds[2]))
		}
	}
	if err := s.At("the refusal of 3 beside 2 of 4", ds[2], ds[0].Now.Add(a.Per)); err != nil {
		return err
	}
	// What was not judged counted nowhere.
	_, _, err = s.Fill(9, s.By("c", s.Rate("b", 9, 20)))
	return err
}

func checkBatchPermits(s *Subject) error {
	r := s.By("c", s.Places("p", 3))
	ds, err := s.batch(r, r, r, r)
	if err != nil {
		return err
	}
	if err := granted(ds, true, true, true, false); err != nil {
		return err
	}
	if !refusedFor(ds[3], limiter.Concurrent) {
		return fmt.Errorf("refused by %s", causes(ds[3]))
	}
	for i, d := range ds[:3] {
		if d.Permit == "" || d.Permit == ds[(i+1)%3].Permit {
			return fmt.Errorf("permit %q is none of its own", d.Permit)
		}
		if err := s.release(d.Permit); err != nil {
			return err
		}
		if _, err := s.Granted("the place that was released", r); err != nil {
			return err
		}
		if _, err := s.Refused("one place more", r, limiter.Concurrent); err != nil {
			return err
		}
	}
	return nil
}

func checkBatchInvalid(s *Subject) error {
	r := s.By("c", s.Rate("a", 3, 20), s.Places("p", 3))
	bad := r
	bad.Cost = -1
	for _, rs := range [][]limiter.Request{{bad, r, r}, {r, r, bad}} {
		if _, err := limiter.AcquireBatch(context.Background(), s.Limiter, rs); !errors.Is(err, limiter.ErrInvalid) {
			return fmt.Errorf("a batch with a negative cost: %v", err)
		}
	}
	_, _, err := s.Fill(3, r)
	return err
}

func checkBatchThrottle(s *Subject) error {
	if _, err := s.throttle("closed", 40); err != nil {
		return err
	}
	a := s.Rate("a", 2, 20)
	ds, err := s.batch(s.By("closed", a), s.By("open", a), s.By("closed"), s.By("open", a), s.By("open", a))
	if err != nil {
		return err
	}
	if err := granted(ds, false, true, false, true, false); err != nil {
		return err
	}
	if !refusedFor(ds[0], limiter.Throttle) || !refusedFor(ds[2], limiter.Throttle) || refusedFor(ds[4], limiter.Throttle) {
		return fmt.Errorf("refused by %s and %s and %s", causes(ds[0]), causes(ds[2]), causes(ds[4]))
	}
	return nil
}

func checkBatchCrowd(s *Subject) error {
	const calls = 100
	r := s.By("c", s.Rate("a", calls, 500))
	var n atomic.Int64
	err := crowd(16, func(int) error {
		for range 3 {
			ds, err := s.batch(r, r, r, r, r)
			if err != nil {
				return err
			}
			for _, d := range ds {
				if d.Granted {
					n.Add(1)
				}
			}
		}
		return nil
	})
	if n := n.Load(); err == nil && n != calls {
		err = fmt.Errorf("%d of 240 granted, want %d", n, calls)
	}
	return err
}
