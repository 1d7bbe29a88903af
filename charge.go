package paceline

import (
	"slices"
	"time"

	"github.com/paceline-proxy/paceline/budget"
	"github.com/paceline-proxy/paceline/dialect"
)

// unsaidOutput is how many tokens an answer is taken to have before any has
// been seen.
const unsaidOutput = 1024

// estimate is what the call's request may cost, by its length alone; reserved
// is what its provider charges beside that when it admits the request, because
// the request lets its answer grow so long.
func (c *call) estimate() (charge budget.Charge, reserved int) {
	d := &c.demand
	charge = budget.Charge{Tokens: d.Input, Input: d.Input}
	if c.entry.dialect.Metering.Charges.Output == dialect.Reserved && d.Output > 0 {
		return charge, d.Output
	}
	charge.Output = unsaidOutput
	if d.Output > 0 {
		charge.Output = min(charge.Output, d.Output)
	}
	charge.Tokens += charge.Output
	return charge, 0
}

// cost is the estimate, put right by what the like of it were charged, and what
// of it is reserved.
func (c *call) cost(ratios budget.Ratios) (charge, reserved budget.Charge) {
	estimate, output := c.estimate()
	charge = ratios.Of(scopeOf(c.demand.Model), c.demand.Later, estimate)
	charge.Tokens += output
	charge.Output += output
	return charge, budget.Charge{Tokens: output, Output: output}
}

// charged is what an answer's usage has cost, by the provider's rule.
func (c *call) charged(u dialect.Usage) (charge budget.Charge) {
	d := c.entry.dialect
	charge.Tokens, charge.Input, charge.Output = d.Charged(u)
	if _, reserved := c.estimate(); !d.Metering.Charges.GivesBack {
		more := max(0, reserved-charge.Output)
		charge.Tokens += more
		charge.Output += more
	}
	return charge
}

// counts reports whether what the call costs is counted in declared windows.
func (c *call) counts() bool { return c.rules.Limits.DeclaresTokens() || c.rules.Own.DeclaresTokens() }

// calibrate says what the call is going to cost, where anything depends on it.
func (c *call) calibrate(s *budget.State) {
	c.calibrated = c.kind == dialect.Inference &&
		(c.counts() || slices.ContainsFunc(s.Readings, func(r budget.Reading) bool { return r.Unit != dialect.Requests }))
	if c.calibrated {
		c.rules.Cost, c.rules.Reserved = c.cost(s.Ratios)
	}
}

// A bill is what an answer says that it has cost so far.
type bill struct {
	usage    dialect.Usage
	told     bool // else it has not said
	produced int  // tokens of the answer that have come, about
}

// charge is what the attempt has cost so far: what its answer tells, else what
// was estimated. whole is whether the answer has come to its end.
func (a *attempt) charge(b bill, whole bool) budget.Charge {
	if !b.told {
		charge := a.estimated
		more := max(0, b.produced-charge.Output)
		charge.Tokens += more
		charge.Output += more
		return charge
	}
	if !whole { // most tell of their output at their end only
		b.usage.Output = max(b.usage.Output, b.produced)
	}
	return a.call.charged(b.usage)
}

// settleEvery is how often an answer is settled while it comes.
const settleEvery = time.Second

// meter settles what has come of the answer, where that is more than was
// counted. It is called with every piece, and mostly looks at the clock.
func (a *attempt) meter() {
	if !a.counted {
		return
	}
	now := time.Now().UnixNano()
	if next := a.metered.Load(); now < next || !a.metered.CompareAndSwap(next, now+int64(settleEvery)) {
		return
	}
	if charge := a.charge(a.observer.sofar(), false).Most(a.estimated); charge != a.estimated {
		a.settleCost(charge, false)
	}
}

// settleCost settles what the attempt has cost. less is whether those who wait
// are to look whether something was given back.
func (a *attempt) settleCost(charge budget.Charge, less bool) {
	if c := a.call; a.counted {
		c.caller.Use(time.Now(), func(_ *budget.State, starts *budget.Starts) bool { starts.Settle(a.booked, charge); return false })
		c.home.gate.Settle(a.grant, c.rules.Costs(charge), less)
	}
}

// cost is what the attempt has cost in the end: nothing where it was not sent,
// or the provider has turned it away.
func (a *attempt) cost(b bill, cause error) budget.Charge {
	switch a.reading.Class {
	case dialect.RateLimited, dialect.QuotaExhausted, dialect.Billing, dialect.Overloaded, dialect.Rejected:
		return budget.Charge{}
	}
	if a.record.NotSent || a.failure == unprocessed {
		return budget.Charge{}
	}
	return a.charge(b, cause == nil)
}

// calibrate learns from what a whole answer was charged: as it says itself, else
// as what is left of the budgets has shown.
func (a *attempt) calibrate(b bill, charge budget.Charge) {
	c := a.call
	if !c.calibrated || a.reading.Class != dialect.OK {
		return
	}
	estimate, reserved := c.estimate()
	if b.usage == (dialect.Usage{}) {
		input := max(a.took.Input, a.took.Tokens-reserved)
		if input == 0 {
			return
		}
		charge = budget.Charge{Tokens: input + b.produced, Input: input, Output: b.produced}
	}
	if reserved > 0 { // which nobody has to guess
		charge = budget.Charge{Tokens: charge.Input, Input: charge.Input}
	}
	c.caller.Use(a.record.Done, func(s *budget.State, _ *budget.Starts) bool {
		s.Ratios.Learn(a.record.Done, scopeOf(c.demand.Model), c.demand.Later, estimate, charge)
		return true
	})
}
