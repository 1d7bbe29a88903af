package gate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// A renewal keeps permits of one hold alive, all of them in one call. Its fields
// belong to the gate's lock.
type renewal struct {
	hold    time.Duration
	permits map[string]held
	timer   *time.Timer
	renewed time.Time   // when all that were there then were last renewed
	failing bool        // what has been said
	fault   func(error) // of the latest grant
}

// A held permit.
type held struct {
	at    time.Time
	holds []string
}

// keep has a grant's permit renewed until it is forgotten. The lock is held.
func (g *Gate) keep(grant Grant) {
	if !g.Renews() || grant.Permit == "" || grant.hold <= 0 {
		return
	}
	r := g.renewals[grant.hold]
	if r == nil {
		r = &renewal{hold: grant.hold, permits: make(map[string]held)}
		r.timer = time.AfterFunc(r.hold/3, func() { g.renew(r) })
		g.renewals[grant.hold] = r
	} else if len(r.permits) == 0 {
		r.timer.Reset(r.hold / 3)
	}
	r.permits[grant.Permit] = held{grant.At, grant.holds}
	r.fault = grant.fault
}

// forget ends the renewing of a grant's permit. The lock is held.
func (g *Gate) forget(grant Grant) {
	if r := g.renewals[grant.hold]; r != nil && grant.Permit != "" {
		delete(r.permits, grant.Permit)
		if len(r.permits) == 0 {
			r.timer.Stop()
			r.fault = nil
		}
	}
	if delete(g.lost, grant.Permit); len(g.lost) == 0 {
		g.losing.Store(false)
	}
}

// renew has the permits last for another hold, and arranges for the next time:
// there are three in one hold, and more where they fail.
func (g *Gate) renew(r *renewal) {
	g.mu.Lock()
	at, permits := time.Now(), slices.Collect(maps.Keys(r.permits))
	g.mu.Unlock()
	if len(permits) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(longestCall, r.hold/3))
	err := g.limiter.(limiter.Renewer).Renew(ctx, permits, r.hold)
	cancel()
	if errors.Is(err, errors.ErrUnsupported) {
		g.fixed.Store(true)
	}
	g.mu.Lock()
	fault, said := r.fault, r.failing
	next := g.lose(r, time.Now())
	if r.failing = err != nil; !r.failing {
		r.renewed, next = at, r.hold/3
	}
	if len(r.permits) > 0 {
		r.timer.Reset(next)
	}
	g.mu.Unlock()
	if err != nil && !said && !g.fixed.Load() && fault != nil {
		fault(fmt.Errorf("renewing permits: %w", err))
	}
}

// lose gives up the permits that have lapsed because they were not renewed in
// time, and returns how soon to try again lest more do. What they held others
// may hold now; it still counts here.
func (g *Gate) lose(r *renewal, now time.Time) (again time.Duration) {
	again = r.hold / 12
	for permit, h := range r.permits {
		left := later(h.at, r.renewed).Add(r.hold).Sub(now)
		if left > 0 {
			again = min(again, left)
			continue
		}
		delete(r.permits, permit)
		if g.lost == nil {
			g.lost = make(map[string][]string)
		}
		g.lost[permit] = h.holds
		g.losing.Store(true)
	}
	return again
}

// unheld leaves out of limits the places of requests that still run although
// their permits have lapsed. It refuses where that leaves none.
func (g *Gate) unheld(limits []limiter.Limit, now time.Time) (_ []limiter.Limit, refused []limiter.Refusal) {
	if !g.losing.Load() {
		return limits, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	limits = slices.Clone(limits)
	for i := range limits {
		l := &limits[i]
		for _, holds := range g.lost {
			if l.Concurrent == 0 || !slices.Contains(holds, l.Key) {
				continue
			}
			if l.Concurrent--; l.Concurrent == 0 {
				refused = append(refused, limiter.Refusal{Key: l.Key, RetryAt: now.Add(recheck), Cause: limiter.Concurrent})
			}
		}
	}
	return limits, refused
}
