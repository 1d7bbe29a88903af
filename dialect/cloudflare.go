package dialect

import (
	"net/http"
	"slices"
	"strings"
)

// Cloudflare's API has the IETF fields, whose t is the time to the next bit of
// quota. Workers AI counts neurons by the day and names its conditions by
// numbers, one of them by two.
var Cloudflare = &Dialect{
	Name:    "cloudflare",
	Hosts:   []string{"api.cloudflare.com", "gateway.ai.cloudflare.com"},
	Reports: true,
	Read:    reader{judge: judgeCloudflare}.read,
	Tells:   "IETF fields; Workers AI: codes when it refuses",
	Kind:    cloudflareKind,
}

func judgeCloudflare(a *answer) (Class, string, bool) {
	for _, c := range []struct {
		code  string
		class Class
	}{{"3036", QuotaExhausted}, {"4006", QuotaExhausted}, {"3040", Overloaded}} {
		if slices.Contains(a.fault.codes, c.code) {
			return c.class, "code " + c.code, true
		}
	}
	return "", "", false
}

// cloudflareKind: a model is run by its path.
func cloudflareKind(r *http.Request) Kind {
	if r != nil && r.URL != nil && r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/ai/run/") {
		return Inference
	}
	return usualKind(r)
}
