package paceline

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// scopeOther is the scope of requests that generate nothing but are worth a
// line of their own: counting tokens, moving files, polling batches.
const scopeOther = "~other"

// A callerKey is who a request is made as. Its line, throttles, factor and
// learned values belong to it.
type callerKey struct {
	provider, account, scope string
}

// String joins the parts so that no two keys collide.
func (k callerKey) String() string {
	return url.PathEscape(k.provider) + "/" + url.PathEscape(k.account) + "/" + url.PathEscape(k.scope)
}

// parseCallerKey takes apart what String has joined.
func parseCallerKey(s string) (k callerKey, ok bool) {
	parts := strings.Split(s, "/")
	if len(parts) != 3 {
		return k, false
	}
	for i, to := range []*string{&k.provider, &k.account, &k.scope} {
		var err error
		if *to, err = url.PathUnescape(parts[i]); err != nil {
			return k, false
		}
	}
	return k, true
}

// callerOf says who a request to an entry is made as: whom the provider meters,
// which is the account where one is named, else the id of the credential. Models
// that share one limit share a key.
func callerOf(e *entry, account, id, model string) callerKey {
	k := callerKey{provider: e.Name, account: orElse(account, id)}
	if e.Scope == ScopeModel {
		if k.scope = scopeOf(model); e.dialect != nil && e.dialect.Metering.Group != nil {
			k.scope = e.dialect.Metering.Group(k.scope)
		}
	}
	return k
}

// credentialID names a credential without telling it: the first 8 hex digits
// of the SHA-256 of what is stable in it. Requests without one share an empty
// id.
func credentialID(e *entry, h http.Header, u *url.URL) string {
	return hashed(e.dialect.CredentialOf(h, u))
}

func hashed(stable string) string {
	if stable == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(stable))
	return hex.EncodeToString(sum[:4])
}

// dated matches the date at the end of a model's name: -20250514, @20250514,
// -2025-05-14.
var dated = regexp.MustCompile(`[-@](20\d{2}-?\d{2}-?\d{2})$`)

// scopeOf is a model without what does not change its limits.
func scopeOf(model string) string {
	model = strings.ToLower(model)
	if model == "" || model[len(model)-1] < '0' || model[len(model)-1] > '9' {
		return model // most have none, and this is asked of every request
	}
	return dated.ReplaceAllString(model, "")
}
