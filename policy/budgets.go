package policy

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/paceline-proxy/paceline/budget"
)

// What the plan makes of the budgets that a provider tells. A reading alone
// never refuses: the longest waits are for the next request to fit, and beyond
// them the provider is asked.
const (
	// longestFit is how long an empty budget is waited for.
	longestFit = 2 * time.Minute
	// longestBelow is how long one below its floor is, from the latest start on:
	// then one request goes, and its reading decides for the rest.
	longestBelow = time.Minute
	// tight is how few requests left are spaced.
	tight = 10
)

// Of a key of which nothing is known so many are in flight until the first
// answer comes, or it has taken so long.
const (
	coldFlight = 8
	coldFor    = 3 * time.Second
)

// cold reports whether the first answer is awaited.
func (r Rules) cold(s *budget.State, a Activity) bool {
	return r.Reports && !r.BudgetLogOnly && !s.Heard && len(s.Readings) == 0 && !r.declaresRequests() && a.InFlight >= coldFlight
}

// hinges reports whether the plan may be another once those have been booked who
// are asked for together with the request and go before it.
func (r Rules) hinges(s *budget.State, starts *budget.Starts, levels []budget.Level, now time.Time, a Activity) bool {
	if s.Probe.Needed || !r.NoBudgets && starts.First().IsZero() && r.cold(s, a) {
		return true
	}
	few := float64(tight * s.Peers(now))
	return !r.BudgetLogOnly && slices.ContainsFunc(levels, func(l budget.Level) bool {
		left := l.Projected - float64(a.Ahead)*l.Own
		return left < max(l.Own, l.Floor) || l.Unit == Requests && left-float64(l.Unsure) < few
	})
}

// heed holds the request up for the observed budgets that have too little for
// it.
func (p *Plan) heed(levels []budget.Level, now time.Time) {
	for _, l := range levels {
		until := held(l, now)
		if !until.After(now) || !until.After(p.NotBefore) {
			continue
		}
		short := Shortage{Unit: l.Unit, Window: l.Window, Remaining: int64(l.Projected), Floor: int64(math.Ceil(l.Floor)), Anyway: true}
		if l.Limit != nil {
			short.Limit = *l.Limit
		}
		p.NotBefore, p.Budget = until, &short
		p.Why = fmt.Sprintf("%d %s left of a told budget", max(0, short.Remaining), l.Unit)
	}
}

// held is until when a budget holds a request up, zero where it does not.
func held(l budget.Level, now time.Time) time.Time {
	switch {
	case l.Projected < l.Own && l.Enough.Sub(now) <= longestFit:
		return l.Enough
	case l.Projected >= l.Own && l.Projected < l.Floor && l.Safe.Sub(now) <= longestBelow:
		return l.Safe
	}
	return time.Time{}
}

// toldSpacing is the time between starts where few requests are left for each of
// the processes that share them.
func toldSpacing(levels []budget.Level, peers int, now time.Time) (longest time.Duration) {
	few := float64(tight * peers)
	for _, l := range levels {
		if l.Unit != Requests || l.Projected-float64(l.Unsure) >= few {
			continue
		}
		switch left := l.Steps.Sub(now); {
		case l.Projected >= few:
			longest = max(longest, leastSpacing) // until more is known
		case l.PerSecond > 0:
			part := float64(peers) * (1 - max(0, l.Projected-l.Floor)/few)
			longest = max(longest, time.Duration(part*float64(time.Second)/l.PerSecond))
		case left > 0:
			n := max(1, l.Projected)
			if l.Projected >= 1 {
				n = max(2, n) // the last one goes before the reset, not at it
			}
			longest = max(longest, time.Duration(float64(peers)*float64(left)/n))
		}
	}
	return min(longest, mostSpacing)
}

// Headroom is how much of what a provider allows is left for a caller key, from
// 0 for nothing, as in a pause, to 1: the smallest part over its observed
// budgets. A key of which nothing is known has all of it.
func Headroom(r Rules, s *budget.State, starts *budget.Starts, now time.Time) float64 {
	if s.Pause.Active(now) {
		return 0
	}
	left := 1.0
	if r.NoBudgets {
		return left
	}
	for _, l := range s.Levels(starts, now, r.Cost) {
		if l.Limit != nil && *l.Limit > 0 {
			left = min(left, max(0, l.Projected/float64(*l.Limit)))
		}
	}
	return left
}
