package gate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
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
	"github.com/paceline-proxy/paceline/policy"
)

// ask is a request of a key under fixed limits.
func ask(key string, limits ...limiter.Limit) gate.Ask {
	return gate.Ask{
		Key: key, Arrived: time.Now(), Hold: time.Minute, MaxPause: time.Hour,
		Plan:    func(time.Time, policy.Activity) policy.Plan { return policy.Plan{Limits: limits} },
		Started: func(time.Time) {},
	}
}

func window(key string, calls int, per time.Duration) limiter.Limit {
	return limiter.Limit{Key: key, Calls: calls, Per: per}
}

func places(key string, n int) limiter.Limit { return limiter.Limit{Key: key, Concurrent: n} }

// book notes who was started when, in order.
type book struct {
	mu    sync.Mutex
	begin time.Time
	lines []string
}

func newBook() *book { return &book{begin: time.Now()} }

func (b *book) note(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, fmt.Sprintf("%s@%v", name, time.Since(b.begin)))
}

func (b *book) want(t *testing.T, lines ...string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.lines, lines) {
		t.Errorf("got  %v\nwant %v", b.lines, lines)
	}
}

// A retry keeps its first arrival: it goes before those that came later.
func TestRetryKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, b := gate.New(memory.New()), newBook()
		w := window("w", 1, time.Second)
		enter := func(name string, arrived time.Time) {
			a := ask("k", w)
			a.Arrived = arrived
			a.Started = func(time.Time) { b.note(name) }
			if _, err := g.Enter(t.Context(), a); err != nil {
				t.Error(err)
			}
		}
		first := time.Now()
		enter("first", first)
		for i := range 3 {
			go enter(fmt.Sprint("later", i), time.Now().Add(time.Duration(i+1)))
		}
		time.Sleep(time.Second / 2)
		enter("first again", first)
		time.Sleep(10 * time.Second)
		b.want(t, "first@0s", "first again@1s", "later0@2s", "later1@3s", "later2@4s")
	})
}

// Whoever leaves the line hands it on, at whatever step it leaves.
func TestLeavingHandsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New(memory.New())
		w := window("w", 1, time.Second)
		rng := rand.New(rand.NewPCG(1, 2))
		var wg sync.WaitGroup
		for i := range 200 {
			ctx := t.Context()
			if i%2 == 0 {
				c, cancel := context.WithTimeout(ctx, time.Duration(rng.IntN(100))*time.Second/2)
				defer cancel()
				ctx = c
			}
			wg.Go(func() {
				grant, err := g.Enter(ctx, ask("k", w))
				if err == nil {
					g.Release(grant, true)
				}
				if _, refused := errors.AsType[*gate.Refused](err); err != nil && !refused && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if a := g.Activity("k"); a.InFlight != 0 || a.Waiting != 0 {
			t.Errorf("left behind: %+v", a)
		}
	})
}

// A release frees a place for the line that has waited longest, and the
// others follow when it has asked.
func TestReleaseWakesInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, b := gate.New(memory.New()), newBook()
		p := places("shared", 2)
		hold := func(key string, d time.Duration) {
			a := ask(key, p)
			a.Started = func(time.Time) { b.note(key) }
			grant, err := g.Enter(t.Context(), a)
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(d)
			g.Release(grant, true)
		}
		for i, d := range []time.Duration{10, 20, 5, 5, 5, 5} {
			go hold(fmt.Sprint("line", i), d*time.Second)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute)
		b.want(t, "line0@0s", "line1@1ms", "line2@10s", "line3@15s", "line4@20s", "line5@20.001s")
	})
}

// Where the line that has waited longest cannot use a freed place, the next one
// is asked.
func TestFreedPlaceIsOfferedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, b := gate.New(memory.New()), newBook()
		p := places("shared", 1)
		enter := func(name string, limits ...limiter.Limit) gate.Grant {
			a := ask(name, limits...)
			a.Started = func(time.Time) { b.note(name) }
			grant, err := g.Enter(t.Context(), a)
			if err != nil {
				t.Error(err)
			}
			return grant
		}
		enter("first", window("hourly", 1, time.Hour)) // its window is used up
		holder := enter("holder", p)
		go enter("first", p, window("hourly", 1, time.Hour))
		synctest.Wait()
		go func() { g.Release(enter("second", p), true) }()
		time.Sleep(5 * time.Second)
		g.Release(holder, true)
		synctest.Wait()
		b.want(t, "first@0s", "holder@0s", "second@5s")
		time.Sleep(2 * time.Hour)
	})
}

// A place released while the head is being refused is not missed.
func TestReleaseDuringAnAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.New()
		slow := &slowLimiter{Limiter: m}
		g := gate.New(slow)
		grant, err := g.Enter(t.Context(), ask("k", places("p", 1)))
		if err != nil {
			t.Fatal(err)
		}
		slow.after = time.Second // the refusal takes a second to arrive
		got := make(chan time.Time)
		go func() {
			if _, err := g.Enter(t.Context(), ask("k", places("p", 1))); err != nil {
				t.Error(err)
			}
			got <- time.Now()
		}()
		time.Sleep(time.Second / 2)
		start := time.Now()
		g.Release(grant, true)
		if late := (<-got).Sub(start); late > 2*time.Second {
			t.Errorf("started %v after the release: it was missed", late)
		}
	})
}

// slowLimiter answers some time after it has decided, as over a network.
type slowLimiter struct {
	limiter.Limiter
	after time.Duration
}

func (s *slowLimiter) Acquire(ctx context.Context, r limiter.Request) (limiter.Decision, error) {
	d, err := s.Limiter.Acquire(ctx, r)
	time.Sleep(s.after)
	return d, err
}

// A pause longer than a waiter's patience is refused at once, whoever heads
// the line; a window never is.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New(memory.New())
		start := time.Now()
		if err := g.Throttle(t.Context(), "k", start.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		patient := ask("k", window("w", 1, time.Minute))
		patient.MaxPause = -1
		done := make(chan error, 1)
		go func() { _, err := g.Enter(t.Context(), patient); done <- err }()
		synctest.Wait()
		short := ask("k", window("w", 1, time.Minute))
		short.MaxPause = time.Minute
		_, err := g.Enter(t.Context(), short)
		if r, ok := errors.AsType[*gate.Refused](err); !ok || r.Reason != gate.Pause || !r.Until.Equal(start.Add(time.Hour)) {
			t.Errorf("refused with %v", err)
		}
		if time.Since(start) != 0 {
			t.Errorf("the refusal took %v", time.Since(start))
		}
		if err := <-done; err != nil || time.Since(start) != time.Hour {
			t.Errorf("the patient one: %v after %v", err, time.Since(start))
		}
		// The window is a turn, not a pause.
		if _, err := g.Enter(t.Context(), ask("k", window("w", 1, 1000*time.Hour))); err != nil {
			t.Errorf("waiting for a turn: %v", err)
		}
	})
}

// A deadline that cannot be met from a waiter's place in the line is refused at
// once, also where that place was taken before the line came to a halt.
func TestDeadlineByPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New(memory.New())
		begin := time.Now()
		var mu sync.Mutex
		started, refused := 0, 0
		var wg sync.WaitGroup
		for range 20 {
			a := ask("k", window("w", 2, 2*time.Second))
			a.Deadline = begin.Add(5 * time.Second)
			wg.Go(func() {
				_, err := g.Enter(t.Context(), a)
				mu.Lock()
				defer mu.Unlock()
				r, ok := errors.AsType[*gate.Refused](err)
				switch {
				case err == nil:
					started++
				case ok && r.Reason == gate.Deadline && r.Until.After(a.Deadline) && time.Since(begin) == 0:
					refused++
				default:
					t.Errorf("after %v: %v", time.Since(begin), err)
				}
			})
		}
		wg.Wait()
		if started != 6 || refused != 14 {
			t.Errorf("%d started, %d refused at once; want 6 and 14", started, refused)
		}
	})
}

// A limiter that says to ask again at once is not asked all the time.
func TestLimiterWithoutAnInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &hasty{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := gate.New(l).Enter(ctx, ask("k", window("w", 1, time.Second))); err == nil {
			t.Error("granted")
		}
		if l.asked > 1001 {
			t.Errorf("asked %d times in a second", l.asked)
		}
	})
}

// hasty refuses everything until now.
type hasty struct {
	limiter.Limiter
	asked int
}

func (h *hasty) Acquire(context.Context, limiter.Request) (limiter.Decision, error) {
	h.asked++
	now := time.Now()
	return limiter.Decision{Now: now, RetryAt: now.Add(-time.Hour)}, nil
}

// A limiter that cannot be asked is an error that says so, and no request is
// stuck behind it.
func TestBrokenLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New(broken{})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				_, err := g.Enter(t.Context(), ask("k", window("w", 1, time.Second)))
				if err == nil || !strings.Contains(err.Error(), "asking the limiter: the server is gone") {
					t.Errorf("error %v", err)
				}
			})
		}
		wg.Wait()
	})
	_, err := gate.New(memory.New()).Enter(t.Context(), ask("k", window("w", -1, time.Second)))
	if !errors.Is(err, limiter.ErrInvalid) {
		t.Errorf("an invalid limit: %v", err)
	}
}

type broken struct{ limiter.Limiter }

func (broken) Acquire(context.Context, limiter.Request) (limiter.Decision, error) {
	return limiter.Decision{}, errors.New("the server is gone")
}

// A request cancelled before it asks takes nothing: neither a start nor a
// place.
func TestCancelledTakesNothing(t *testing.T) {
	m := memory.New()
	g := gate.New(m)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := ask("k", window("w", 1, time.Hour), places("p", 1))
	a.Started = func(time.Time) { t.Error("started") }
	if _, err := g.Enter(ctx, a); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	d, err := m.Acquire(t.Context(), limiter.Request{Key: "k", Hold: time.Minute, Limits: []limiter.Limit{window("w", 1, time.Hour), places("p", 1)}})
	if err != nil || !d.Granted {
		t.Errorf("something was counted: %+v, %v", d, err)
	}
}

// Ten thousand waiters are started in order, each at its instant, and take
// little memory.
func TestLongLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		g := gate.New(memory.New())
		w := window("w", 1, 10*time.Millisecond)
		begin := time.Now()
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range n {
			a := ask("k", w)
			a.Arrived = begin.Add(time.Duration(i))
			a.Started = func(at time.Time) {
				mu.Lock()
				defer mu.Unlock()
				if want := begin.Add(time.Duration(len(order)) * 10 * time.Millisecond); !at.Equal(want) {
					t.Errorf("start %d at %v, want %v", len(order), at.Sub(begin), want.Sub(begin))
				}
				order = append(order, i)
			}
			wg.Go(func() {
				if _, err := g.Enter(t.Context(), a); err != nil {
					t.Error(err)
				}
			})
			if i == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		runtime.ReadMemStats(&after)
		if each := (after.HeapAlloc + after.StackInuse - before.HeapAlloc - before.StackInuse) / n; each > 20<<10 {
			t.Errorf("%d bytes a waiter", each)
		}
		wg.Wait()
		// Those that joined in one instant may have begun in any order, but the
		// line goes by arrival from the second on.
		if !slices.IsSorted(order) {
			t.Error("not in the order of arrival")
		}
	})
}

// Who comes between the end of a pause and the head's finding out is not
// refused for it.
func TestNobodyIsRefusedForAnEndedPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New(memory.New())
		var ended atomic.Bool
		looks := make(chan int)
		end := time.Now().Add(time.Hour)
		plan := func(time.Time, policy.Activity) policy.Plan {
			if ended.Load() {
				<-looks
				return policy.Plan{}
			}
			return policy.Plan{NotBefore: end, Paused: true, Why: "a pause"}
		}
		enter := func(patience time.Duration) {
			a := ask("k")
			a.Plan, a.MaxPause = plan, patience
			if _, err := g.Enter(t.Context(), a); err != nil {
				t.Error(err)
			}
		}
		go enter(-1)
		synctest.Wait()
		ended.Store(true)
		g.Wake("k")
		synctest.Wait() // the head is finding out
		go enter(0)
		synctest.Wait()
		close(looks)
		synctest.Wait()
	})
}

// What was freed goes on to the next line where the first has nobody left who
// could take it: its head has gone, and the others wait for limits of their own.
func TestFreedPlaceGoesOnFromALineAsleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New(memory.New())
		enter := func(ctx context.Context, key, lane string, plan policy.Plan) gate.Grant {
			a := ask(key)
			a.Lane = lane
			a.Plan = func(time.Time, policy.Activity) policy.Plan { return plan }
			grant, err := g.Enter(ctx, a)
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			return grant
		}
		shared := policy.Plan{Limits: []limiter.Limit{places("shared", 1)}}
		hourly := policy.Plan{Limits: []limiter.Limit{window("own", 1, time.Hour)}, Own: 1}
		start := time.Now()
		holder := enter(t.Context(), "other", "", shared)
		g.Release(enter(t.Context(), "a", "own", hourly), true)
		leaving, leave := context.WithCancel(t.Context())
		stay, end := context.WithCancel(t.Context())
		go enter(stay, "a", "own", hourly) // sleeps for an hour
		synctest.Wait()
		time.Sleep(time.Second)
		go enter(leaving, "a", "", shared)
		synctest.Wait()
		time.Sleep(time.Second)
		var freed time.Duration
		go func() {
			g.Release(enter(t.Context(), "b", "", shared), true)
			freed = time.Since(start)
		}()
		synctest.Wait()
		time.Sleep(time.Second)
		// The head of a is told, and has left before it could look.
		leave()
		g.Release(holder, true)
		synctest.Wait()
		time.Sleep(time.Second)
		end()
		time.Sleep(2 * time.Minute)
		if freed != 3*time.Second {
			t.Errorf("the place was taken after %v, want 3s", freed)
		}
	})
}
