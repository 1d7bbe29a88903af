// Package address knows how the address of a limiter is written, and opens
// none.
package address

import (
	"net/url"
	"slices"
	"strings"

	"github.com/paceline-proxy/paceline/internal/spelling"
)

// Schemes are those of addresses, and Says is how they are written.
var Schemes = []string{"memory", "sqlite", "redis", "rediss", "postgres", "postgresql", "http", "https", "unix", "module"}

// Says lists the forms of an address.
const Says = "memory, sqlite:PATH, redis://HOST:6379, postgres://HOST/DATABASE, http://HOST:PORT, unix:PATH or module:NAME"

// A Fault is what is wrong with an address. It repeats nothing of it that may
// be secret.
type Fault struct {
	Problem string
	Advice  string // what to write
}

func (f *Fault) Error() string {
	return "the address of the limiter " + f.Problem + "; " + f.Advice
}

// Scheme is what stands before the first colon, in lower case: memory of what
// is that word alone.
func Scheme(address string) string {
	scheme, _, _ := strings.Cut(address, ":")
	return strings.ToLower(scheme)
}

// Rest is what follows the scheme: the path of sqlite: and unix:, the name of
// module:.
func Rest(address string) string {
	_, rest, _ := strings.Cut(address, ":")
	return rest
}

// Check says what is wrong with an address as far as it shows, nil where
// nothing does.
func Check(address string) *Fault {
	const write = "write " + Says
	scheme, rest := Scheme(address), Rest(address)
	switch scheme {
	case "":
		return &Fault{"is empty", write}
	case "memory":
		if rest != "" {
			return &Fault{"names more than memory", "write memory alone"}
		}
	case "sqlite":
		if path, _, _ := strings.Cut(rest, "?"); path == "" {
			return &Fault{"names no file", "write sqlite:PATH"}
		}
	case "unix":
		if rest == "" {
			return &Fault{"names no socket", "write unix:PATH"}
		}
	case "module":
		if rest == "" || strings.ContainsAny(rest, `/\`) {
			return &Fault{"names no module", "write module:NAME, of a folder in modules of the home"}
		}
	case "redis", "rediss", "postgres", "postgresql", "http", "https":
		return checkURL(scheme, address)
	default:
		f := &Fault{"has no scheme that is known", write}
		if near := spelling.Nearest(scheme, Schemes); near != "" {
			f.Problem += " (did you mean " + near + "?)"
		} else if !strings.Contains(address, ":") {
			f.Problem = "is none"
		}
		return f
	}
	return nil
}

func checkURL(scheme, address string) *Fault {
	u, err := url.Parse(address)
	host := map[string]string{"redis": "HOST:6379", "rediss": "HOST:6379", "http": "HOST:PORT", "https": "HOST"}[scheme]
	if host == "" {
		host = "HOST/DATABASE"
	}
	write := "write " + scheme + "://" + host
	switch {
	case !strings.HasPrefix(Rest(address), "//"):
		return &Fault{"has no // behind " + scheme + ":", write}
	case err != nil && strings.Contains(Rest(address), ","):
		return nil // several hosts are the backend's own matter
	case err != nil:
		return &Fault{"is no URL", write + ", and in a password %40 for @, %2F for / and %3A for :"}
	case u.Host == "" && (scheme == "http" || scheme == "https"):
		return &Fault{"names no host", write}
	case u.Port() == "" && strings.HasSuffix(u.Host, ":"):
		return &Fault{"has no port behind the colon", write}
	}
	return nil
}

// WithSecret is an address with the password of Redis or Postgres in it, which
// another place than the address gave. Other addresses stay as they are.
func WithSecret(address, secret string) string {
	switch Scheme(address) {
	case "redis", "rediss", "postgres", "postgresql":
	default:
		return address
	}
	u, err := url.Parse(address)
	if err != nil || secret == "" {
		return address
	}
	u.User = url.UserPassword(u.User.Username(), secret)
	return u.String()
}

// HasPassword reports whether a password is written in an address.
func HasPassword(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	_, inUser := u.User.Password()
	return inUser || u.Query().Has("password")
}

// shown are the settings of a URL that may be shown.
var shown = []string{"tag", "strict", "schema", "durable", "migrate", "db", "dbname", "master_set"}

// Redacted is an address without anything secret, to be shown.
func Redacted(address string) string {
	scheme := Scheme(address)
	switch scheme {
	case "memory", "unix", "module":
		return address
	case "sqlite":
		path, _, _ := strings.Cut(address, "?")
		return path
	}
	u, err := url.Parse(address)
	if err != nil || u.Opaque != "" || !slices.Contains(Schemes, scheme) {
		if !slices.Contains(Schemes, scheme) {
			return "(hidden)"
		}
		return scheme + "://(hidden)"
	}
	settings := url.Values{}
	for name, values := range u.Query() {
		if slices.Contains(shown, name) {
			settings[name] = values
		}
	}
	u.User, u.RawQuery, u.Fragment = nil, settings.Encode(), ""
	return u.String()
}
