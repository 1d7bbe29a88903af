package dialect

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// SetKey has a request carry an API key in the way the provider asks for, and
// nothing else that could be a secret: neither the credential it came with, in
// whatever header or parameter it stood, nor a header that repeats it or whose
// name says that it holds one.
func (d *Dialect) SetKey(h http.Header, u *url.URL, key string) {
	secrets := Secrets(h, u)
	cutKeys(u)
	for name, values := range h {
		if secretName(name) || slices.ContainsFunc(values, func(v string) bool { return containsAny(v, secrets) }) {
			delete(h, name)
		}
	}
	if header := d.keyHeader(u, key); header != "Authorization" {
		h.Set(header, key)
	} else {
		h.Set(header, "Bearer "+key)
	}
}

// Secrets are the keys and tokens that a request carries, wherever they stand.
func Secrets(h http.Header, u *url.URL) []string {
	without := *u
	secrets := cutKeys(&without)
	for name, values := range h {
		if secretName(name) {
			for _, v := range values {
				v = strings.TrimSpace(v)
				secrets = append(secrets, v[strings.LastIndexByte(v, ' ')+1:])
			}
		}
	}
	return slices.DeleteFunc(secrets, func(s string) bool { return len(s) < leastSecret })
}

// leastSecret is the length below which a value is no key, and may stand in
// other headers by chance.
const leastSecret = 8

// keyHeader is the header for a key: the dialect's, or that of whoever the
// host's is, which an entry may well speak to in OpenAI's dialect.
func (d *Dialect) keyHeader(u *url.URL, key string) string {
	for _, d := range []*Dialect{d, ByHost(u.Hostname())} {
		if d != nil && d.KeyHeader != nil {
			return d.KeyHeader(u, key)
		}
	}
	return "Authorization"
}

// secretWords are the parts of a header's name that say what it holds.
var secretWords = []string{
	"authorization", "auth", "cookie", "token", "secret", "password", "credential", "credentials", "apikey",
}

// secretName reports whether a header's name says that it holds a secret.
func secretName(name string) bool {
	name = strings.ToLower(name)
	if strings.HasSuffix(name, "api-key") || strings.HasSuffix(name, "subscription-key") {
		return true
	}
	for word := range strings.SplitSeq(name, "-") {
		if slices.Contains(secretWords, word) {
			return true
		}
	}
	return false
}

// keyParameters are where some APIs take a key in the URL.
var keyParameters = []string{"key", "api_key", "api-key", "apikey", "access_token", "subscription-key"}

// cutKeys takes keys out of a URL and returns them. The rest of its query stays
// as it was written.
func cutKeys(u *url.URL) (keys []string) {
	if password, ok := u.User.Password(); ok {
		keys = append(keys, password)
	}
	u.User = nil
	if u.RawQuery == "" {
		return keys
	}
	var kept []string
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err != nil || !slices.Contains(keyParameters, strings.ToLower(plain)) {
			kept = append(kept, pair)
			continue
		}
		keys = append(keys, value)
		if plain, err := url.QueryUnescape(value); err == nil {
			keys = append(keys, plain)
		}
	}
	u.RawQuery = strings.Join(kept, "&")
	return keys
}

// HideKey takes out of an answer's head whatever could show the key that its
// request was sent with.
func HideKey(h http.Header, key string) {
	for name, values := range h {
		switch http.CanonicalHeaderKey(name) {
		case "Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key":
			delete(h, name)
		default:
			if slices.ContainsFunc(values, func(v string) bool { return strings.Contains(v, key) || strings.Contains(v, url.QueryEscape(key)) }) {
				delete(h, name)
			}
		}
	}
}

func containsAny(s string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(s, part) })
}

// KeyOf returns the provider whose keys have the shape of key, nil where the
// shape tells nothing: many providers give out keys that begin with sk- alone.
func KeyOf(key string) *Dialect {
	var of *Dialect
	longest := 0
	for _, d := range All {
		for _, prefix := range d.KeyPrefixes {
			if strings.HasPrefix(key, prefix) && len(prefix) > longest {
				of, longest = d, len(prefix)
			}
		}
	}
	return of
}
