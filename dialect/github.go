package dialect

import (
	"net/http"
	"strings"
	"time"
)

// GitHub counts the hour of its REST API, and the minute of its searches, in
// windows that turn as a whole; its hidden limits show in a sentence. GitHub
// Models speaks Azure's words and names the limit that refused in a header.
var GitHub = &Dialect{
	Name:         "github",
	ChatPath:     "/chat/completions",
	KeyVariables: []string{"GITHUB_TOKEN"},
	Names:        []string{"github-models", "github-rest"},
	BaseURL:      "https://models.github.ai/inference",
	Hosts:        []string{"api.github.com", "models.github.ai", "models.inference.ai.azure.com"},
	Reports:      true,
	Read:         reader{budgets: githubBudgets, waits: []string{"x-ratelimit-timeremaining"}, least: githubLeast}.read,
	Tells:        "REST: `x-ratelimit-*` of an hour, or a minute for searches; Models: Azure's, and the type of the limit that refused",
	Metering:     Metering{PerModel: true},
	Demand:       githubDemand,
	Kind:         githubKind,
	KeyPrefixes:  []string{"github_pat_", "ghp_"},
}

// githubLeast: those who go on within a minute of a hidden limit may be banned.
func githubLeast(a *answer) time.Duration {
	if a.says("secondary rate limit", "abuse detection") {
		return time.Minute
	}
	return 0
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

// githubREST is where every call counts, and not only those that generate.
const githubREST = "api.github.com"

func githubKind(r *http.Request) Kind {
	switch {
	case getsEndingIn(r, "/rate_limit"):
		return Catalog
	case r != nil && r.URL != nil && r.URL.Hostname() == githubREST:
		return Inference
	}
	return usualKind(r)
}

// githubDemand: what REST has changed, it must not change twice.
func githubDemand(r *http.Request, body []byte) Demand {
	d := estimate(r, body)
	d.Job = d.Job || r != nil && r.URL != nil && r.URL.Hostname() == githubREST && r.Method != http.MethodGet && r.Method != http.MethodHead
	return d
}
