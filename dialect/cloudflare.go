package dialect

import "slices"

// Cloudflare's API has the IETF fields, whose t is the time to the next bit of
// quota. Workers AI counts neurons by the day and names its conditions by
// numbers, one of them by two.
var Cloudflare = &Dialect{
	Name:    "cloudflare",
	Hosts:   []string{"api.cloudflare.com", "gateway.ai.cloudflare.com"},
	Reports: true,
	Read:    reader{judge: judgeCloudflare}.read,
	Demand:  estimate,
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
