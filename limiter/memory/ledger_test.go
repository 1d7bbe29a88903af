package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// A ledger is what these tests believe instead of the code: all grants of each
// bucket, in order, and nothing clever.
type ledger struct {
	entries map[string][]line
	// kept is the longest span each bucket has been asked with. What is older
	// than that is not known to anybody.
	kept map[string]time.Duration
}

type line struct {
	at   time.Time
	cost int
}

func newLedger() *ledger {
	return &ledger{entries: map[string][]line{}, kept: map[string]time.Duration{}}
}

// retry is when the limits will have room; the zero time if they have it now.
func (g *ledger) retry(now time.Time, r limiter.Request) (at time.Time) {
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

func (g *ledger) used(now time.Time, l limiter.Limit) (used int) {
	for _, e := range g.entries[l.Key] {
		if e.at.Add(l.Per).After(now) {
			used += e.cost
		}
	}
	return used
}

// forget drops what is older than the longest span so far, and only then takes
// note of a longer one.
func (g *ledger) forget(now time.Time, l limiter.Limit) {
	var kept []line
	for _, e := range g.entries[l.Key] {
		if e.at.Add(max(g.kept[l.Key], 1)).After(now) {
			kept = append(kept, e)
		}
	}
	g.entries[l.Key] = kept
	g.kept[l.Key] = max(g.kept[l.Key], l.Per)
}

func (g *ledger) book(now time.Time, r limiter.Request) {
	seen := map[string]bool{}
	for _, l := range r.Limits {
		if !seen[l.Key] {
			seen[l.Key] = true
			g.entries[l.Key] = append(g.entries[l.Key], line{now, min(r.CostOf(l), l.Calls)})
		}
	}
}

// compare puts a request to a limiter and says where it differs.
func (g *ledger) compare(l *Limiter, r limiter.Request) error {
	d, err := l.Acquire(context.Background(), r)
	if err != nil {
		return err
	}
	switch want := g.retry(d.Now, r); {
	case d.Granted != want.IsZero():
		return fmt.Errorf("granted: %t, the ledger says now%+v", d.Granted, want.Sub(d.Now))
	case !d.Granted && !d.RetryAt.Equal(want):
		return fmt.Errorf("retryAt is now%+v, the ledger says now%+v", d.RetryAfter(), want.Sub(d.Now))
	}
	if d.Granted {
		g.book(d.Now, r)
	}
	return nil
}
