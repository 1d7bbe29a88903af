package dialect

import (
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Codex is OpenAI's subscription: two rolling windows, of which only the part
// that is spent is told. A spent plan says in the refusal's body when it resets.
var Codex = &Dialect{
	Name:       "codex",
	Hosts:      []string{"chatgpt.com", ".chatgpt.com"},
	Reports:    true,
	Read:       OpenAI.Read,
	Tells:      "`x-codex-*`: fractions of a plan's windows; a spent one in the body",
	Credential: codexCredential,
}

const codexPrefix = "x-codex-"

// codexBudgets are the plan's windows, "primary" and "secondary", or whatever
// else is reported under the same words. As with every plan the unit is a
// stand-in, and a window that is used up has nothing left.
func codexBudgets(a *answer) []bucket {
	seen := make(map[string]bool)
	for name := range a.fields {
		rest, ok := strings.CutPrefix(name, codexPrefix)
		if !ok {
			continue
		}
		for _, part := range []string{"-used-percent", "-reset-at", "-reset-after-seconds"} {
			if window, ok := strings.CutSuffix(rest, part); ok {
				seen[window] = true
			}
		}
	}
	var out []bucket
	for _, window := range sortedKeys(seen) {
		prefix := codexPrefix + window
		b := planBucket("codex " + window)
		b.takeUsed(a.fields.get(prefix+"-used-percent"), 100)
		// The delay is right whatever the clocks say.
		for _, part := range []string{"-reset-after-seconds", "-reset-at"} {
			if !b.resetSaid {
				b.reset, b.resetSaid = parseRetryAfter(a.fields[prefix+part], a.now(), time.Second)
			}
		}
		if minutes := parseCount(a.fields.get(prefix + "-window-minutes")); minutes.said && minutes.n < 1e6 {
			if w := seconds(minutes.n * 60); w.name != "" {
				b.Window, b.long = w.name, w.long
			}
		}
		out = append(out, b)
	}
	return out
}

// codexCredential is whose plan it is: who has signed in, and for which account.
func codexCredential(h http.Header, u *url.URL) string {
	who := usualCredential(h, u)
	if account := strings.TrimSpace(h.Get("Chatgpt-Account-Id")); account != "" {
		if _, ok := jwtIdentity(bearer(h)); !ok {
			who = "" // a token that is replaced
		}
		return "chatgpt\x00" + account + "\x00" + who
	}
	return who
}
