package reach

import (
	"slices"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// A ledger is what was granted that the shared limiter does not know of, by
// bucket.
type ledger map[string]*account

// An account is one bucket's.
type account struct {
	limits []limiter.Limit // its windows, one of each length
	runs   []run           // oldest first
}

// A run is calls that count from one instant on: that of the latest.
type run struct {
	at   time.Time
	cost int
}

// Runs of an account that lie within a 64th of its shortest window are one. Of
// too many the older half are joined two by two: an entry is dated late at most,
// never early.
const (
	mostRuns = 512
	grain    = 64
)

// add counts a request that was granted.
func (g ledger) add(r limiter.Request, at time.Time) {
	costs := make(map[string]int)
	for _, l := range r.Limits {
		if l.Calls > 0 {
			g.knows(l)
			costs[l.Key] = max(costs[l.Key], min(r.CostOf(l), l.Calls))
		}
	}
	for key, cost := range costs {
		g[key].add(cost, at)
	}
}

// knows notes a window.
func (g ledger) knows(l limiter.Limit) {
	a := g[l.Key]
	if a == nil {
		a = new(account)
		g[l.Key] = a
	}
	l.Concurrent, l.Cost = 0, 0
	i := slices.IndexFunc(a.limits, func(o limiter.Limit) bool { return o.Per == l.Per })
	if i < 0 {
		a.limits = append(a.limits, l)
		return
	}
	a.limits[i].Calls = max(a.limits[i].Calls, l.Calls)
}

func (a *account) add(cost int, at time.Time) {
	shortest, longest := a.limits[0].Per, a.limits[0].Per
	for _, l := range a.limits {
		shortest, longest = min(shortest, l.Per), max(longest, l.Per)
	}
	gone := 0
	for gone < len(a.runs) && at.Sub(a.runs[gone].at) >= longest {
		gone++
	}
	a.runs = slices.Delete(a.runs, 0, gone)
	if n := len(a.runs); n > 0 && at.Sub(a.runs[n-1].at) < shortest/grain {
		a.runs[n-1].at = at
		a.runs[n-1].cost += cost
		return
	}
	if len(a.runs) >= mostRuns {
		a.join()
	}
	a.runs = append(a.runs, run{at, cost})
}

// join makes one of each two of the older half.
func (a *account) join() {
	half := len(a.runs) / 2
	joined := a.runs[:0:0]
	for i := 0; i+1 < half; i += 2 {
		joined = append(joined, run{a.runs[i+1].at, a.runs[i].cost + a.runs[i+1].cost})
	}
	a.runs = append(joined, a.runs[half-half%2:]...)
}

// takeOff takes some of what was counted at an instant off again, as far as it
// is still there.
func (g ledger) takeOff(bucket string, cost int, at time.Time) {
	a := g[bucket]
	if a == nil {
		return
	}
	for i := range a.runs {
		if !a.runs[i].at.Before(at) {
			a.runs[i].cost = max(0, a.runs[i].cost-cost)
			return
		}
	}
}

// An entry is a run with the windows that it counts in.
type entry struct {
	limits []limiter.Limit
	at     time.Time
}

// entries are what there is to count, at now, and the ledger is empty then.
func (g ledger) entries(now time.Time) (all []entry) {
	for key, a := range g {
		for _, r := range a.runs {
			if e, ok := a.entry(r, now); ok {
				all = append(all, e)
			}
		}
		delete(g, key)
	}
	slices.SortStableFunc(all, func(a, b entry) int { return a.at.Compare(b.at) })
	return all
}

func (a *account) entry(r run, now time.Time) (e entry, ok bool) {
	e.at = r.at
	for _, l := range a.limits {
		if l.Cost = r.cost; r.cost > 0 && now.Sub(r.at) < l.Per {
			e.limits = append(e.limits, l)
		}
	}
	return e, len(e.limits) > 0
}

// restore puts an entry back that could not be counted.
func (g ledger) restore(e entry) {
	for _, l := range e.limits {
		g.knows(l)
	}
	key, cost := e.limits[0].Key, e.limits[0].Cost
	a := g[key]
	i, _ := slices.BinarySearchFunc(a.runs, e.at, func(r run, at time.Time) int { return r.at.Compare(at) })
	a.runs = slices.Insert(a.runs, i, run{e.at, cost})
}
