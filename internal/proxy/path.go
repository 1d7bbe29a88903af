package proxy

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/paceline-proxy/paceline/dialect"
)

// A target is what the path of a request says: who sends it, where it is to
// go, and the rest, which is the provider's.
type target struct {
	token  string            // of a segment ~TOKEN
	as     map[string]string // headers, by name, of a segment as/…
	name   string            // of a provider; empty: the path begins with a version
	rest   string            // escaped as it was sent; empty or beginning with a slash
	prefix string            // what came before name, escaped: to be said in suggestions
}

// isVersion reports whether a segment is one such as v1, v2 or v1beta3: v, a
// number of at most three digits, and perhaps a word that may have a number too.
func isVersion(segment string) bool {
	const digits, letters = "0123456789", "abcdefghijklmnopqrstuvwxyz"
	rest, ok := strings.CutPrefix(segment, "v")
	word := strings.TrimLeft(rest, digits)
	if n := len(rest) - len(word); !ok || n < 1 || n > 3 {
		return false
	}
	return word == "" || strings.Trim(strings.TrimRight(word, digits), letters) == "" && word[0] >= 'a'
}

// sayable are what a segment as/NAME,key=value,… may say beside a name.
var sayable = []string{"priority", "run", "purpose", "max-wait", "wait-for-capacity", "quota", "no-fallback", "cache"}

// parsePath takes an escaped path apart. An error says what to write instead.
func parsePath(escaped string) (t target, err error) {
	rest := "/" + strings.TrimLeft(escaped, "/")
	for {
		segment, after := cutSegment(rest)
		switch {
		case strings.HasPrefix(segment, "~"):
			if t.token != "" {
				return t, fmt.Errorf("the path has two tokens: leave one of the segments /~TOKEN out")
			}
			if t.token = segment[1:]; t.token == "" {
				return t, fmt.Errorf("the path's segment /~ lacks the token: write /~TOKEN/…")
			}
		case segment == "as":
			if t.as != nil {
				return t, fmt.Errorf("the path has two segments /as/…: write /as/NAME,priority=…/PROVIDER/…")
			}
			said, next := cutSegment(after)
			if t.as, err = parseAs(said); err != nil {
				return t, err
			}
			after = next
		default:
			t.prefix = strings.TrimSuffix(escaped, rest)
			if isVersion(segment) || segment == "" {
				t.rest = rest
				return t, climbs(rest)
			}
			if t.name, err = url.PathUnescape(segment); err != nil {
				return t, fmt.Errorf("the path's segment %q is not escaped as it should be", segment)
			}
			if after != "" { // a base URL may end in a slash, and what follows begin with one
				t.rest = "/" + strings.TrimLeft(after, "/")
			}
			return t, climbs(t.rest)
		}
		rest = after
	}
}

// cutSegment returns the first segment of an escaped path and what follows it.
func cutSegment(p string) (segment, after string) {
	p = strings.TrimPrefix(p, "/")
	if i := strings.IndexByte(p, '/'); i >= 0 {
		return p[:i], p[i:]
	}
	return p, ""
}

// parseAs reads NAME,priority=background,… into headers.
func parseAs(escaped string) (map[string]string, error) {
	as := make(map[string]string)
	for i, part := range strings.Split(escaped, ",") {
		key, value, said := strings.Cut(part, "=")
		if i == 0 && !said {
			key, value = "client", part
		}
		value, err := url.PathUnescape(value)
		if err != nil || !Sayable(value) || key != "client" && !slices.Contains(sayable, key) || key == "client" && i > 0 {
			return nil, fmt.Errorf("the path says /as/%s: write /as/NAME,priority=background/PROVIDER/…, with any of %s", escaped, strings.Join(sayable, ", "))
		}
		as[http.CanonicalHeaderKey("X-Paceline-"+key)] = value
	}
	return as, nil
}

// As is what parseAs reads: the part /as/NAME,key=value,… of a base URL. said
// are keys with their values. What is empty is left out, and every value has to
// be [Sayable].
func As(name string, said ...[2]string) string {
	var parts []string
	switch {
	case name == "":
	case strings.Trim(name, ".") == "":
		// Clients take a segment of dots for a way up.
		parts = append(parts, "client="+name)
	default:
		parts = append(parts, escapeAs(name))
	}
	for _, s := range said {
		if s[1] != "" {
			parts = append(parts, s[0]+"="+escapeAs(s[1]))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "/as/" + strings.Join(parts, ",")
}

// escapeAs escapes what ends a segment, and what parseAs splits at.
func escapeAs(value string) string {
	return strings.ReplaceAll(url.PathEscape(value), "=", "%3D")
}

// Sayable reports whether a base URL can say a value of a caller.
func Sayable(value string) bool { return value != "" && sendable(value) }

// sendable reports whether a value may stand in a header.
func sendable(v string) bool {
	return len(v) <= 200 && !strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// climbs is the error for a path whose dot segments lead out of the provider's
// base URL, however they are written. Others pass as they are.
func climbs(escaped string) error {
	plain, err := url.PathUnescape(escaped)
	if err != nil {
		return fmt.Errorf("the path is not escaped as it should be: %w", err)
	}
	// Servers behind others may unescape once more.
	if again, err := url.PathUnescape(plain); err == nil {
		plain = again
	}
	depth := 0
	for _, segment := range strings.FieldsFunc(plain, func(r rune) bool { return r == '/' || r == '\\' }) {
		switch name, _, _ := strings.Cut(segment, ";"); name {
		case "..":
			depth--
		case ".":
		default:
			depth++
		}
		if depth < 0 {
			return fmt.Errorf("the path leads out of the base URL of the provider: dot segments (..) are not followed")
		}
	}
	return nil
}

// join appends rest to a base URL. A version with which the base ends stands
// once; one that the request names stands in its place, unless that is v1, which
// clients say who know of no other.
func join(base *url.URL, rest string) *url.URL {
	stem := strings.TrimSuffix(base.EscapedPath(), "/")
	// Groq's own clients append the whole path of its base URL.
	if after, said := strings.CutPrefix(rest, stem+"/"); said && stem != "" {
		rest = "/" + after
	}
	cut := strings.LastIndexByte(stem, '/') + 1
	if first, after := cutSegment(rest); isVersion(first) {
		stands := first
		if own := stem[cut:]; isVersion(own) {
			stem = stem[:max(0, cut-1)]
			if first == "v1" {
				stands = own
			}
		}
		for {
			again, next := cutSegment(after)
			if again != first {
				break
			}
			after = next
		}
		rest = "/" + stands + after
	}
	u := *base
	u.RawPath = stem + rest
	if plain, err := url.PathUnescape(u.RawPath); err == nil { // climbs has seen it
		u.Path = plain
	}
	return &u
}

// unslashed is a URL without a slash behind the path of what generates
// something: that is a slip of a base URL, and no provider has one there.
func unslashed(u *url.URL, method string) *url.URL {
	if !strings.HasSuffix(u.Path, "/") || dialect.Generic.KindOf(&http.Request{Method: method, URL: u}) != dialect.Inference {
		return u
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	return u
}
