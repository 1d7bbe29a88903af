package dialect

import (
	"net/http"
	"net/url"
	"strings"
)

// google is what Google's error details say, in any answer that has them:
// gateways pass Gemini's bodies on under their own names.
type google struct {
	retryDelay string // RetryInfo
	resetDelay string // ErrorInfo, where RetryInfo is missing
	resetStamp string
	violations []violation
}

// A violation is one quota that a QuotaFailure or an ErrorInfo names.
type violation struct {
	id     string // GenerateRequestsPerMinutePerProjectPerModel-FreeTier
	metric string
	value  string
}

// detail takes an entry of error.details, told by its @type or its fields.
func (g *google) detail(o map[string]any) {
	kind, _ := o["@type"].(string)
	switch {
	case strings.HasSuffix(kind, "google.rpc.RetryInfo"):
		if s, ok := o["retryDelay"].(string); ok {
			g.retryDelay = s
		}
	case strings.HasSuffix(kind, "google.rpc.QuotaFailure"):
		list, _ := o["violations"].([]any)
		for _, item := range list {
			v, _ := item.(map[string]any)
			g.violate(v, "quotaId", "quotaMetric", "quotaValue")
		}
	case strings.HasSuffix(kind, "google.rpc.ErrorInfo"):
		m, _ := o["metadata"].(map[string]any)
		g.violate(m, "quota_limit", "quota_metric", "quota_limit_value")
		g.resetDelay, _ = m["quotaResetDelay"].(string)
		g.resetStamp, _ = m["quotaResetTimeStamp"].(string)
	}
}

func (g *google) violate(o map[string]any, id, metric, value string) {
	var v violation
	v.id, _ = o[id].(string)
	if v.id == "" || len(v.id) > maxText || len(g.violations) >= maxTexts {
		return
	}
	v.metric, _ = o[metric].(string)
	v.value, _ = literal(o[value])
	g.violations = append(g.violations, v)
}

// buckets are the quotas a Google error names. Being refused is what says that
// nothing is left.
func (g *google) buckets(texts []string) []bucket {
	var out []bucket
	for _, v := range g.violations {
		named := nameLimit(spaced(v.id))
		if named.unit == "" {
			named.unit = nameLimit(spaced(v.metric)).unit
		}
		if named.unit == "" || named.window == "" {
			continue
		}
		out = append(out, named.refused(parseCount(v.value)))
	}
	if len(g.violations) > 0 {
		return out
	}
	for _, t := range texts {
		_, rest, found := strings.Cut(strings.ToLower(t), "quota exceeded for ")
		if !found {
			continue
		}
		if named := nameLimit(spaced(rest)); named.unit != "" && named.window != "" {
			out = append(out, named.refused(count{}))
		}
	}
	return out
}

// spaced writes PerMinutePerProject and per_minute_per_project as words.
func spaced(s string) string {
	var b strings.Builder
	if len(s) > maxText {
		s = s[:maxText]
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c == '_' || c == '-' || c == '/' || c == '.':
			c = ' '
		case c >= 'A' && c <= 'Z':
			if i > 0 && s[i-1] >= 'a' && s[i-1] <= 'z' {
				b.WriteByte(' ')
			}
			c += 'a' - 'A'
		}
		b.WriteByte(c)
	}
	return b.String()
}

const (
	googleKey   = "AIza"  // begins API keys
	googleToken = "ya29." // begins OAuth tokens, which are replaced by the hour
)

// googleCredential is the key, or for a token, in which nothing stays, the
// project that is metered and where.
func googleCredential(h http.Header, u *url.URL) string {
	if !strings.HasPrefix(bearer(h), googleToken) {
		return usualCredential(h, u)
	}
	if u != nil {
		if _, rest, found := strings.Cut(u.Path, "/projects/"); found {
			project, rest, _ := strings.Cut(rest, "/")
			location, _, _ := strings.Cut(strings.TrimPrefix(rest, "locations/"), "/")
			return "google\x00" + project + "\x00" + location
		}
	}
	if project := strings.TrimSpace(h.Get("X-Goog-User-Project")); project != "" {
		return "google\x00" + project
	}
	return usualCredential(h, u)
}

// googleKeyHeader: a key has a header of its own, a token has not.
func googleKeyHeader(_ *url.URL, key string) string {
	if strings.HasPrefix(key, googleToken) {
		return "Authorization"
	}
	return "X-Goog-Api-Key"
}
