package dialect

import (
	"net/http"
	"strings"
)

// fields are a response's headers under trimmed lower-case names: a name with
// a stray space is out of reach of http.Header.Get, and Get sees only the
// first of several lines.
type fields map[string][]string

// newFields copies the readable headers. A value with a control character in
// it is left out: it is somebody's injection, and must reach no log line.
func newFields(h http.Header) fields {
	f := make(fields)
	for name, values := range h {
		if !mute[name] {
			f.add(name, values...)
		}
	}
	return f
}

// mute are headers that most answers have and that say nothing of limits.
var mute = map[string]bool{
	"Access-Control-Allow-Origin": true, "Access-Control-Expose-Headers": true, "Alt-Svc": true, "Cache-Control": true,
	"Cf-Cache-Status": true, "Cf-Ray": true, "Connection": true, "Content-Encoding": true, "Content-Length": true,
	"Content-Type": true, "Date": true, "Server": true, "Set-Cookie": true, "Strict-Transport-Security": true,
	"Transfer-Encoding": true, "Vary": true, "Via": true, "X-Content-Type-Options": true,
}

func (f fields) add(name string, values ...string) {
	name = strings.ToLower(strings.TrimSpace(name))
	// Gateways pass upstream headers on under a prefix of their own.
	name = strings.TrimPrefix(name, "llm_provider-")
	for _, v := range values {
		if v = strings.Trim(v, " \t"); v != "" && printable(v) {
			f[name] = append(f[name], v)
		}
	}
}

// get returns the first value, empty where there is none.
func (f fields) get(name string) string {
	if v := f[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// printable is false for values that hold control characters.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' && s[i] != '\t' || s[i] == 0x7f {
			return false
		}
	}
	return true
}
