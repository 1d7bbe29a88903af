package dialect

// Together counts by the second, under names without a unit, and moves its limits
// with the traffic: above one's own rate is 429, under it 503.
var Together = &Dialect{
	Name:        "together",
	Names:       []string{"together-ai", "togetherai"},
	BaseURL:     "https://api.together.xyz/v1",
	Hosts:       []string{"api.together.xyz", "api.together.ai"},
	Reports:     true,
	Read:        reader{judge: judgeTogether, budgets: togetherBudgets}.read,
	Tells:       "`x-ratelimit-*` and `x-tokenlimit-*` of a second",
	Metering:    Metering{PerModel: true},
	KeyPrefixes: []string{"tgp_v1_"},
}

func togetherBudgets(a *answer) []bucket {
	out := familyBuckets(a, []string{"x-ratelimit-"})
	for _, b := range familyBuckets(a, []string{"x-tokenlimit-"}) {
		b.Unit = Tokens
		out = append(out, b)
	}
	return windowed(out, Second, Second)
}

func judgeTogether(a *answer) (Class, string, bool) {
	if a.status == 503 {
		return Overloaded, "status 503, which is full whoever asks", true
	}
	return "", "", false
}
