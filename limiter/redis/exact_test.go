package redis_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/servertest"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/internal/ledger"
	"github.com/paceline-proxy/paceline/limiter/redis"
)

const long = 400 * time.Millisecond

// randomRequest names one to three of four buckets. Three have a long span and
// may have a short one, with costs that fit both; the last has one span and may
// be asked for more than it holds.
func randomRequest(rng *rand.Rand, prefix string) limiter.Request {
	r := limiter.Request{Key: fmt.Sprint(prefix, "caller", rng.IntN(2)), Cost: 1 + rng.IntN(4)}
	for _, b := range rng.Perm(4)[:1+rng.IntN(3)] {
		key := fmt.Sprint(prefix, b)
		if b == 3 {
			r.Limits = append(r.Limits, limiter.Limit{Key: key, Calls: 10 + rng.IntN(10), Per: long / 10, Cost: 1 + rng.IntN(30)})
			continue
		}
		cost := 1 + rng.IntN(5)
		spans := []limiter.Limit{{Key: key, Calls: 30 + rng.IntN(30), Per: long, Cost: cost}}
		if rng.IntN(2) == 0 {
			per := time.Duration(2+rng.IntN(30)) * time.Millisecond
			spans = append(spans, limiter.Limit{Key: key, Calls: 5 + rng.IntN(10), Per: per, Cost: cost})
		}
		rng.Shuffle(len(spans), func(i, j int) { spans[i], spans[j] = spans[j], spans[i] })
		r.Limits = append(r.Limits, spans...)
	}
	return r
}

// While no window holds more than 64 grants, every decision and every instant is
// that of a plain log, alone and in batches: L-46, L-67, L-68, L-71, CC-07,
// CC-09, CC-10.
func TestExactWhileSmall(t *testing.T) {
	l := open(t, servertest.Redis(t), redis.Options{Tag: t.Name()})
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, rand.Uint64()))
		prefix := fmt.Sprint(rng.Uint64(), "/")
		g := ledger.New()
		last := time.Time{}
		granted := 0
		for step := range 400 {
			if rng.IntN(3) == 0 {
				time.Sleep(time.Duration(rng.ExpFloat64() * float64(3*time.Millisecond)))
			}
			rs := []limiter.Request{randomRequest(rng, prefix)}
			for rng.IntN(3) > 0 && step%2 == 1 {
				rs = append(rs, randomRequest(rng, prefix))
				for rng.IntN(2) == 0 {
					rs = append(rs, rs[len(rs)-1])
				}
			}
			ds, err := l.AcquireBatch(context.Background(), rs)
			if err != nil {
				t.Fatal(err)
			}
			if ds[0].Now.Sub(last) > long/2 { // a machine that stalls may let a bucket be forgotten
				prefix, g = fmt.Sprint(rng.Uint64(), "/"), ledger.New()
				last = time.Now()
				continue
			}
			last = ds[0].Now
			refused := map[string]limiter.Decision{}
			for i, d := range ds {
				if before, ok := refused[rs[i].Key]; ok {
					if d.Granted || !d.RetryAt.Equal(before.RetryAt) {
						t.Fatalf("seed %d, step %d: a caller was refused and then answered %+v", seed, step, d)
					}
					continue
				}
				if err := g.Check(d, rs[i]); err != nil {
					t.Fatalf("seed %d, step %d, request %d of %d %+v: %v", seed, step, i+1, len(ds), rs[i], err)
				}
				if !d.Granted {
					refused[rs[i].Key] = d
				} else {
					granted++
				}
			}
		}
		if granted < 50 {
			t.Errorf("seed %d: only %d granted: nothing was tried", seed, granted)
		}
	}
}

// Beyond 64 grants a window is never over, gives up at most a 64th of its span,
// and a refusal names an instant that is no earlier than a plain log's: L-46,
// L-72.
func TestMergingIsNeverEarly(t *testing.T) {
	l := open(t, servertest.Redis(t), redis.Options{Tag: t.Name()})
	for _, c := range []struct {
		per         time.Duration
		calls, cost int
	}{
		{150 * time.Millisecond, 90, 1},
		{400 * time.Millisecond, 300, 1},
		{300*time.Millisecond + 1, 2000, 20},
	} {
		rng := rand.New(rand.NewPCG(uint64(c.per), rand.Uint64()))
		r := limiter.Request{Limits: []limiter.Limit{{Key: fmt.Sprint(rng.Uint64()), Calls: c.calls, Per: c.per}}}
		g := ledger.New()
		most := 0
		for step := range 1500 {
			r.Cost = 1 + rng.IntN(c.cost)
			d, err := l.Acquire(context.Background(), r)
			if err != nil {
				t.Fatal(err)
			}
			want := g.Retry(d.Now, r)
			if d.Granted {
				if !want.IsZero() {
					t.Fatalf("%v, step %d: granted %v too early", c.per, step, want.Sub(d.Now))
				}
				g.Book(d.Now, r)
				most = max(most, g.Live(r.Limits[0].Key))
				continue
			}
			if want.IsZero() {
				want = d.Now
			}
			if late := d.RetryAt.Sub(want); late < 0 || late > c.per/64+2*time.Microsecond {
				t.Fatalf("%v, step %d: retryAt is %v late", c.per, step, late)
			}
			if rng.IntN(10) == 0 {
				time.Sleep(d.RetryAfter())
			}
		}
		if most <= 66 {
			t.Errorf("%v: never more than %d in the window: nothing merged", c.per, most)
		}
	}
}
