package gate_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/gate"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/policy"
)

// start enters, notes the start, and releases at once.
func start(t *testing.T, g *gate.Gate, b *book, name string, a gate.Ask) {
	a.Started = func(time.Time) { b.note(name) }
	grant, err := g.Enter(t.Context(), a)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	g.Release(grant, true)
}

// each has waiters join one after the other at one instant.
func joins(fs ...func()) {
	for _, f := range fs {
		go f()
		synctest.Wait()
	}
}

// P-74, BerriAI/litellm#31830: a line goes by priority, and within one first
// come first served.
func TestPriorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, b := gate.New(memory.New()), newBook()
		w := window("w", 1, time.Second)
		enter := func(name string, p gate.Priority) func() {
			a := ask("k", w)
			a.Priority = p
			return func() { start(t, g, b, name, a) }
		}
		joins(enter("first", gate.Background),
			enter("background", gate.Background), enter("normal", gate.Normal), enter("interactive", gate.Interactive),
			enter("background too", gate.Background), enter("normal too", gate.Normal), enter("interactive too", gate.Interactive))
		time.Sleep(time.Minute)
		b.want(t, "first@0s", "interactive@1s", "interactive too@2s", "normal@3s", "normal too@4s",
			"background@5s", "background too@6s")
	})
}

// BerriAI/litellm#31830: a background request that has waited ten minutes
// counts as normal, so it moves although others keep coming.
func TestBackgroundAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, b := gate.New(memory.New()), newBook()
		w := window("w", 1, time.Minute)
		start(t, g, b, "first", ask("k", w))
		time.Sleep(time.Second)
		bg := ask("k", w)
		bg.Priority = gate.Background
		joins(func() { start(t, g, b, "background", bg) })
		for range 30 {
			go start(t, g, newBook(), "", ask("k", w))
		}
		// The others came after it, so once it has aged its turn is the next.
		time.Sleep(time.Hour)
		b.want(t, "first@0s", "background@11m0s")
	})
}

// Clients take turns: the one with the fewest starts in the last minute is
// first, however many requests another has put before it.
func TestClientsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, b := gate.New(memory.New()), newBook()
		w := window("w", 1, time.Second)
		enter := func(name string) func() {
			a := ask("k", w)
			a.Client = name
			return func() { start(t, g, b, name, a) }
		}
		var fs []func()
		for range 5 {
			fs = append(fs, enter("many"))
		}
		joins(append(fs, enter("few"), enter("few"), enter("one"))...)
		time.Sleep(time.Minute)
		b.want(t, "many@0s", "few@1s", "one@2s", "many@3s", "few@4s", "many@5s", "many@6s", "many@7s")
	})
}

// Starts of more than a minute ago count against nobody.
func TestTurnsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, b := gate.New(memory.New()), newBook()
		w := window("w", 1, time.Second)
		enter := func(name string) func() {
			a := ask("k", w)
			a.Client = name
			return func() { start(t, g, b, name, a) }
		}
		for range 5 {
			enter("old")()
		}
		time.Sleep(58 * time.Second) // 62 s after the first, 58 s after the last
		joins(enter("new"), enter("new"), enter("new"), enter("new"), enter("new"), enter("old"))
		time.Sleep(time.Minute)
		// At 62 s three of the old starts are of the last minute, at 63 s one: as
		// many as the new client has had, and longer ago.
		b.want(t, "old@0s", "old@1s", "old@2s", "old@3s", "old@4s",
			"new@1m2s", "old@1m3s", "new@1m4s", "new@1m5s", "new@1m6s", "new@1m7s")
	})
}

// openclaw/openclaw#60419, BerriAI/litellm#2218: one client with more than its
// part neither starves the others nor is starved.
func TestNoClientStarves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New(memory.New())
		w := window("w", 2, time.Second)
		starts := make(map[string]int)
		var mu sync.Mutex
		for c := range 9 {
			name := fmt.Sprint("client", c)
			for range 8 { // eight at a time each, the first client's eight times
				for range []int{8, 1}[min(c, 1)] {
					go func() {
						for range 200 {
							a := ask("k", w)
							a.Client = name
							a.Started = func(time.Time) { mu.Lock(); starts[name]++; mu.Unlock() }
							if grant, err := g.Enter(t.Context(), a); err == nil {
								g.Release(grant, true)
							}
						}
					}()
				}
			}
		}
		time.Sleep(90 * time.Second)
		mu.Lock()
		for name, n := range starts {
			if n < 19 || n > 21 {
				t.Errorf("%s has had %d of %d starts", name, n, 180)
			}
		}
		mu.Unlock()
		time.Sleep(24 * time.Hour)
	})
}

// own is an ask with limits of its own before those of the key.
func own(key, lane string, mine limiter.Limit, limits ...limiter.Limit) gate.Ask {
	a := ask(key)
	a.Lane = lane
	a.Plan = func(time.Time, policy.Activity) policy.Plan {
		return policy.Plan{Own: 1, Limits: append([]limiter.Limit{mine}, limits...)}
	}
	return a
}

// A lane that meets only limits of its own sleeps, and the next one's head is
// asked; the lane's head starts at its own instant.
func TestLanesSleepAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, b := gate.New(memory.New()), newBook()
		w, slow := window("w", 1, time.Second), window("slow", 1, 10*time.Second)
		enter := func(name string, a gate.Ask) func() { return func() { start(t, g, b, name, a) } }
		joins(enter("slow1", own("k", "slow", slow, w)), enter("slow2", own("k", "slow", slow, w)),
			enter("a", ask("k", w)), enter("b", ask("k", w)), enter("slow3", own("k", "slow", slow, w)))
		time.Sleep(time.Minute)
		b.want(t, "slow1@0s", "a@1s", "b@2s", "slow2@10s", "slow3@20s")
	})
}

// A head that is told to look again while its lane sleeps by its alarm still
// wakes by it.
func TestSleepingHeadIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowLimiter{Limiter: memory.New(), after: time.Second}
		g, b := gate.New(slow), newBook()
		own := func() gate.Ask { return own("k", "slow", window("slow", 1, 10*time.Second)) }
		joins(func() { start(t, g, b, "first", own()) })
		time.Sleep(3 * time.Second)
		joins(func() { start(t, g, b, "second", own()) })
		g.Wake("k") // while the second asks
		time.Sleep(time.Minute)
		b.want(t, "first@1s", "second@12s")
	})
}

// A lane's head that leaves hands its lane on.
func TestSleepingLaneIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, b := gate.New(memory.New()), newBook()
		slow := window("slow", 1, 10*time.Second)
		impatient := own("k", "slow", slow)
		impatient.Leave = time.Now().Add(3 * time.Second)
		joins(func() { start(t, g, b, "first", own("k", "slow", slow)) },
			func() {
				_, err := g.Enter(t.Context(), impatient)
				if r, ok := errors.AsType[*gate.Refused](err); !ok || r.Reason != gate.Queue || time.Since(b.begin) != 3*time.Second {
					t.Errorf("left with %v", err)
				}
			},
			func() { start(t, g, b, "second", own("k", "slow", slow)) })
		time.Sleep(time.Minute)
		b.want(t, "first@0s", "second@10s")
	})
}

// A place of a lane's own that is released wakes that lane, in another line
// too.
func TestLanePlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, b := gate.New(memory.New()), newBook()
		p := places("client", 1)
		grant, err := g.Enter(t.Context(), own("one", "c", p))
		if err != nil {
			t.Fatal(err)
		}
		joins(func() { start(t, g, b, "waits", own("two", "c", p)) }, func() { start(t, g, b, "free", ask("two")) })
		time.Sleep(5 * time.Second)
		g.Release(grant, true)
		synctest.Wait()
		b.want(t, "free@0s", "waits@5s")
	})
}

// Ten thousand waiters of a thousand clients, seven models and three priorities
// are started without a gap: at each instant of the line somebody is, unless
// all that are left have models that have to wait.
func TestLongLineOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			n, lanes         = 10_000, 7
			every, eachModel = 10 * time.Millisecond, 20 * time.Millisecond
		)
		g := gate.New(memory.New())
		w := window("w", 1, every)
		begin := time.Now()
		var mu sync.Mutex
		var started []int // lanes
		var at []time.Time
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var wg sync.WaitGroup
		for i := range n {
			a := own("k", fmt.Sprint("lane", i%lanes), window(fmt.Sprint("model", i%lanes), 1, eachModel), w)
			a.Client, a.Priority = fmt.Sprint(i%1000), gate.Priority(i%3-1)
			if i%50 == 0 {
				a.Deadline = begin.Add(time.Hour)
			}
			a.Started = func(now time.Time) {
				mu.Lock()
				defer mu.Unlock()
				started, at = append(started, i%lanes), append(at, now)
			}
			wg.Go(func() {
				if _, err := g.Enter(t.Context(), a); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		runtime.ReadMemStats(&after)
		if each := (after.HeapAlloc + after.StackInuse - before.HeapAlloc - before.StackInuse) / n; each > 20<<10 {
			t.Errorf("%d bytes a waiter", each)
		}
		wg.Wait()
		left := make([]int, lanes)
		for _, lane := range started {
			left[lane]++
		}
		free := slices.Repeat([]time.Time{begin}, lanes) // when each model may start again
		line := begin
		for i, lane := range started {
			var want time.Time
			for l := range lanes {
				if f := free[l]; left[l] > 0 && (want.IsZero() || f.Before(want)) {
					want = f
				}
			}
			if want.Before(line) {
				want = line
			}
			if !at[i].Equal(want) {
				t.Fatalf("start %d at %v, want %v", i, at[i].Sub(begin), want.Sub(begin))
			}
			left[lane]--
			free[lane], line = at[i].Add(eachModel), at[i].Add(every)
		}
	})
}

// A client that has been away has had its turn all the same: who has waited
// since before it is started first, also where less than one a minute is.
func TestTurnsOfWhoHasBeenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, b := gate.New(memory.New()), newBook()
		enter := func(ctx context.Context, client string) {
			a := ask("k", window("w", 1, 2*time.Minute))
			a.Client = client
			a.Started = func(time.Time) { b.note(client) }
			if grant, err := g.Enter(ctx, a); err == nil {
				g.Release(grant, true)
			}
		}
		enter(t.Context(), "waits")
		time.Sleep(30 * time.Second)
		go enter(t.Context(), "waits")
		go enter(t.Context(), "away")
		time.Sleep(160 * time.Second) // its start is more than a minute ago
		passing, leave := context.WithCancel(t.Context())
		go enter(passing, "passing")
		synctest.Wait()
		leave()
		time.Sleep(10 * time.Second)
		go enter(t.Context(), "away")
		time.Sleep(10 * time.Minute)
		b.want(t, "waits@0s", "away@2m0s", "waits@4m0s", "away@6m0s")
	})
}
