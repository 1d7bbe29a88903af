package reach

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

func TestScale(t *testing.T) {
	for _, c := range []struct {
		in    limiter.Limit
		share float64
		want  limiter.Limit
	}{
		{limiter.Limit{Calls: 15, Per: time.Minute}, 1.0 / 3, limiter.Limit{Calls: 5, Per: time.Minute}},
		{limiter.Limit{Calls: 10, Per: time.Minute}, 0.1, limiter.Limit{Calls: 1, Per: time.Minute}},
		{limiter.Limit{Calls: 1, Per: time.Second}, 0.5, limiter.Limit{Calls: 1, Per: 2 * time.Second}},
		{limiter.Limit{Calls: 2, Per: time.Second}, 0.25, limiter.Limit{Calls: 1, Per: 2 * time.Second}},
		{limiter.Limit{Concurrent: 4}, 0.5, limiter.Limit{Concurrent: 2}},
		{limiter.Limit{Concurrent: 2}, 0.1, limiter.Limit{Concurrent: 1}},
	} {
		got := scale([]limiter.Limit{c.in}, c.share)[0]
		if got.Calls != c.want.Calls || got.Concurrent != c.want.Concurrent || (got.Per-c.want.Per).Abs() > time.Millisecond || got.Per < c.want.Per-time.Millisecond {
			t.Errorf("%v of %+v is %+v, want %+v", c.share, c.in, got, c.want)
		}
	}
	// Windows that become as long as each other are one.
	got := scale([]limiter.Limit{{Key: "b", Calls: 1, Per: time.Second}, {Key: "b", Calls: 2, Per: 2 * time.Second, Concurrent: 3}}, 0.25)
	if err := (limiter.Request{Limits: got, Hold: 1}).Validate(); err != nil || len(got) != 1 || got[0].Concurrent != 1 {
		t.Errorf("%+v: %v", got, err)
	}
}

// A ledger's entries exceed no window: what they count in any span is at least
// what was granted in it, each entry dated late at most.
func TestLedger(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 2))
		g := make(ledger)
		r := limiter.Request{Limits: []limiter.Limit{{Key: "b", Calls: 1e9, Per: time.Second}, {Key: "b", Calls: 1e9, Per: time.Hour}}}
		now := time.Now()
		start, total := now, 0
		var at []run
		for range 5000 {
			now = now.Add(time.Duration(rng.IntN(int(700 * time.Millisecond))))
			r.Cost = 1 + rng.IntN(9)
			total += r.Cost
			at = append(at, run{now, r.Cost})
			g.add(r, now)
		}
		if n := len(g["b"].runs); n > mostRuns {
			t.Fatalf("%d runs", n)
		}
		es := g.entries(now)
		if now.Sub(start) > time.Hour {
			t.Fatal("the test is longer than the window")
		}
		for span := time.Millisecond; span < time.Hour; span *= 3 {
			want, got := 0, 0
			for _, a := range at {
				if now.Sub(a.at) < span {
					want += a.cost
				}
			}
			for _, e := range es {
				if now.Sub(e.at) < span {
					got += e.limits[0].Cost
				}
			}
			if got < want || got > total {
				t.Errorf("seed %d: in the last %v %d count, %d were granted", seed, span, got, want)
			}
		}
		if len(g) != 0 {
			t.Error("the ledger is not empty")
		}
		for _, e := range es {
			g.restore(e)
		}
		if again := g.entries(now); len(again) != len(es) {
			t.Errorf("%d entries of %d come back", len(again), len(es))
		}
	}
}
