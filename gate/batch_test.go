package gate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/gate"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/policy"
)

const trip = 5 * time.Millisecond

// pass enters and releases.
func pass(t *testing.T, g *gate.Gate, a gate.Ask) {
	t.Helper()
	grant, err := g.Enter(t.Context(), a)
	if err != nil {
		t.Error(err)
		return
	}
	g.Release(grant, true)
}

// A line of a thousand goes in as many round trips as it takes for 64 at a time,
// in the order of arrival.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		s := newServer(trip)
		g := gate.New(s)
		begin := time.Now()
		var wg sync.WaitGroup
		var want []string
		for i := range n {
			a := ask("k", places("p", n), named(fmt.Sprint(i)))
			a.Arrived = begin.Add(time.Duration(i))
			want = append(want, fmt.Sprint(i))
			wg.Go(func() { pass(t, g, a) })
			if i == 0 {
				synctest.Wait()
			}
		}
		wg.Wait()
		took := time.Since(begin)
		rest(time.Second)
		if s.calls != 1+(n+62)/64 || took != time.Duration(s.calls)*trip {
			t.Errorf("%d calls, %v: %v", s.calls, took, s.asked)
		}
		if !slices.Equal(s.granted, want) {
			t.Errorf("granted in the order %v", s.granted)
		}
		s.wantNothingHeld(t)
		wantIdle(t, g, "k")
	})
}

// P-74: the order of a line is the same however many go at a time: by priority,
// by clients in turn, by arrival.
func TestBatchesKeepTheOrder(t *testing.T) {
	order := func(seed uint64, together bool) (order []string) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			s := newServer(time.Microsecond)
			g := gate.New(s)
			if !together {
				g = gate.New(alone{s})
			}
			w := window("w", 1+rng.IntN(20), time.Second)
			var wg sync.WaitGroup
			if err := s.Throttle(t.Context(), "k", time.Now().Add(time.Second)); err != nil {
				t.Fatal(err)
			}
			for i := range 150 {
				client := fmt.Sprint("client", rng.IntN(1+rng.IntN(6)))
				a := ask("k", w, named(fmt.Sprint(i, " ", client)))
				a.Client, a.Priority = client, gate.Priority(rng.IntN(3)-1)
				a.Arrived = a.Arrived.Add(-time.Duration(rng.IntN(100)) * time.Millisecond)
				if lane := rng.IntN(3); lane > 0 {
					a.Lane = fmt.Sprint("lane", lane)
				}
				wg.Go(func() { pass(t, g, a) })
				synctest.Wait()
			}
			wg.Wait()
			order = s.granted
			s.wantWithin(t, w)
		})
		return order
	}
	for seed := range uint64(20) {
		if one, many := order(seed, false), order(seed, true); !slices.Equal(one, many) {
			t.Errorf("seed %d:\none by one %v\ntogether   %v", seed, one, many)
		}
	}
}

// A line of even starts costs one round trip a start: the one beyond learns when
// it is worth asking again.
func TestEvenStartsCostACallEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(trip)
		g, b := gate.New(s), newBook()
		w := window("w", 1, time.Second)
		for range 20 {
			a := ask("k", w)
			a.Started = func(time.Time) { b.note("") }
			go pass(t, g, a)
		}
		rest(30 * time.Second)
		if s.calls > 22 {
			t.Errorf("%d calls for 20 starts: %v", s.calls, s.asked)
		}
		// Each is as late as the one before it, and by the half of its own trip.
		for i, l := range b.lines {
			at, _ := time.ParseDuration(l[1:])
			if late := at - time.Duration(i)*time.Second; late < 0 || late > time.Duration(i+2)*trip {
				t.Errorf("start %d at %v", i, at)
			}
		}
		s.wantWithin(t, w)
	})
}

// A refusal in the middle of a batch lets those before it through, and those
// behind it wait on, in order.
func TestRefusalInABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(trip)
		g, b := gate.New(s), newBook()
		w := window("w", 10, time.Second)
		if err := s.Limiter.Throttle(t.Context(), "k", time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		var want []string
		for i := range 25 {
			a := ask("k", w, named(fmt.Sprint(i)))
			a.Arrived = a.Arrived.Add(time.Duration(i))
			a.Started = func(time.Time) { b.note("") }
			want = append(want, fmt.Sprint(i))
			go pass(t, g, a)
			synctest.Wait()
		}
		rest(time.Minute)
		if !slices.Equal(s.granted, want) {
			t.Errorf("granted in the order %v", s.granted)
		}
		s.wantWithin(t, w)
		if last := b.lines[24]; last > "@3.1s" {
			t.Errorf("the last start: %s", last)
		}
		wantIdle(t, g, "k")
	})
}

// The head that leaves while it is asked for takes nothing from those behind it,
// and what was granted to it is given back.
func TestHeadLeavesInMidCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(trip)
		g := gate.New(s)
		p, w := places("p", 10), window("w", 100, time.Hour)
		if err := s.Limiter.Throttle(t.Context(), "k", time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		// The second call, after one that was refused, asks for two.
		s.before = func() {
			if s.calls == 1 {
				time.AfterFunc(0, cancel)
			}
		}
		var wg sync.WaitGroup
		for i := range 5 {
			a := ask("k", p, w, named(fmt.Sprint(i)))
			a.Arrived = a.Arrived.Add(time.Duration(i))
			c := t.Context()
			if i == 0 || i == 3 {
				c = ctx
			}
			wg.Go(func() {
				grant, err := g.Enter(c, a)
				if at := time.Since(begin); i == 0 || i == 3 {
					if err != context.Canceled || at != time.Second+trip {
						t.Errorf("%d left after %v with %v", i, at, err)
					}
					return
				}
				if err != nil || time.Since(begin) > time.Second+4*trip {
					t.Errorf("%d: %v after %v", i, err, time.Since(begin))
				}
				time.Sleep(time.Second)
				g.Release(grant, true)
			})
			synctest.Wait()
		}
		wg.Wait()
		rest(time.Second)
		if want := []string{"0", "1", "2", "4"}; !slices.Equal(s.granted, want) {
			t.Errorf("granted: %v", s.granted)
		}
		s.wantNothingHeld(t)
		wantIdle(t, g, "k")
		if v, err := s.Peek(t.Context(), "k", []limiter.Limit{p, w}); err != nil || v.Usage[0].Held != 0 || v.Usage[1].Used != len(s.granted) {
			t.Errorf("the limiter holds %+v, %v; want no places and %d calls", v, err, len(s.granted))
		}
	})
}

// An error reaches everyone who was asked for together, and the next ask works.
func TestErrorForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(trip)
		g := gate.New(s)
		begin := time.Now()
		go pass(t, g, ask("k"))
		synctest.Wait() // under way
		rest(trip * 3 / 4)
		s.fail(errors.New("the server is gone"))
		var wg sync.WaitGroup
		keys := []string{"k"}
		for i := range 20 {
			key := "k"
			if i > 10 {
				key = fmt.Sprint("other", i)
				keys = append(keys, key)
			}
			wg.Go(func() {
				_, err := g.Enter(t.Context(), ask(key, places("p", 100)))
				if err == nil || !strings.Contains(err.Error(), "asking the limiter: the server is gone") || time.Since(begin) > 3*trip {
					t.Errorf("error %v after %v", err, time.Since(begin))
				}
			})
		}
		wg.Wait()
		s.fail(nil)
		pass(t, g, ask("k"))
		rest(time.Second)
		wantIdle(t, g, keys...)
		s.wantNothingHeld(t)
	})
}

// An impossible request fails alone, whoever it travels with.
func TestImpossibleRequestFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(trip)
		g := gate.New(s)
		go pass(t, g, ask("k"))
		synctest.Wait()
		for i := range 10 {
			good := ask("k", places("p", 100))
			good.Arrived = good.Arrived.Add(time.Duration(2 * i))
			go pass(t, g, good)
			bad := ask("k", window("w", -1, time.Second))
			bad.Arrived = good.Arrived.Add(1)
			go func() {
				if _, err := g.Enter(t.Context(), bad); !errors.Is(err, limiter.ErrInvalid) {
					t.Errorf("an invalid limit: %v", err)
				}
			}()
		}
		rest(time.Second)
		wantIdle(t, g, "k")
		s.wantNothingHeld(t)
	})
}

// Asks of several lines that meet while a call is under way travel together in
// the next; a lone one goes at once.
func TestLinesTravelTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(trip)
		g := gate.New(s)
		begin := time.Now()
		pass(t, g, ask("lone"))
		if took := time.Since(begin); took != trip {
			t.Errorf("a lone ask took %v", took)
		}
		begin = time.Now()
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() { pass(t, g, ask(fmt.Sprint("k", i))) })
		}
		wg.Wait()
		if want := []int{1, 1, 39}; !slices.Equal(s.asked, want) || time.Since(begin) != 2*trip {
			t.Errorf("calls of %v requests, %v", s.asked, time.Since(begin))
		}
		// A full call has nothing to wait for.
		s.asked, begin = nil, time.Now()
		for i := range 100 {
			wg.Go(func() { pass(t, g, ask(fmt.Sprint("k", i))) })
		}
		wg.Wait()
		slices.Sort(s.asked)
		if want := []int{1, 35, 64}; !slices.Equal(s.asked, want) || time.Since(begin) > 2*trip {
			t.Errorf("calls of %v requests, %v", s.asked, time.Since(begin))
		}
	})
}

// A call that does not come back holds up the others for a moment only, and
// those it was made for no longer than they wait.
func TestBlockedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(trip)
		block := make(chan struct{})
		g := gate.New(&blocking{server: s, key: "blocked", block: block})
		enter := func(key string, patience, want time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			begin := time.Now()
			grant, err := g.Enter(ctx, ask(key, places("p", 10)))
			if took := time.Since(begin); took != want || (err == nil) == (key == "blocked") {
				t.Errorf("%s: %v after %v, want %v", key, err, took, want)
			}
			if err == nil {
				g.Release(grant, true)
			}
		}
		go enter("blocked", 3*time.Second, 3*time.Second)
		synctest.Wait()
		for i := range 3 {
			go enter(fmt.Sprint("k", i), time.Minute, 100*time.Millisecond+trip)
		}
		rest(time.Second)
		enter("k", time.Minute, trip) // nobody waits for it any more
		rest(10 * time.Second)
		close(block)
		rest(time.Second)
		s.wantNothingHeld(t)
		wantIdle(t, g, "blocked", "k")
	})
}

// blocking is a server that does not answer one key.
type blocking struct {
	*server
	key   string
	block chan struct{}
}

func (b *blocking) AcquireBatch(ctx context.Context, rs []limiter.Request) ([]limiter.Decision, error) {
	ds, err := b.server.AcquireBatch(ctx, rs)
	if rs[0].Key == b.key {
		<-b.block
	}
	return ds, err
}

// A plan is made for each of a batch as if those before it had been started,
// and one that has to wait ends it.
func TestPlansOfABatch(t *testing.T) {
	for name, ends := range map[string]func(*policy.Plan){
		"full":     func(p *policy.Plan) { p.Full = true },
		"later":    func(p *policy.Plan) { p.NotBefore = time.Now().Add(time.Second) },
		"free":     func(p *policy.Plan) { p.Free = true },
		"an error": func(p *policy.Plan) { p.Limits = []limiter.Limit{{Key: "nothing"}} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				s := newServer(trip)
				g := gate.New(s)
				first := ask("k")
				first.Priority = gate.Background
				go pass(t, g, first) // the others come while it is asked for
				synctest.Wait()
				var mu sync.Mutex
				var seen []policy.Activity
				for i := range 10 {
					a := ask("k")
					a.Arrived = a.Arrived.Add(time.Duration(i))
					if a.Priority = gate.Background; i == 2 {
						a.Priority = gate.Normal
					}
					a.Plan = func(_ time.Time, activity policy.Activity) policy.Plan {
						mu.Lock()
						defer mu.Unlock()
						seen = append(seen, activity)
						p := policy.Plan{Limits: []limiter.Limit{places("p", 100)}}
						if i == 6 && activity.Ahead > 0 {
							ends(&p)
						}
						return p
					}
					go g.Enter(t.Context(), a)
				}
				rest(trip)
				mu.Lock()
				plans := slices.Clone(seen)
				mu.Unlock()
				rest(time.Minute) // to the end of all
				seen = plans
				if len(seen) != 7 {
					t.Fatalf("%d plans: %+v", len(seen), seen)
				}
				for i, a := range seen {
					want := policy.Activity{InFlight: seen[0].InFlight + i, Waiting: 10 - i, Ahead: i, Background: i > 0}
					if i > 0 {
						want.Foreground = begin.Add(trip)
					}
					if a != want {
						t.Errorf("plan %d is made with %+v, want %+v", i, a, want)
					}
				}
				if want := []int{1, 6}; !slices.Equal(s.asked[:2], want) {
					t.Errorf("asked for %v", s.asked)
				}
			})
		})
	}
}

// A waking while the head is asked for is not missed: what it is refused for may
// be over.
func TestWakingDuringACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(trip)
		g, b := gate.New(s), newBook()
		if err := s.Limiter.Throttle(t.Context(), "k", time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		a := ask("k")
		a.Started = func(time.Time) { b.note("") }
		go pass(t, g, a)
		rest(trip * 3 / 4) // refused, which is not known yet
		if err := s.Open(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		g.Wake("k")
		rest(2 * time.Hour)
		b.want(t, "@10ms")
	})
}

// A head whose alarm comes while one before it is asked for, which then meets
// limits of its own alone, asks next.
func TestAlarmDuringACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(trip)
		g, b := gate.New(s), newBook()
		w, slow := window("w", 1, time.Second), window("slow", 1, time.Hour)
		start(t, g, b, "first", own("k", "slow", slow, w))
		go start(t, g, b, "head", ask("k", w))
		rest(time.Second - trip) // its alarm comes a moment after the other has come
		urgent := own("k", "slow", slow, w)
		urgent.Priority = gate.Interactive
		go start(t, g, b, "urgent", urgent)
		rest(2 * time.Hour)
		b.want(t, "first@5ms", "head@1.01s", "urgent@1h0m0.01s")
	})
}

// A limiter that fails at once fails all who ask.
func TestFailingAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New(failing{memory.New()})
		var wg sync.WaitGroup
		for i := range 2000 {
			wg.Go(func() {
				if _, err := g.Enter(t.Context(), ask(fmt.Sprint("k", i%2))); err == nil {
					t.Error("let through")
				}
			})
		}
		wg.Wait()
		wantIdle(t, g, "k0", "k1")
	})
}

type failing struct{ *memory.Limiter }

func (failing) AcquireBatch(context.Context, []limiter.Request) ([]limiter.Decision, error) {
	return nil, errors.New("out of reach")
}

// The time that a shared limiter takes to answer is nobody's wait: who may not
// wait at all is let through where there is room, also while others are asked
// for, and refused at once where there is none.
func TestNoPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(trip)
		g := gate.New(s)
		w := window("w", 5, time.Hour)
		begin := time.Now()
		var mu sync.Mutex
		passed, refused := 0, 0
		var wg sync.WaitGroup
		for i := range 8 {
			a := ask("k", w)
			a.Arrived = begin.Add(time.Duration(i))
			a.Deadline = begin
			wg.Go(func() {
				grant, err := g.Enter(t.Context(), a)
				mu.Lock()
				defer mu.Unlock()
				r, ok := errors.AsType[*gate.Refused](err)
				switch took := time.Since(begin); {
				case err == nil:
					passed++
					g.Release(grant, true)
				case ok && r.Reason == gate.Deadline && took < 100*time.Millisecond:
					refused++
				default:
					t.Errorf("%v after %v", err, took)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		if passed != 5 || refused != 3 {
			t.Errorf("%d passed, %d were refused", passed, refused)
		}
		wantIdle(t, g, "k")
	})
}

// A request that is let through at once waits for a shared limiter for a moment
// only, and what it is granted later is given back.
func TestPassingASlowLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for trip, counted := range map[time.Duration]bool{trip: true, 5 * time.Second: false} {
			s := newServer(trip)
			g := gate.New(s)
			begin := time.Now()
			grant := g.Pass(t.Context(), ask("k", places("p", 1)))
			if took := time.Since(begin); took > 100*time.Millisecond || (grant.Permit != "") != counted {
				t.Errorf("a trip of %v: let through after %v with permit %q", trip, took, grant.Permit)
			}
			if a := g.Activity("k"); a.InFlight != 1 {
				t.Errorf("%+v", a)
			}
			g.Release(grant, true)
			rest(time.Minute)
			s.wantNothingHeld(t)
			wantIdle(t, g, "k")
			if len(s.granted) != 1 {
				t.Errorf("%d granted", len(s.granted))
			}
		}
	})
}

// A limiter that says it can renew permits, and then cannot, is not relied on
// for it any more.
func TestUnsupportedRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New(&fixed{newServer(trip)})
		if !g.Renews() {
			t.Error("it does not say that it can")
		}
		a := ask("k", places("p", 2))
		a.Fault = func(err error) { t.Error(err) }
		grant := enter(t, g, a)
		g.Settle(grant, []limiter.Cost{{Key: "p", Cost: 1}}, false)
		rest(30 * time.Second)
		if g.Renews() {
			t.Error("it says still that it can")
		}
		g.Release(grant, true)
		rest(time.Second)
	})
}

// fixed stands for a server that can neither renew nor settle.
type fixed struct{ *server }

func (fixed) Renew(context.Context, []string, time.Duration) error { return errors.ErrUnsupported }
func (fixed) Settle(context.Context, string, []limiter.Cost) error { return errors.ErrUnsupported }
