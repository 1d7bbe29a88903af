package gate_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/gate"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/memory"
)

// A server is a limiter in memory as several hosts reach it over a network: each
// call takes a round trip, in the middle of which it is decided.
type server struct {
	*memory.Limiter
	trip time.Duration

	mu       sync.Mutex
	calls    int // of AcquireBatch
	asked    []int
	granted  []string               // names of granted requests, in order
	permits  map[string]bool        // granted and not released
	times    map[string][]time.Time // of grants, by bucket
	renewed  []int                  // how many permits each Renew had
	settled  []int                  // costs
	down     error                  // of every call
	released int
	before   func() // in the middle of a call, before it is decided
}

func newServer(trip time.Duration) *server {
	return &server{Limiter: memory.New(), trip: trip, permits: map[string]bool{}, times: map[string][]time.Time{}}
}

// named is a limit that limits nothing but tells the server who asks.
func named(name string) limiter.Limit { return window("name/"+name, 1<<30, time.Nanosecond) }

func nameOf(r limiter.Request) string {
	for _, l := range r.Limits {
		if name, ok := strings.CutPrefix(l.Key, "name/"); ok {
			return name
		}
	}
	return ""
}

// travel takes half a trip, has something decided, and takes the other half.
func (s *server) travel(ctx context.Context, decide func() error) error {
	if err := wait(ctx, s.trip/2); err != nil {
		return err
	}
	s.mu.Lock()
	err := s.down
	if err == nil {
		if s.before != nil {
			s.before()
		}
		err = decide()
	}
	s.mu.Unlock()
	return errors.Join(err, wait(ctx, s.trip-s.trip/2))
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// alone is a host that asks one by one.
type alone struct{ s *server }

func (a alone) Acquire(ctx context.Context, r limiter.Request) (limiter.Decision, error) {
	ds, err := a.s.AcquireBatch(ctx, []limiter.Request{r})
	if err != nil {
		return limiter.Decision{}, err
	}
	return ds[0], nil
}
func (a alone) Release(ctx context.Context, permit string) error { return a.s.Release(ctx, permit) }
func (a alone) Throttle(ctx context.Context, key string, until time.Time) error {
	return a.s.Throttle(ctx, key, until)
}

func (s *server) AcquireBatch(ctx context.Context, rs []limiter.Request) (ds []limiter.Decision, err error) {
	err = s.travel(ctx, func() (err error) {
		s.calls++
		s.asked = append(s.asked, len(rs))
		if ds, err = limiter.AcquireBatch(ctx, s.Limiter, rs); err != nil {
			return err
		}
		for i, d := range ds {
			if !d.Granted {
				for j, f := range d.Refused { // as shared limiters do
					if soon := d.Now.Add(100 * time.Millisecond); f.Cause == limiter.Concurrent && f.RetryAt.After(soon) {
						ds[i].Refused = slices.Clone(d.Refused)
						ds[i].Refused[j].RetryAt = soon
					}
				}
				continue
			}
			s.granted = append(s.granted, nameOf(rs[i]))
			if d.Permit != "" {
				s.permits[d.Permit] = true
			}
			for _, l := range rs[i].Limits {
				if l.Calls > 0 && l.Per > time.Nanosecond {
					s.times[l.Key] = append(s.times[l.Key], d.Now)
				}
			}
		}
		return nil
	})
	return ds, err
}

func (s *server) Release(ctx context.Context, permit string) error {
	return s.travel(ctx, func() error {
		delete(s.permits, permit)
		s.released++
		return s.Limiter.Release(ctx, permit)
	})
}

func (s *server) Renew(ctx context.Context, permits []string, hold time.Duration) error {
	return s.travel(ctx, func() error {
		s.renewed = append(s.renewed, len(permits))
		return s.Limiter.Renew(ctx, permits, hold)
	})
}

func (s *server) Settle(ctx context.Context, permit string, costs []limiter.Cost) error {
	return s.travel(ctx, func() error {
		s.settled = append(s.settled, costs[0].Cost)
		return s.Limiter.Settle(ctx, permit, costs)
	})
}

func (s *server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err
}

// held is how many permits nobody has released.
func (s *server) held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.permits)
}

// wantWithin checks that no window of a bucket ever had more grants than calls.
func (s *server) wantWithin(t *testing.T, l limiter.Limit) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.times[l.Key]
	for i := l.Calls; i < len(at); i++ {
		if span := at[i].Sub(at[i-l.Calls]); span < l.Per {
			t.Errorf("%s: grants %d to %d within %v, at most %d in %v", l.Key, i-l.Calls, i, span, l.Calls, l.Per)
		}
	}
}

// wantNothingHeld checks that every permit has been given back.
func (s *server) wantNothingHeld(t *testing.T) {
	t.Helper()
	if n := s.held(); n != 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		t.Errorf("%d permits are held: %v", n, slices.Collect(maps.Keys(s.permits)))
	}
}

var _ interface {
	limiter.Limiter
	limiter.Batcher
	limiter.Renewer
	limiter.Settler
} = (*server)(nil)

// wantIdle checks that a gate counts nobody any more.
func wantIdle(t *testing.T, g *gate.Gate, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if a := g.Activity(key); a.InFlight != 0 || a.Waiting != 0 {
			t.Errorf("left behind in %s: %+v", key, a)
		}
	}
}

// rest lets some time pass, and all that happens in it.
func rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
