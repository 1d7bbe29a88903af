package dialect

import (
	"net/http"
	"strings"
)

// BrightData refuses in a header, also under a 200 without a body. It blocks who
// goes on after refusals.
var BrightData = &Dialect{
	Name:   "brightdata",
	Names:  []string{"bright-data"},
	Hosts:  []string{"api.brightdata.com", "brd.superproxy.io", ".brd.superproxy.io"},
	Read:   reader{judge: judgeBrightData, hidden: brightDataRefuses, budgets: brightDataBudgets}.read,
	Tells:  "a code in a header when it refuses, also under 200",
	Demand: brightDataDemand,
	Kind:   kindBy([]string{"/request", "/datasets/v3/scrape", brightDataJob}, nil),
}

// brightDataMonth is the code of a month's free requests that are used up.
const brightDataMonth = "client_10100"

// brightDataCode is the refusal's code, from its own header or from the one that
// is to replace it; empty where nothing is refused.
func brightDataCode(a *answer) string {
	if code := a.fields.get("x-brd-err-code"); code != "" {
		return strings.ToLower(code)
	}
	code := ""
	_, params, _ := strings.Cut(a.fields.get("proxy-status"), ";")
	for _, p := range splitOutside(params, ';') {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		word, _, _ := strings.Cut(strings.ToLower(strings.Trim(value, `"`)), " ")
		// Details have the code, error only its kind.
		if name == "details" && word != "" || name == "error" && code == "" {
			code = word
		}
	}
	return code
}

func brightDataRefuses(a *answer) bool { return brightDataCode(a) != "" }

func judgeBrightData(a *answer) (Class, string, bool) {
	switch code := brightDataCode(a); {
	case code == brightDataMonth:
		return QuotaExhausted, "code " + brief(code), true
	case code != "" && a.status < 300:
		return Unavailable, "code " + brief(code), true
	}
	return "", "", false
}

func brightDataBudgets(a *answer, out []bucket) []bucket {
	if brightDataCode(a) == brightDataMonth {
		out = append(out, namedLimit{unit: Requests, window: Month, long: true}.refused(count{}))
	}
	return out
}

// brightDataJob is the path that begins a collection, which goes on by itself.
const brightDataJob = "/datasets/v3/trigger"

func brightDataDemand(r *http.Request, body []byte) Demand {
	d := estimate(r, body)
	d.Job = d.Job || r != nil && r.URL != nil && strings.HasSuffix(r.URL.Path, brightDataJob)
	return d
}
