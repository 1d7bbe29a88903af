package dialect

// Cohere counts the calls of trial keys: of the last minute, which rolls, and of
// the month.
// Other keys are told nothing.
var Cohere = &Dialect{
	Name:     "cohere",
	ChatPath: "/compatibility/v1/chat/completions",
	BaseURL:  "https://api.cohere.com",
	Hosts:    []string{"api.cohere.com", "api.cohere.ai"},
	Reports:  true,
	Read:     reader{budgets: cohereBudgets}.read,
	Tells:    "calls of a minute and a month, to trial keys only",
	Kind:     kindBy([]string{"/classify", "/summarize"}, nil),
}

func cohereBudgets(a *answer, out []bucket) []bucket {
	for _, family := range []struct{ prefix, window string }{
		{"x-trial-endpoint-call-", Minute}, {"x-endpoint-monthly-call-", Month},
	} {
		for _, b := range familyBuckets(a, []string{family.prefix}) {
			if b.Window, b.long = family.window, family.window == Month; !b.long {
				b.Recovery.Kind = Rolls
			}
			out = append(out, b)
		}
	}
	return out
}
