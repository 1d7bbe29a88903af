package limitertest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

var patterns = []Case{
	{"random spacing", []string{"CC-07", "L-46", "L-48", "L-67", "L-68", "L-71", "L-72", "L-74"},
		"the rules hold together, for any spacing of the asks", func(s *Subject) error {
			return s.follow(func(rng *rand.Rand, _ int) time.Duration {
				return time.Duration(rng.ExpFloat64() * float64(s.Unit) / 8)
			})
		}},
	{"bursts", []string{"CC-07", "L-46", "L-48"},
		"many callers wake at the same instant", func(s *Subject) error {
			return s.follow(func(rng *rand.Rand, i int) time.Duration {
				if i%16 != 0 {
					return 0
				}
				return time.Duration(rng.Float64() * 3 * float64(s.Unit))
			})
		}},
	{"a burst, then a steady stream", []string{"CC-07", "L-48", "L-49"},
		"the pattern that overfills a bucket refilled evenly", func(s *Subject) error {
			return s.follow(func(_ *rand.Rand, i int) time.Duration {
				if i < 12 {
					return 0
				}
				return s.Unit / 7
			})
		}},
	{"places come and go", []string{"L-54", "L-58", "L-75", "L-77"},
		"no sequence of grants, releases and lapses frees a place too many or loses one", followPlaces},
}

// steps is how many asks a pattern has. Where time is real they have to pass.
func (s *Subject) steps() int {
	if s.Unit >= time.Second/2 {
		return 300
	}
	return 80
}

// follow compares a limiter with the oracle at every step of a pattern.
func (s *Subject) follow(gap func(rng *rand.Rand, i int) time.Duration) error {
	for seed := range uint64(s.steps() / 75) {
		rng := rand.New(rand.NewPCG(seed, 48))
		o := &oracle{}
		requests := s.windowed(rng, fmt.Sprint(seed))
		for i := range s.steps() {
			s.Sleep(gap(rng, i))
			r := requests[rng.IntN(len(requests))]
			if err := s.compare(o, r); err != nil {
				return fmt.Errorf("seed %d, step %d: %w", seed, i, err)
			}
		}
		if err := o.over(requests); err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
	}
	return nil
}

// windowed makes requests over a few buckets, each bucket with the same windows
// wherever it is named.
func (s *Subject) windowed(rng *rand.Rand, name string) []limiter.Request {
	a := []limiter.Limit{s.Rate(name+"a", 3, 1), s.Rate(name+"a", 7, 4)}
	b := []limiter.Limit{s.Rate(name+"b", 5, 2)}
	c := []limiter.Limit{s.Rate(name+"c", 20, 6)}
	var requests []limiter.Request
	for _, limits := range [][]limiter.Limit{a, b, c, slices.Concat(a, b), slices.Concat(b, c), slices.Concat(c, a, b)} {
		for _, cost := range []int{1, 1 + rng.IntN(3)} {
			requests = append(requests, costing(s.By(name, limits...), cost))
		}
	}
	// One of a bucket with one window may cost more than its window holds.
	return append(requests, costing(s.By(name, c...), 50))
}

// compare puts one request to the limiter and judges the answer.
func (s *Subject) compare(o *oracle, r limiter.Request) error {
	d, err := s.Ask(r)
	if err != nil {
		return err
	}
	return s.judge(o, r, d)
}

// judge compares an answer with the oracle's at the instant that the limiter says
// it was given at, so that no delay matters, and tells it of a grant.
func (s *Subject) judge(o *oracle, r limiter.Request, d limiter.Decision) error {
	want, causes := o.judge(d.Now, r)
	switch {
	case d.Granted && len(causes) > 0:
		return fmt.Errorf("granted %v too early", want.Sub(d.Now))
	case !d.Granted && !causes[limiter.Concurrent]:
		if len(causes) == 0 {
			// Only a limiter that may be late may be late.
			want, causes = o.judge(d.Now.Add(-s.Tolerance), r)
			if len(causes) == 0 {
				return fmt.Errorf("refused for %v, though there is room", d.RetryAfter())
			}
		}
		if err := s.At("compared with a plain log", d, want); err != nil {
			return err
		}
	}
	if d.Granted {
		o.book(d, r)
	}
	return nil
}

// over says where a window was ever exceeded, whatever the limiter said.
func (o *oracle) over(requests []limiter.Request) error {
	for _, r := range requests {
		for _, l := range r.Limits {
			used, first := 0, 0
			for i, b := range o.booked {
				if b.bucket != l.Key {
					continue
				}
				used += b.cost
				for ; !o.booked[first].at.Add(l.Per).After(b.at); first++ {
					if o.booked[first].bucket == l.Key {
						used -= o.booked[first].cost
					}
				}
				if used > l.Calls {
					return fmt.Errorf("a cost of %d in %v up to call %d, want at most %d", used, l.Per, i, l.Calls)
				}
			}
		}
	}
	return nil
}

func followPlaces(s *Subject) error {
	rng := rand.New(rand.NewPCG(54, 75))
	o := &oracle{}
	limits := []limiter.Limit{s.Places("p", 2), s.Places("q", 3), s.Places("r", 1)}
	var permits []string
	for i := range s.steps() {
		s.Sleep(time.Duration(rng.ExpFloat64() * float64(s.Unit) / 8))
		if rng.IntN(3) == 0 && len(permits) > 0 {
			// Any of them: held, lapsed or long since released.
			permit := permits[rng.IntN(len(permits))]
			if err := s.release(permit); err != nil {
				return err
			}
			o.release(permit)
			continue
		}
		n := 1 + rng.IntN(len(limits))
		r := holding(s.By("c", limits[:n]...), s, 0.25+rng.Float64())
		d, err := s.Ask(r)
		if err != nil {
			return err
		}
		lapse, causes := o.judge(d.Now, r)
		switch {
		case d.Granted && len(causes) > 0:
			return fmt.Errorf("step %d: granted, though the next place lapses in %v", i, lapse.Sub(d.Now))
		case !d.Granted && len(causes) == 0:
			if _, causes = o.judge(d.Now.Add(-s.Tolerance), r); len(causes) == 0 {
				return fmt.Errorf("step %d: refused, though there is a place", i)
			}
		case !d.Granted && d.RetryAt.Sub(lapse) > s.Tolerance:
			return fmt.Errorf("step %d: retryAt is %v after the next lapse", i, d.RetryAt.Sub(lapse))
		}
		if d.Granted {
			o.book(d, r)
			permits = append(permits, d.Permit)
		}
	}
	return nil
}
