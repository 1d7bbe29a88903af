package dialect

// Mistral's windows are minutes and months of the wall clock, per model. The
// first generation of its names has no unit: size is tokens.
var Mistral = &Dialect{
	Name:     "mistral",
	BaseURL:  "https://api.mistral.ai/v1",
	Hosts:    []string{"api.mistral.ai", "codestral.mistral.ai"},
	Reports:  true,
	Read:     reader{judge: judgeMistral, requests: Minute, tokens: Minute, budgets: mistralBudgets, recovery: StepAt, wall: true}.read,
	Tells:    "`x-ratelimit-*` and `ratelimitbysize-*`: requests and tokens of a minute, tokens of a month; nothing on streams",
	Metering: Metering{PerModel: true},
}

func mistralBudgets(a *answer, out []bucket) []bucket {
	for _, b := range windowed(familyBuckets(a, []string{"x-ratelimitbysize-", "ratelimitbysize-"}), Minute, Minute) {
		b.Unit = Tokens
		out = append(out, b)
	}
	return out
}

// judgeMistral: the code is the same for all refusals. A limit of 0 is a model
// that the plan does not have.
func judgeMistral(a *answer) (Class, string, bool) {
	if a.status != 429 {
		return "", "", false
	}
	for _, b := range mistralBudgets(a, familyBuckets(a, familyPrefixes)) {
		if b.limit.said && b.limit.n == 0 {
			return Billing, "a limit of 0: the plan does not have this model", true
		}
	}
	return "", "", false
}
