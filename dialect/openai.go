package dialect

import (
	"net/http"
	"time"
)

// OpenAI refills continuously: a reset is the time until the bucket is full,
// not until the next request fits. A request is charged for what it allows when
// it is admitted. Its subscriptions (codex.go) are read as well.
var OpenAI = &Dialect{
	Name:      "openai",
	MaxTokens: "max_completion_tokens", // some models take no other
	BaseURL:   "https://api.openai.com/v1",
	Hosts:     []string{"api.openai.com", ".api.openai.com"},
	Reports:   true,
	Tells:     "`x-ratelimit-*` of requests and tokens, of a minute, or a day as the numbers show",
	Read:      reader{requests: Minute, tokens: Minute, budgets: openaiBudgets, recovery: FullAt}.read,
	Metering: Metering{
		PerModel: true,
		Charges:  Charging{Output: Reserved},
	},
	Account:     func(h http.Header) string { return h.Get("Openai-Organization") },
	KeyPrefixes: []string{"sk-proj-", "sk-svcacct-", "sk-admin-"},
}

// openaiBudgets are minutes, but for requests that are metered by the day: the
// names do not say which, the numbers do.
func openaiBudgets(a *answer, buckets []bucket) []bucket {
	for i := range buckets {
		b := &buckets[i]
		if b.Unit == Requests && !b.told && b.refillsInADay() {
			b.Window, b.long = Day, true
		}
		b.firm = false
	}
	return append(buckets, codexBudgets(a)...)
}

// refillsInADay is true where a bucket that fills evenly takes about a day from
// empty to full: reset × limit ÷ used. What was used is known to one request
// only, so half a day of a young bucket is a day.
func (b *bucket) refillsInADay() bool {
	used := b.limit.n - max(0, b.remaining.n)
	if !b.limit.said || !b.remaining.said || !b.resetSaid || used <= 0 {
		return false
	}
	window := float64(b.reset) * float64(b.limit.n) / float64(used)
	day := float64(24 * time.Hour)
	return window >= 0.45*day && window <= 1.1*day
}
