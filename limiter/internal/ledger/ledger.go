// Package ledger is what the tests of limiters believe instead of the code: all
// grants of each bucket, in order, and nothing clever. It judges an answer by the
// instant the answer says it was given at, so that no delay matters. It knows
// windows alone.
package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// A Ledger is the grants of some buckets.
type Ledger struct {
	entries map[string][]entry
	// kept is the longest span each bucket has been asked with. What is older
	// than that is not known to anybody.
	kept map[string]time.Duration
}

type entry struct {
	at   time.Time
	cost int
}

// New returns an empty ledger.
func New() *Ledger {
	return &Ledger{entries: map[string][]entry{}, kept: map[string]time.Duration{}}
}

// Retry is when the limits will have room; the zero time if they have it now.
func (g *Ledger) Retry(now time.Time, r limiter.Request) (at time.Time) {
	for _, l := range r.Limits {
		g.forget(now, l)
		cost := min(r.CostOf(l), l.Calls)
		used := g.used(now, l)
		for _, e := range g.entries[l.Key] {
			if used+cost <= l.Calls {
				break
			}
			if until := e.at.Add(l.Per); until.After(now) {
				used -= e.cost
				if until.After(at) {
					at = until
				}
			}
		}
	}
	return at
}

func (g *Ledger) used(now time.Time, l limiter.Limit) (used int) {
	for _, e := range g.entries[l.Key] {
		if e.at.Add(l.Per).After(now) {
			used += e.cost
		}
	}
	return used
}

// forget drops what is older than the longest span so far, and only then takes
// note of a longer one.
func (g *Ledger) forget(now time.Time, l limiter.Limit) {
	var kept []entry
	for _, e := range g.entries[l.Key] {
		if e.at.Add(max(g.kept[l.Key], 1)).After(now) {
			kept = append(kept, e)
		}
	}
	g.entries[l.Key] = kept
	g.kept[l.Key] = max(g.kept[l.Key], l.Per)
}

// Book counts a grant.
func (g *Ledger) Book(now time.Time, r limiter.Request) {
	seen := map[string]bool{}
	for _, l := range r.Limits {
		if !seen[l.Key] {
			seen[l.Key] = true
			g.entries[l.Key] = append(g.entries[l.Key], entry{now, min(r.CostOf(l), l.Calls)})
		}
	}
}

// Live is how many grants of a bucket have not left it.
func (g *Ledger) Live(bucket string) int { return len(g.entries[bucket]) }

// Check says where an answer differs from what it should be, and books it.
func (g *Ledger) Check(d limiter.Decision, r limiter.Request) error {
	switch want := g.Retry(d.Now, r); {
	case d.Granted != want.IsZero():
		return fmt.Errorf("granted: %t, the ledger says now%+v", d.Granted, want.Sub(d.Now))
	case !d.Granted && !d.RetryAt.Equal(want):
		return fmt.Errorf("retryAt is now%+v, the ledger says now%+v", d.RetryAfter(), want.Sub(d.Now))
	}
	if d.Granted {
		g.Book(d.Now, r)
	}
	return nil
}

// Ask puts a request to a limiter and checks its answer.
func (g *Ledger) Ask(l limiter.Limiter, r limiter.Request) error {
	d, err := l.Acquire(context.Background(), r)
	if err != nil {
		return err
	}
	return g.Check(d, r)
}
