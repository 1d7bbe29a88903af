package policy

import (
	"slices"

	"github.com/paceline-proxy/paceline/budget"
	"github.com/paceline-proxy/paceline/limiter"
)

// tokenUnits are the units of which a request takes more than one.
var tokenUnits = []string{Tokens, Input, Output}

// of is what a charge is in a unit of tokens.
func of(c budget.Charge, unit string) int {
	switch unit {
	case Input:
		return c.Input
	case Output:
		return c.Output
	}
	return c.Tokens
}

// backgroundOf is the unit in which background requests count apart.
func backgroundOf(unit string) string {
	if unit == Requests {
		return Background
	}
	return Background + "-" + unit
}

// A toll is what a request is going to cost, as far as one can say, how much of
// it is reserved, which nobody has to guess, and the most that any guessed part
// is known to have come to.
type toll struct{ cost, reserved, largest budget.Charge }

// toll is that of the request.
func (r Rules) toll(s *budget.State) toll { return toll{r.Cost, r.Reserved, s.Ratios.Largest()} }

// most is what the request costs in a unit of which so many are allowed. An
// estimate that could never fit is a mistake more often than the truth: it is
// no more than what has been seen.
func (t toll) most(unit string, allowed int) int {
	cost, reserved := of(t.cost, unit), of(t.reserved, unit)
	if seen := of(t.largest, unit); cost > allowed && seen > 0 {
		cost = reserved + min(cost-reserved, seen)
	}
	return cost
}

// in is a window of a unit with what the request costs there. What is more than
// it allows waits for an empty window where the provider reserves it, and goes
// a little before where it is a mere estimate. At least one is counted, or the
// request would cost there what a limiter takes for one of its own.
func (t toll) in(l limiter.Limit, unit string) limiter.Limit {
	if unit == Requests {
		return l
	}
	allowed := l.Calls
	l.Cost = t.most(unit, allowed)
	if l.Cost > allowed && of(t.reserved, unit) == 0 {
		allowed--
	}
	l.Cost = max(1, min(l.Cost, allowed))
	return l
}

// Oversize reports whether the request alone costs more than a declared window
// of tokens allows.
func (r Rules) Oversize(s *budget.State) bool {
	t := r.toll(s)
	over := func(w Window) bool { return w.OfTokens() && t.most(w.Unit, w.Calls) > w.Calls }
	return slices.ContainsFunc(r.Limits.windows(), over) || slices.ContainsFunc(r.Own.windows(), over)
}

// Costs says what a charge comes to in the buckets of tokens in which the
// request may have been counted, for a limiter to settle.
func (r Rules) Costs(c budget.Charge) (costs []limiter.Cost) {
	add := func(l Limits, bucket func(unit string) string) {
		if !l.DeclaresTokens() {
			return
		}
		for _, unit := range tokenUnits {
			n := max(0, of(c, unit))
			costs = append(costs, limiter.Cost{Key: bucket(unit), Cost: n}, limiter.Cost{Key: bucket(backgroundOf(unit)), Cost: n})
		}
	}
	add(r.Limits, r.Bucket)
	if r.OwnBucket != nil {
		add(r.Own, r.OwnBucket)
	}
	return costs
}
