package policy

import (
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

// A toll is what a request is going to cost, as far as one can say, and the
// most that any is known to have cost.
type toll struct{ cost, largest budget.Charge }

// in is a window of a unit with what the request costs there. An estimate that
// could never fit is a mistake more often than the truth: it does not wait for
// an empty window, as a cost would that somebody knows. At least one is counted,
// or the request would cost there what a limiter takes for one of its own.
func (t toll) in(l limiter.Limit, unit string) limiter.Limit {
	if unit == Requests {
		return l
	}
	l.Cost = of(t.cost, unit)
	if l.Cost > l.Calls {
		l.Cost = l.Calls - 1
		if most := of(t.largest, unit); most > 0 {
			l.Cost = min(l.Cost, most)
		}
	}
	l.Cost = max(1, l.Cost)
	return l
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
