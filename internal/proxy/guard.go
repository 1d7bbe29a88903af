package proxy

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/internal/config"
)

// A caller is who is behind a request, as far as it has shown it.
type caller struct {
	home  bool          // it has the home's token
	token *config.Token // the token of the configuration that it has shown
	asKey bool          // a token stands where an API key belongs
	// own is the API key that the caller brought, empty where there is none.
	own string
	// local is whether it came by a loopback address or a Unix socket.
	local bool
}

// shown reports whether the caller has shown a token.
func (c *caller) shown() bool { return c.home || c.token != nil }

// tokenPrefix begins every token.
const tokenPrefix = "pcl_"

// keyHeaders are where API keys come, beside Authorization and ?key=.
var keyHeaders = []string{"X-Api-Key", "X-Goog-Api-Key", "Api-Key"}

// identify reads who calls, and takes every token out of the request: whatever
// becomes of it, none goes further.
func (s *state) identify(r *http.Request, t target) (c caller, f *failure) {
	var tokens []string
	if t.token != "" {
		tokens = append(tokens, t.token)
	}
	tokens = append(tokens, r.Header.Values("X-Paceline-Token")...)
	key := func(v string) {
		switch v = strings.TrimSpace(v); {
		case strings.HasPrefix(v, tokenPrefix):
			tokens, c.asKey = append(tokens, v), true
		case c.own == "":
			c.own = v
		}
	}
	for _, v := range r.Header.Values("Authorization") {
		if scheme, rest, ok := strings.Cut(strings.TrimSpace(v), " "); ok && strings.EqualFold(scheme, "Bearer") {
			v = rest
		} else if strings.EqualFold(scheme, "Bearer") {
			v = "" // an SDK whose key is empty
		}
		key(v)
	}
	for _, name := range keyHeaders {
		for _, v := range r.Header.Values(name) {
			key(v)
		}
	}
	if strings.Contains(r.URL.RawQuery, "key=") {
		for _, v := range r.URL.Query()["key"] {
			key(v)
		}
	}
	strip(r)
	for _, shown := range tokens {
		token, home := s.token(shown)
		if token == nil && !home {
			return c, &failure{http.StatusUnauthorized, "paceline_token",
				"the token shown is none of this proxy: it has the one in the file token of its home, and those under tokens: in paceline.yaml"}
		}
		c.home = c.home || home
		if token != nil {
			c.token = token
		}
	}
	c.local = local(r)
	return c, nil
}

// token finds the token that was shown. It looks at all of them, and takes the
// same time for each.
func (s *state) token(shown string) (found *config.Token, home bool) {
	sum := sha256.Sum256([]byte(shown))
	home = subtle.ConstantTimeCompare(sum[:], s.home[:]) == 1
	for i := range s.tokens {
		if subtle.ConstantTimeCompare(sum[:], s.tokens[i][:]) == 1 {
			found = &s.config.Tokens[i]
		}
	}
	return found, home
}

// strip takes everything that looks like a token of ours out of the headers
// and the query. The path's own segment is not part of what goes on.
func strip(r *http.Request) {
	r.Header.Del("X-Paceline-Token")
	for name, values := range r.Header {
		if slices.ContainsFunc(values, holdsToken) {
			if values = slices.DeleteFunc(slices.Clone(values), holdsToken); len(values) == 0 {
				delete(r.Header, name)
			} else {
				r.Header[name] = values
			}
		}
	}
	if q := r.URL.RawQuery; q != "" && holdsToken(unescaped(q)) {
		parts := slices.DeleteFunc(strings.Split(q, "&"), func(part string) bool { return holdsToken(unescaped(part)) })
		r.URL.RawQuery = strings.Join(parts, "&")
	}
}

// unescaped is an escaped text as whoever receives it may read it: what is
// escaped twice, too, and what stands beside faulty escapes.
func unescaped(s string) string {
	for range 2 {
		if !strings.Contains(s, "%") {
			break
		}
		plain := make([]byte, 0, len(s))
		for i := 0; i < len(s); i++ {
			c := s[i]
			if c == '%' && i+2 < len(s) {
				if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
					c = byte(n)
					i += 2
				}
			}
			plain = append(plain, c)
		}
		s = string(plain)
	}
	return s
}

// holdsToken reports whether a word of v begins as tokens do.
func holdsToken(v string) bool {
	for {
		i := strings.Index(v, tokenPrefix)
		if i < 0 {
			return false
		}
		if i == 0 || !wordly(v[i-1]) {
			return true
		}
		v = v[i+len(tokenPrefix):]
	}
}

func wordly(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
}

// admit says whether a caller may speak to the proxy at all.
func (s *state) admit(r *http.Request, c *caller) *failure {
	for _, origin := range r.Header["Origin"] {
		if origin != "" && !s.ownOrigin(origin) {
			return &failure{http.StatusForbidden, "paceline_origin", fmt.Sprintf(
				"a web page of %s must not use this proxy; to let it, add to paceline.yaml: allowHosts: [%q]", origin, originHost(origin))}
		}
	}
	if c.shown() {
		return nil
	}
	if !c.local {
		return &failure{http.StatusUnauthorized, "paceline_token",
			"from another machine this proxy asks for a token: add to paceline.yaml " +
				"tokens: [{name: NAME, value: file:PATH}] and send it as X-Paceline-Token, as the path segment /~TOKEN/, or in place of the API key"}
	}
	if host := hostname(r.Host); !s.ownHost(host) {
		return &failure{http.StatusForbidden, "paceline_host", fmt.Sprintf(
			"the request was addressed to the host %q, which is not known to be this proxy; to let it in, add to paceline.yaml: allowHosts: [%q]", host, host)}
	}
	// Browsers say so of requests for which they send no Origin.
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate" && !s.listedOrigin(r.Header.Get("Origin")) {
		return &failure{http.StatusForbidden, "paceline_origin", "a web page of another site must not use this proxy"}
	}
	return nil
}

// hostname is a Host without its port, in lower case.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// ownHost reports whether a host means this proxy. A name that anybody could
// point at this machine does not: a web page could then speak to it.
func (s *state) ownHost(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || host == "" || loopbackName(host) || s.allowed(host) ||
		host == "host.docker.internal" || host == "host.containers.internal"
}

// ownOrigin reports whether pages of an origin may use the proxy.
func (s *state) ownOrigin(origin string) bool {
	if s.listedOrigin(origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.IsLoopback() || loopbackName(u.Hostname())
}

// listedOrigin reports whether allowHosts has an origin, or its host.
func (s *state) listedOrigin(origin string) bool {
	return origin != "" && (s.allowed(origin) || s.allowed(originHost(origin)))
}

func originHost(origin string) string {
	if u, err := url.Parse(origin); err == nil && u.Hostname() != "" {
		return u.Hostname()
	}
	return origin
}

func loopbackName(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// allowed reports whether allowHosts has a host; *.example.com has all below
// it.
func (s *state) allowed(host string) bool {
	return slices.ContainsFunc(s.config.AllowHosts, func(a string) bool {
		below, all := strings.CutPrefix(a, "*")
		return strings.EqualFold(a, host) || all && len(below) > 1 && strings.HasSuffix(strings.ToLower(host), strings.ToLower(below))
	})
}

// local reports whether a request came by a loopback address or a socket in
// the file system, where tokens are not asked for.
func local(r *http.Request) bool {
	switch addr := r.Context().Value(http.LocalAddrContextKey).(type) {
	case *net.TCPAddr:
		return addr.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}

// mayUse says whether a caller may use a provider, and with whose key: stored
// is whether with the proxy's own.
func (s *state) mayUse(u *upstream, named bool, c *caller, sameUser func() bool) (stored bool, f *failure) {
	if t := c.token; t != nil && !c.home && len(t.Providers) > 0 && !slices.Contains(t.Providers, u.Name) {
		return false, &failure{http.StatusForbidden, "paceline_token", fmt.Sprintf(
			"the token %s is not for %s: it may use %s", t.Name, u.Name, strings.Join(t.Providers, ", "))}
	}
	if c.own != "" {
		return false, s.misdirected(u, named, c.own)
	}
	switch {
	case u.keyed() && (c.shown() || sameUser()):
		return true, nil
	case u.keyed():
		return false, &failure{http.StatusUnauthorized, "paceline_unknown_caller", fmt.Sprintf(
			"the stored key of %s is for callers that this proxy knows: show a token (X-Paceline-Token, the path segment /~TOKEN/, or in place of the API key; "+
				"paceline env hands out the home's own), call as the user who runs the proxy, or send a key of your own", u.Name)}
	case c.asKey && !u.local:
		return false, &failure{http.StatusUnauthorized, "paceline_no_key", fmt.Sprintf(
			"a token stands in place of the API key, and this proxy has no key for %s: add to paceline.yaml "+
				"providers: {%s: {apiKey: file:PATH}}, or send a key of your own and the token as X-Paceline-Token", u.Name, u.Name)}
	}
	return false, nil
}

// misdirected refuses a key whose shape is that of another provider's: it
// would be shown to somebody it does not concern. A provider of the file at an
// address we do not know may take any key where the path names it, and the keys
// of the provider whose name the file gives it.
func (s *state) misdirected(u *upstream, named bool, key string) *failure {
	owner := paceline.KeyOf(key)
	if owner == "" || owner == u.known || u.known == "" && (named || owner == u.Name) {
		return nil
	}
	message := fmt.Sprintf("the API key sent is one of %s, and this request would go to %s", owner, u.Name)
	if s.upstreams[owner] != nil {
		message += fmt.Sprintf(": use the base URL of this proxy with /%s", owner)
	}
	if u.known == "" {
		message += fmt.Sprintf("; where %s takes such keys, use the one with /%s", u.Name, u.Name)
	}
	return &failure{http.StatusBadRequest, "paceline_wrong_key", message}
}
