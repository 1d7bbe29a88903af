package dialect

import "strings"

// GitHub counts the hour of its REST API, and the minute of its searches, in
// windows that turn as a whole; its hidden limits show in a sentence. GitHub
// Models speaks Azure's words and names the limit that refused in a header.
var GitHub = &Dialect{
	Name:    "github",
	Names:   []string{"github-models", "github-rest"},
	Hosts:   []string{"api.github.com", "models.github.ai", "models.inference.ai.azure.com"},
	Reports: true,
	Read:    reader{budgets: githubBudgets, waits: []string{"x-ratelimit-timeremaining"}}.read,
	Demand:  estimate,
}

// githubBudgets: a bucket without a unit is the REST API's, one with a unit
// belongs to a model.
func githubBudgets(a *answer, buckets []bucket) []bucket {
	resource := strings.ToLower(a.fields.get("x-ratelimit-resource"))
	for i := range buckets {
		b := &buckets[i]
		if !b.plain {
			continue
		}
		b.Recovery.Kind = StepAt
		if b.Window == Unknown {
			b.Window = Hour
			if strings.Contains(resource, "search") {
				b.Window = Minute
			}
		}
		if resource != "core" {
			b.Scope = resource
		}
	}
	return windowed(buckets, Minute, Minute)
}
