package memory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/internal/ledger"
	"github.com/paceline-proxy/paceline/limiter/internal/spans"
)

// keepAll stops sweeping, so that no bucket forgets which spans it was asked
// with.
func (l *Limiter) keepAll() *Limiter {
	for i := range l.shards {
		l.shards[i].debt = -1 << 30
	}
	return l
}

// While no window holds more than 1024 grants, every decision and every instant
// is that of a plain log: L-46, L-63, L-67, L-68, L-71, L-72, CC-07, CC-09,
// CC-10. Spans come and go on every bucket.
func TestExactWhileSmall(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			l, g := New().keepAll(), ledger.New()
			for step := range 1200 {
				if rng.IntN(3) == 0 {
					time.Sleep(time.Duration(rng.ExpFloat64() * float64(time.Second) / 4))
				}
				if err := g.Ask(l, randomRequest(rng)); err != nil {
					t.Fatalf("seed %d, step %d: %v", seed, step, err)
				}
			}
		})
	}
}

// randomRequest names one to three of four buckets with one or two spans each.
// Within a bucket the cost fits all its windows, so that it has one history;
// the last bucket has one span and may be asked for more than it holds.
func randomRequest(rng *rand.Rand) limiter.Request {
	r := limiter.Request{Key: "caller", Cost: 1 + rng.IntN(4)}
	for range 1 + rng.IntN(3) {
		b := rng.IntN(4)
		key := fmt.Sprint("bucket ", b)
		cost := 1 + rng.IntN(5)
		per := time.Duration(1+rng.IntN(6)) * time.Second / 2
		if b == 3 {
			per, cost = time.Second, 1+rng.IntN(30)
		}
		if names(r, key) {
			continue
		}
		r.Limits = append(r.Limits, limiter.Limit{Key: key, Calls: 5 + rng.IntN(10), Per: per, Cost: cost})
		if b < 3 && rng.IntN(2) == 0 {
			r.Limits = append(r.Limits, limiter.Limit{Key: key, Calls: 8 + rng.IntN(20), Per: 2*per + 1, Cost: cost})
		}
	}
	return r
}

func names(r limiter.Request, key string) bool {
	for _, l := range r.Limits {
		if l.Key == key {
			return true
		}
	}
	return false
}

// A line is a grant in a log.
type line struct {
	at   time.Time
	cost int
}

// Beyond 1024 grants a window is never over, gives up at most a 1023rd of its
// span, and keeps its word on when it opens: L-46, L-72.
func TestMergingIsNeverEarly(t *testing.T) {
	for seed := range uint64(12) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 2))
			per := []time.Duration{time.Second, 10 * time.Second, 7 * time.Millisecond, time.Minute + 1}[seed%4]
			calls := 3000 + rng.IntN(4000)
			mostCost := 1 + rng.IntN(4)
			r := limiter.Request{Limits: []limiter.Limit{{Key: "a", Calls: calls, Per: per}}}
			l := New()
			var log []line
			used, first := 0, 0
			for step := range 20_000 {
				time.Sleep(time.Duration(rng.ExpFloat64() * float64(per) / float64(calls)))
				r.Cost = 1 + rng.IntN(mostCost)
				d, err := l.Acquire(context.Background(), r)
				if err != nil {
					t.Fatal(err)
				}
				for ; first < len(log) && !log[first].at.Add(per).After(d.Now); first++ {
					used -= log[first].cost
				}
				if d.Granted {
					log = append(log, line{d.Now, r.Cost})
					if used += r.Cost; used > calls {
						t.Fatalf("seed %d, step %d: %d of %d", seed, step, used, calls)
					}
					continue
				}
				// The plain log's instant, and a quantum more at most.
				lack, i := used+r.Cost-calls, first
				for ; i < len(log) && lack > log[i].cost; i++ {
					lack -= log[i].cost
				}
				want := d.Now
				if i < len(log) && used+r.Cost > calls {
					want = log[i].at.Add(per)
				}
				if late := d.RetryAt.Sub(want); late < 0 || late > per/1000 {
					t.Fatalf("seed %d, step %d: retryAt is %v late, of a window of %v", seed, step, late, per)
				}
				if rng.IntN(20) > 0 {
					continue
				}
				time.Sleep(d.RetryAfter() - 1)
				if early, _ := l.Acquire(context.Background(), r); early.Granted {
					t.Fatalf("seed %d, step %d: granted before retryAt", seed, step)
				}
				time.Sleep(1)
				d, _ = l.Acquire(context.Background(), r)
				if !d.Granted {
					t.Fatalf("seed %d, step %d: refused at retryAt for %v", seed, step, d.RetryAfter())
				}
				for ; first < len(log) && !log[first].at.Add(per).After(d.Now); first++ {
					used -= log[first].cost
				}
				log, used = append(log, line{d.Now, r.Cost}), used+r.Cost
			}
			if n := len(l.find("a").windows[0].ring); n > mostEntries {
				t.Errorf("seed %d: a ring of %d", seed, n)
			}
		})
	}
}

// A window that is full all the time gives up at most 0.1 % of its rate.
func TestMergingGivesUpLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls, per, spans = 100_000, 10 * time.Second, 20
		l, granted := New(), 0
		r := limiter.Request{Cost: 10, Limits: []limiter.Limit{{Key: "a", Calls: calls, Per: per}}}
		start := time.Now()
		for time.Since(start) < spans*per {
			d, err := l.Acquire(context.Background(), r)
			if err != nil {
				t.Fatal(err)
			}
			if d.Granted {
				granted += r.Cost
				time.Sleep(per / calls * 9) // a little faster than the window allows
			} else {
				time.Sleep(d.RetryAfter())
			}
		}
		if share := float64(granted) / (spans * calls); share < 0.999 {
			t.Errorf("%.4f of the rate was used", share)
		}
	})
}

// A long coarse window does not coarsen a short one of the same bucket.
func TestEachSpanHasItsOwnRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, g := New(), ledger.New()
		second := limiter.Limit{Key: "a", Calls: 10, Per: time.Second}
		day := limiter.Limit{Key: "a", Calls: 1 << 30, Per: 24 * time.Hour}
		rng := rand.New(rand.NewPCG(3, 3))
		for step := range 20_000 {
			time.Sleep(time.Duration(rng.ExpFloat64() * float64(time.Second) / 12))
			r := limiter.Request{Limits: []limiter.Limit{second}}
			d, err := l.Acquire(context.Background(), limiter.Request{Limits: []limiter.Limit{day, second}})
			if err != nil {
				t.Fatal(err)
			}
			if err := g.Check(d, r); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
		}
	})
}

// Spans that differ each time leave no more than a few windows, and the longest
// keeps the history: L-63.
func TestSpansComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		const calls = 500
		minute := limiter.Limit{Key: "a", Calls: calls, Per: time.Minute}
		var granted []time.Time
		for i := range 5000 {
			pace := limiter.Limit{Key: "a", Calls: 1, Per: 100*time.Millisecond + time.Duration(i)}
			d, err := l.Acquire(context.Background(), limiter.Request{Limits: []limiter.Limit{minute, pace}})
			if err != nil {
				t.Fatal(err)
			}
			if d.Granted {
				granted = append(granted, d.Now)
			}
			if n := len(l.find("a").windows); n > spans.Most {
				t.Fatalf("%d windows", n)
			}
			time.Sleep(30 * time.Millisecond)
		}
		for i := 1; i < len(granted); i++ {
			if granted[i].Sub(granted[i-1]) < 100*time.Millisecond {
				t.Fatalf("paced calls %v apart", granted[i].Sub(granted[i-1]))
			}
			if i >= calls && granted[i].Sub(granted[i-calls]) < time.Minute {
				t.Fatal("more than a minute allows")
			}
		}
		if len(granted) < 2*calls {
			t.Fatalf("only %d granted", len(granted))
		}
	})
}

// A grant counts in the windows of its bucket that its request did not name.
func TestUnnamedWindowsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		ask := func(per time.Duration, calls int) bool {
			d, err := l.Acquire(context.Background(), limiter.Request{Limits: []limiter.Limit{{Key: "a", Calls: calls, Per: per}}})
			if err != nil {
				t.Fatal(err)
			}
			return d.Granted
		}
		if !ask(time.Minute, 3) || !ask(time.Second, 9) || !ask(time.Second, 9) {
			t.Fatal("refused with room")
		}
		if ask(time.Minute, 3) {
			t.Error("the minute does not count what was asked of the second")
		}
		if ask(time.Hour, 3) {
			t.Error("the hour does not count what the minute holds")
		}
	})
}

// find is a bucket by its key, for looking inside.
func (l *Limiter) find(key string) *bucket {
	for i := range l.shards {
		for _, b := range l.shards[i].slots {
			for ; b != nil; b = b.next {
				if b.key == key {
					return b
				}
			}
		}
	}
	return nil
}
