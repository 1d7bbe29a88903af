package dialect

import "net/http"

// A Metering is what a provider's limits are counted per, and how it charges a
// request against them. The zero value is what is assumed of a provider that
// says nothing: limits of the account, all input, output as it is produced.
type Metering struct {
	// PerModel is true where each model has limits of its own, false where the
	// account has one set for all of them.
	PerModel bool
	// Group names the models that share one limit, where PerModel is true: of two
	// models for which it returns the same, the limit is one. nil: each model is
	// its own group.
	Group   func(model string) string
	Charges Charging
}

// A Charging says what part of a request counts against a provider's tokens.
type Charging struct {
	Output OutputCharge
	// Default is what is Reserved where a request names no maximum; 0 is not
	// known.
	Default int
	// GivesBack is true where what was reserved and not produced is given back
	// when the answer ends.
	GivesBack bool
	// CachedFree is true where input that is read from the provider's cache is
	// not counted.
	CachedFree bool
}

// An OutputCharge is when output is charged, and how much of it.
type OutputCharge int

// The ways of charging output.
const (
	Produced OutputCharge = iota // as it is produced
	Reserved                     // all that the request allows, when it is admitted
	Free                         // not at all
)

// GroupOf is what a limit that a model runs into belongs to: empty where limits
// are the account's, else the model or the group it shares one with.
func (d *Dialect) GroupOf(model string) string {
	switch {
	case d == nil || !d.Metering.PerModel:
		return ""
	case d.Metering.Group != nil:
		return d.Metering.Group(model)
	}
	return model
}

// Charged is what an answer's usage counts as in the provider's buckets of
// tokens, of input tokens and of output tokens. Where output is reserved and not
// given back, a request has been charged for what it allowed, too, which only
// its [Demand] tells.
func (d *Dialect) Charged(u Usage) (tokens, input, output int) {
	input, output = u.Input, u.Output
	if d != nil && d.Metering.Charges.CachedFree {
		input -= min(u.CachedInput, input)
	}
	if d != nil && d.Metering.Charges.Output == Free {
		output = 0
	}
	return input + output, input, output
}

// AccountOf is whom the provider says that it meters, from an answer's headers;
// empty where it does not say.
func (d *Dialect) AccountOf(h http.Header) string {
	if d == nil || d.Account == nil {
		return ""
	}
	return d.Account(h)
}
