package dialect

import (
	"net/http"
	"strings"
)

// Anthropic refills continuously, per minute, and shows remaining tokens in
// whole thousands. Plans (unified.go) have windows of five hours and seven days
// of which only a fraction is told. What is read from its cache is free.
var Anthropic = &Dialect{
	Name:     "anthropic",
	Hosts:    []string{"api.anthropic.com"},
	Reports:  true,
	Read:     reader{judge: judgeAnthropic, budgets: anthropicBudgets}.read,
	Demand:   estimate,
	Metering: Metering{PerModel: true, Charges: Charging{CachedFree: true}},
	Account:  func(h http.Header) string { return h.Get("Anthropic-Organization-Id") },
}

// anthropicFamilies are the prefixes of its headers, with what tells their
// buckets apart.
var anthropicFamilies = []struct{ prefix, scope string }{
	{"anthropic-ratelimit-", ""},
	{"anthropic-priority-", "priority"},
	{"anthropic-fast-", "fast"},
}

func anthropicBudgets(a *answer, out []bucket) []bucket {
	workspace := a.fields.get("anthropic-workspace-id")
	for _, family := range anthropicFamilies {
		for _, b := range familyBuckets(a, []string{family.prefix}) {
			if strings.HasPrefix(b.Scope, "unified") {
				continue
			}
			b.Window, b.long, b.firm = Minute, false, false
			b.Recovery.Kind = FullAt
			b.Scope = strings.Join(strings.Fields(family.scope+" "+b.Scope+" "+workspace), " ")
			if b.Unit != Requests && b.remaining.n%1000 == 0 {
				// A remainder that is no round number was not rounded.
				b.Rounding = 1000
			}
			out = append(out, b)
		}
	}
	return append(out, unifiedBudgets(a)...)
}

// judgeAnthropic knows the refusals that come under a misleading status, and
// a plan that is spent.
func judgeAnthropic(a *answer) (Class, string, bool) {
	if a.status == 400 {
		// There is no code for these two.
		switch {
		case a.says("credit balance is too low"):
			return Billing, "message", true
		case a.says("usage limits"):
			return QuotaExhausted, "message", true
		}
	}
	if a.status == 429 && unifiedRejected(a) {
		return QuotaExhausted, "anthropic-ratelimit-unified-status", true
	}
	return "", "", false
}
