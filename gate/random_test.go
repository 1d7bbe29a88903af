package gate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/gate"
	"github.com/paceline-proxy/paceline/limiter"
)

// A host is a gate of its own over a server that others use as well. A host that
// is dead reaches nobody any more.
type host struct {
	*server
	gate *gate.Gate

	mu      sync.Mutex
	dead    bool
	permits map[string]bool // granted to it and not released
}

func (s *server) host() *host {
	h := &host{server: s, permits: map[string]bool{}}
	h.gate = gate.New(h)
	return h
}

var errDead = errors.New("the host is dead")

func (h *host) reach() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead {
		return errDead
	}
	return nil
}

func (h *host) AcquireBatch(ctx context.Context, rs []limiter.Request) ([]limiter.Decision, error) {
	if err := h.reach(); err != nil {
		return nil, err
	}
	ds, err := h.server.AcquireBatch(ctx, rs)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range ds {
		if d.Permit != "" {
			h.permits[d.Permit] = true
		}
	}
	return ds, err
}

func (h *host) Release(ctx context.Context, permit string) error {
	if err := h.reach(); err != nil {
		return err
	}
	err := h.server.Release(ctx, permit)
	if err == nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.permits, permit)
	}
	return err
}

func (h *host) Renew(ctx context.Context, permits []string, hold time.Duration) error {
	if err := h.reach(); err != nil {
		return err
	}
	return h.server.Renew(ctx, permits, hold)
}

// Several hosts, whose requests wait, leave, are cancelled, run, end and die
// with their hosts while the server fails now and then: each request comes to an
// end, no window and no number of places is exceeded, and when all is over
// nothing is held.
func TestRandomly(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomly(t, rand.New(rand.NewPCG(seed, 3))) })
		})
	}
}

func randomly(t *testing.T, rng *rand.Rand) {
	s := newServer(time.Duration(1+rng.IntN(10)) * time.Millisecond)
	limits := []limiter.Limit{
		window("minute", 20+rng.IntN(200), time.Minute),
		window("second", 1+rng.IntN(20), time.Second),
		places("places", 1+rng.IntN(10)),
	}
	tokens := limiter.Limit{Key: "tokens", Calls: 10_000, Per: time.Minute, Cost: 50}
	var hosts []*host
	for range 3 {
		hosts = append(hosts, s.host())
	}
	// How many run at once, all hosts together, those of a dead one left out from
	// when it dies: its permits lapse later.
	var mu sync.Mutex
	live := map[*host]int{}
	peak := 0
	var wg sync.WaitGroup
	started, left := 0, 0
	reached := time.Now()
	for i := range 400 {
		h := hosts[rng.IntN(len(hosts))]
		line := fmt.Sprint("k", rng.IntN(3))
		a := ask(line, append([]limiter.Limit{named(fmt.Sprint(i))}, limits...)...)
		if rng.IntN(2) == 0 {
			a = ask(line, append([]limiter.Limit{tokens}, limits...)...)
		}
		a.Client, a.Priority = fmt.Sprint("c", rng.IntN(4)), gate.Priority(rng.IntN(3)-1)
		ctx, cancel := context.WithCancel(t.Context())
		stop := make(chan struct{})
		a.Stop = stop
		patience := time.Duration(rng.IntN(120_000)) * time.Millisecond
		switch rng.IntN(5) {
		case 0:
			a.Deadline = time.Now().Add(patience)
		case 1:
			a.Leave = time.Now().Add(patience)
		case 2:
			time.AfterFunc(patience, cancel)
		case 3:
			time.AfterFunc(patience, func() { close(stop) })
		}
		runs := time.Duration(rng.IntN(5000)) * time.Millisecond
		long := rng.IntN(50) == 0
		settles := rng.IntN(100)
		wg.Go(func() {
			defer cancel()
			grant, err := h.gate.Enter(ctx, a)
			mu.Lock()
			if err != nil {
				left++
				mu.Unlock()
				return
			}
			started++
			if h.reach() == nil {
				live[h]++
				n := 0
				for _, m := range live {
					n += m
				}
				peak = max(peak, n)
			}
			mu.Unlock()
			if long {
				runs = 150 * time.Second // longer than its hold
			}
			time.Sleep(runs)
			mu.Lock()
			if h.reach() == nil {
				live[h]--
			}
			mu.Unlock()
			h.gate.Settle(grant, []limiter.Cost{{Key: "tokens", Cost: settles}}, true)
			h.gate.Release(grant, true)
		})
		switch n := rng.IntN(60); {
		case n == 0 && time.Since(reached) > 10*time.Second: // long enough to renew
			s.fail(errors.New("out of reach"))
			time.Sleep(time.Duration(rng.IntN(20_000)) * time.Millisecond)
			s.fail(nil)
			reached = time.Now()
		case n == 1:
			h.gate.Wake(line)
			h.gate.Hurry(line)
		}
		if i == 300 {
			h.mu.Lock()
			h.dead = true
			h.mu.Unlock()
			mu.Lock()
			delete(live, h)
			mu.Unlock()
		}
		time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
	}
	wg.Wait()
	rest(3 * time.Minute) // what a dead host held has lapsed
	if started+left != 400 || started < 20 {
		t.Errorf("%d started, %d left", started, left)
	}
	for _, l := range limits[:2] {
		s.wantWithin(t, l)
	}
	if most := limits[2].Concurrent; peak > most {
		t.Errorf("%d ran at once, of %d places", peak, most)
	}
	v, err := s.Peek(t.Context(), "k", append(limits, tokens))
	if err != nil || v.Usage[2].Held != 0 || v.Usage[3].Held != 0 {
		t.Errorf("the server holds %+v, %v", v.Usage, err)
	}
	for _, h := range hosts {
		wantIdle(t, h.gate, "k0", "k1", "k2")
		if !h.dead && len(h.permits) != 0 {
			t.Errorf("%d permits were not released", len(h.permits))
		}
	}
}
