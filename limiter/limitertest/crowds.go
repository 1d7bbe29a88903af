package limitertest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/paceline-proxy/paceline/limiter"
)

var crowds = []Case{
	{"a crowd does not overshoot", []string{"CC-25", "L-40", "L-46"},
		"acquires made at once are counted one after the other", checkCrowd},
	{"a crowd over several buckets", []string{"CC-25", "L-38", "L-40", "L-41"},
		"all or none, also where buckets are named in any order", checkCrowdOrders},
	{"a crowd over places", []string{"CC-25", "L-54", "L-75"},
		"no more hold a place at once than there are places", checkCrowdPlaces},
}

// crowd runs f many times at once and joins what went wrong.
func crowd(n int, f func(i int) error) error {
	var wg sync.WaitGroup
	errs := make(chan error, n)
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			if err := f(i); err != nil {
				errs <- err
			}
		})
	}
	close(start)
	wg.Wait()
	close(errs)
	return <-errs
}

func checkCrowd(s *Subject) error {
	const calls = 100
	r := s.By("c", s.Rate("a", calls, 500))
	var granted atomic.Int64
	err := crowd(32, func(int) error {
		for range 8 {
			d, err := s.Acquire(context.Background(), r)
			if err != nil {
				return err
			}
			if d.Granted {
				granted.Add(1)
			}
		}
		return nil
	})
	if n := granted.Load(); err == nil && n != calls {
		err = fmt.Errorf("%d of 256 granted, want %d", n, calls)
	}
	return err
}

func checkCrowdOrders(s *Subject) error {
	a, b, c := s.Rate("a", 40, 500), s.Rate("b", 90, 500), s.Rate("c", 90, 500)
	orders := [][]limiter.Limit{{a, b}, {b, a}, {b, c}, {c, b}, {c, a}, {a, c}}
	counts := map[string]*atomic.Int64{a.Key: {}, b.Key: {}, c.Key: {}}
	err := crowd(30, func(i int) error {
		for n := range 10 {
			limits := orders[(i+n)%len(orders)]
			d, err := s.Acquire(context.Background(), s.By("c", limits...))
			if err != nil {
				return err
			}
			if d.Granted {
				for _, l := range limits {
					counts[l.Key].Add(1)
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	// What is left of each bucket is exactly what was not granted.
	for _, l := range []limiter.Limit{a, b, c} {
		used := int(counts[l.Key].Load())
		if used > l.Calls {
			return fmt.Errorf("%d granted of %d", used, l.Calls)
		}
		if _, _, err := s.Fill(l.Calls-used, s.By("c", l)); err != nil {
			return fmt.Errorf("after %d of %d: %w", used, l.Calls, err)
		}
		if _, err := s.Refused("one more", s.By("c", l)); err != nil {
			return err
		}
	}
	return nil
}

func checkCrowdPlaces(s *Subject) error {
	const n = 5
	limits := []limiter.Limit{s.Places("p", n), s.Places("q", n+1)}
	var held, most atomic.Int64
	err := crowd(24, func(i int) error {
		for range 12 {
			// In any order: locks must not be taken in that of the request.
			d, err := s.Acquire(context.Background(), s.By("c", limits[i%2], limits[1-i%2]))
			if err != nil {
				return err
			}
			if !d.Granted {
				continue
			}
			now := held.Add(1)
			for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
			}
			held.Add(-1)
			if err := s.release(d.Permit); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if m := most.Load(); m > n {
		return fmt.Errorf("%d places held at once of %d", m, n)
	}
	for _, l := range limits {
		if _, _, err := s.Fill(l.Concurrent, s.By("c", l)); err != nil {
			return fmt.Errorf("after all were released: %w", err)
		}
	}
	return nil
}
