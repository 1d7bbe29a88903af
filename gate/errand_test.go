package gate_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/gate"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/memory"
)

// enter stands in line, and fails the test where that comes to nothing.
func enter(t *testing.T, g *gate.Gate, a gate.Ask) gate.Grant {
	t.Helper()
	grant, err := g.Enter(t.Context(), a)
	if err != nil {
		t.Error(err)
	}
	return grant
}

// Who has something to tell a shared limiter does not wait for it: a release
// takes no time, and wakes who has waited for the place when it has been told.
func TestNobodyWaitsForARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(time.Second)
		g := gate.New(s)
		p := places("p", 1)
		grant := enter(t, g, ask("k", p))
		begin := time.Now()
		var started time.Duration
		go func() {
			grant := enter(t, g, ask("k", p))
			started = time.Since(begin)
			g.Release(grant, true)
		}()
		rest(1500 * time.Millisecond)
		g.Settle(grant, []limiter.Cost{{Key: "p", Cost: 1}}, true)
		g.Release(grant, true)
		if took := time.Since(begin); took != 1500*time.Millisecond {
			t.Errorf("settling and releasing took %v", took-1500*time.Millisecond)
		}
		if a := g.Activity("k"); a.InFlight != 0 {
			t.Errorf("%d in flight after the release", a.InFlight)
		}
		rest(time.Minute)
		// It is settled at 2 s, released at 3 s and known to be at 3.5 s; an ask of
		// the meantime that was refused is repeated then.
		if started < 3500*time.Millisecond || started > 5*time.Second {
			t.Errorf("the next one started after %v", started)
		}
		s.wantNothingHeld(t)
	})
}

// What a request has cost is told in order, the latest in the place of what was
// not yet told, and before its release.
func TestSettlingInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(time.Second)
		g := gate.New(s)
		tokens := limiter.Limit{Key: "t", Calls: 1000, Per: time.Hour, Cost: 100}
		grant := enter(t, g, ask("k", tokens))
		for cost := 101; cost <= 110; cost++ {
			g.Settle(grant, []limiter.Cost{{Key: "t", Cost: cost}}, false)
			time.Sleep(290 * time.Millisecond)
		}
		g.Settle(grant, []limiter.Cost{{Key: "t", Cost: 7}}, true)
		g.Release(grant, true)
		rest(time.Minute)
		if want := []int{101, 104, 107, 7}; !slices.Equal(s.settled, want) || s.released != 1 {
			t.Errorf("settled %v, released %d times; want %v", s.settled, s.released, want)
		}
		if v, err := s.Peek(t.Context(), "k", []limiter.Limit{tokens}); err != nil || v.Usage[0].Used != 7 {
			t.Errorf("counted: %+v, %v; want 7", v.Usage, err)
		}
	})
}

// A release that the limiter could not be told of is repeated until it has
// been, over any limiter.
func TestReleaseIsRepeated(t *testing.T) {
	for name, shared := range map[string]bool{"shared": true, "in the process": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(time.Millisecond)
				g := gate.New(s)
				if !shared {
					g = gate.New(alone{s})
				}
				var faults atomic.Int32
				a := ask("k", places("p", 1))
				a.Fault = func(err error) {
					if faults.Add(1); !strings.Contains(err.Error(), "releasing a permit: out of reach") {
						t.Error(err)
					}
				}
				grant := enter(t, g, a)
				s.fail(errors.New("out of reach"))
				g.Release(grant, true)
				rest(10 * time.Second)
				if s.held() != 1 {
					t.Error("the permit is gone")
				}
				s.fail(nil)
				rest(5 * time.Second)
				s.wantNothingHeld(t)
				if n := faults.Load(); n != 1 {
					t.Errorf("said %d times", n)
				}
				wantIdle(t, g, "k")
			})
		})
	}
}

// It is given up when the permit has lapsed by itself.
func TestReleaseIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &unreleasable{Limiter: memory.New()}
		g := gate.New(l)
		g.Release(enter(t, g, ask("k", places("p", 1))), true)
		rest(time.Hour)
		if n := l.tries.Load(); n < 10 || n > 20 {
			t.Errorf("tried %d times", n)
		}
	})
}

type unreleasable struct {
	*memory.Limiter
	tries atomic.Int32
}

func (u *unreleasable) Release(context.Context, string) error {
	u.tries.Add(1)
	return errors.New("lost")
}

// All permits are renewed in one call, three times in a hold, for as long as
// their grants are not released.
func TestRenewing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(trip)
		g := gate.New(s)
		p := places("p", 100)
		var grants []gate.Grant
		for i := range 100 {
			grants = append(grants, enter(t, g, ask(fmt.Sprint("k", i%10), p)))
			time.Sleep(100 * time.Millisecond)
		}
		rest(5 * time.Minute)
		if n := len(s.renewed); n < 15 || n > 16 || slices.Min(s.renewed) != 100 {
			t.Errorf("renewed %v", s.renewed)
		}
		if v, err := s.Peek(t.Context(), "k", []limiter.Limit{p}); err != nil || v.Usage[0].Held != 100 {
			t.Errorf("held: %+v, %v", v.Usage, err)
		}
		for _, grant := range grants[1:] {
			g.Release(grant, true)
		}
		rest(time.Minute)
		if n := s.renewed[len(s.renewed)-1]; n != 1 {
			t.Errorf("%d renewed when one is left", n)
		}
		g.Release(grants[0], true)
		n := len(s.renewed)
		rest(time.Hour)
		if len(s.renewed) != n {
			t.Errorf("renewed %v when none is left", s.renewed[n:])
		}
		s.wantNothingHeld(t)
	})
}

// A renewal that fails is tried again sooner, and said once.
func TestRenewingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(trip)
		g := gate.New(s)
		var faults atomic.Int32
		a := ask("k", places("p", 1))
		a.Fault = func(error) { faults.Add(1) }
		grant := enter(t, g, a)
		rest(19 * time.Second)
		s.fail(errors.New("out of reach"))
		rest(38 * time.Second)
		s.fail(nil)
		rest(time.Minute)
		if _, err := s.Limiter.Acquire(t.Context(), limiter.Request{Key: "x", Limits: []limiter.Limit{places("p", 1)}, Hold: time.Second}); err != nil {
			t.Fatal(err)
		}
		if v, err := s.Peek(t.Context(), "k", []limiter.Limit{places("p", 1)}); err != nil || v.Usage[0].Held != 1 || len(s.permits) != 1 {
			t.Errorf("held: %+v, %v", v.Usage, err)
		}
		if n := faults.Load(); n != 1 {
			t.Errorf("said %d times", n)
		}
		g.Release(grant, true)
		rest(time.Second)
	})
}

// Permits that have lapsed because they could not be renewed may be another
// host's now; but their requests still run, and count here.
func TestLapsedPermitsCountHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(trip)
		g := gate.New(s)
		p := places("p", 3)
		a := ask("k", p)
		grants := []gate.Grant{enter(t, g, a), enter(t, g, a)}
		s.fail(errors.New("out of reach"))
		rest(2 * time.Minute)
		s.fail(nil)
		if v, err := s.Peek(t.Context(), "k", []limiter.Limit{p}); err != nil || v.Usage[0].Held != 0 {
			t.Fatalf("held: %+v, %v", v.Usage, err)
		}
		// Two of three still run here, so one may start, in this line or another.
		third := enter(t, g, a)
		var mu sync.Mutex
		started := map[string]time.Duration{}
		begin := time.Now()
		for _, key := range []string{"k", "other"} {
			go func() {
				grant := enter(t, g, ask(key, p))
				mu.Lock()
				started[key] = time.Since(begin)
				mu.Unlock()
				time.Sleep(time.Minute)
				g.Release(grant, true)
			}()
			synctest.Wait()
		}
		rest(10 * time.Second)
		if len(started) > 0 || g.Activity("k").InFlight != 3 {
			t.Errorf("started %v, %+v", started, g.Activity("k"))
		}
		g.Release(grants[0], true)
		rest(10 * time.Second)
		g.Release(third, true)
		rest(10 * time.Second)
		at := slices.Sorted(maps.Values(started))
		if len(at) != 2 || at[0].Truncate(time.Second) != 10*time.Second || at[1].Truncate(time.Second) != 20*time.Second {
			t.Errorf("started %v", started)
		}
		g.Release(grants[1], true)
		rest(2 * time.Minute)
		s.wantNothingHeld(t)
		wantIdle(t, g, "k", "other")
		// Nothing is left out any more.
		begin = time.Now()
		grants = []gate.Grant{enter(t, g, a), enter(t, g, a), enter(t, g, a)}
		if took := time.Since(begin); took != 3*trip {
			t.Errorf("three places were had after %v", took)
		}
		for _, grant := range grants {
			g.Release(grant, true)
		}
		rest(time.Second)
	})
}

// Places that another host may have given back are asked for again after a
// tenth of a second at most, not all hosts at once.
func TestPlacesOfOtherHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(trip)
		p := places("p", 1)
		d, err := s.Acquire(t.Context(), limiter.Request{Key: "another host", Limits: []limiter.Limit{p}, Hold: time.Hour})
		if err != nil || !d.Granted {
			t.Fatal(d, err)
		}
		begin := time.Now()
		var asks []time.Duration
		s.before = func() { asks = append(asks, time.Since(begin)) }
		var started time.Duration
		go func() {
			g := gate.New(s)
			grant := enter(t, g, ask("k", p))
			started = time.Since(begin)
			g.Release(grant, true)
		}()
		rest(10 * time.Second)
		if err := s.Limiter.Release(t.Context(), d.Permit); err != nil {
			t.Fatal(err)
		}
		rest(time.Second)
		if late := started - 10*time.Second; late > 100*time.Millisecond+trip {
			t.Errorf("started %v after the place was free", late)
		}
		waits := map[time.Duration]bool{}
		for i := 1; i < len(asks)-1; i++ {
			wait := asks[i] - asks[i-1] - trip
			if waits[wait] = true; wait < 50*time.Millisecond || wait > 100*time.Millisecond {
				t.Errorf("asked again after %v", wait)
			}
		}
		if len(waits) < len(asks)/2 {
			t.Errorf("asked again at %v: hosts meet", asks)
		}
	})
}
