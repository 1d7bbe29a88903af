package proxy

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/internal/spelling"
)

// plan finds the provider of a request by its path. On /v1/… the API decides.
func (s *state) plan(j *journey, r *http.Request, t target, c *caller) *failure {
	name := t.name
	if name == "" {
		name = s.config.DefaultProvider.OpenAI
		if j.shape == anthropic {
			name = s.config.DefaultProvider.Anthropic
		}
	}
	up := s.upstreams[name]
	if up == nil {
		return s.unknown(r, t, name)
	}
	if holdsToken(unescaped(t.rest)) {
		return &failure{http.StatusBadRequest, "paceline_token", "a token stands in the part of the path that would be sent on: put it in front, /~TOKEN/PROVIDER/…"}
	}
	j.to(up, t, r.Method)
	return j.identify(s, r, t, c)
}

// to has the request go to a provider.
func (j *journey) to(up *upstream, t target, method string) {
	j.up, j.url = up, unslashed(join(up.base, t.rest), method)
	j.route.Provider = up.Name
	switch {
	case up.shape == gemini && strings.Contains(j.url.Path, "/openai/"):
		j.shape = openAI
	case t.name != "" && j.shape == openAI:
		j.shape = up.shape
	}
}

// unknown lists the providers there are.
func (s *state) unknown(r *http.Request, t target, name string) *failure {
	message := fmt.Sprintf("there is no provider %q", name)
	base := "http://" + r.Host
	switch near := spelling.Nearest(name, s.names()); {
	case t.name == "":
		message += ", which defaultProvider in paceline.yaml names"
	case near != "":
		message += fmt.Sprintf("; did you mean %s/%s%s", base, near, t.rest)
	case slices.Contains([]string{"chat", "completions", "embeddings", "messages", "responses", "models", "images", "audio"}, name):
		message += fmt.Sprintf("; did you mean %s/v1/%s%s", base, name, t.rest)
	}
	return &failure{http.StatusNotFound, "paceline_unknown_provider", fmt.Sprintf(
		"%s. There are: %s. A base URL is %s/PROVIDER, and more are declared under providers: in paceline.yaml", message, strings.Join(s.names(), ", "), base)}
}

// identify says who calls and how it waits, in the headers that the Transport
// reads. The path says it first, then the request's own headers, then the
// configuration of the client, then the token's.
func (j *journey) identify(s *state, r *http.Request, t target, c *caller) *failure {
	h := make(map[string]string, 4)
	for _, name := range waitHeaders {
		if v := t.as[name]; v != "" {
			h[name] = v
		} else if v := strings.TrimSpace(r.Header.Get(name)); v != "" {
			h[name] = v
		}
	}
	for name, v := range t.as {
		h[name] = v
	}
	or := func(name, v string) {
		if h[name] == "" && v != "" {
			h[name] = v
		}
	}
	if c.token != nil {
		or("X-Paceline-Client", c.token.Name)
	}
	for _, session := range []string{"X-Claude-Code-Session-Id", "Session-Id"} {
		or("X-Paceline-Client", r.Header.Get(session))
	}
	or("X-Paceline-Client", peerName(r))
	client := h["X-Paceline-Client"]
	declared := s.config.Clients[client]
	or("X-Paceline-Priority", declared.Priority)
	or("X-Paceline-Quota", string(declared.Quota))
	if declared.MaxWait > 0 {
		or("X-Paceline-Max-Wait", declared.MaxWait.String())
	}
	if c.token != nil {
		or("X-Paceline-Priority", c.token.Priority)
	}
	j.headers = h
	return check(h)
}

// waitHeaders are those of a request that are looked at here.
var waitHeaders = []string{"X-Paceline-Client", "X-Paceline-Priority", "X-Paceline-Max-Wait", "X-Paceline-Wait-For-Capacity", "X-Paceline-Quota"}

// check refuses what the Transport could not read.
func check(h map[string]string) *failure {
	bad := func(name, want string) *failure {
		return &failure{http.StatusBadRequest, "paceline_header", fmt.Sprintf("%s is %q: it is %s", name, h[name], want)}
	}
	if !sendable(h["X-Paceline-Client"]) {
		return bad("X-Paceline-Client", "a name of at most 200 characters")
	}
	switch h["X-Paceline-Priority"] {
	case "", "interactive", "normal", "background":
	default:
		return bad("X-Paceline-Priority", "interactive, normal or background")
	}
	switch h["X-Paceline-Quota"] {
	case "", "wait", "fail":
	default:
		return bad("X-Paceline-Quota", "wait or fail")
	}
	switch h["X-Paceline-Wait-For-Capacity"] {
	case "", "0", "1":
	default:
		return bad("X-Paceline-Wait-For-Capacity", "1 or 0")
	}
	if v := h["X-Paceline-Max-Wait"]; v != "" {
		if d, err := time.ParseDuration(v); err != nil || d < 0 {
			return bad("X-Paceline-Max-Wait", "a duration such as 90s or 10m")
		}
	}
	return nil
}

// peerName is what callers that say nothing of themselves are told apart by.
func peerName(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = "local"
	}
	agent := r.UserAgent()
	return strings.TrimSpace(host + " " + agent[:min(len(agent), 100)])
}

// authorize says with whose key the request goes.
func (s *state) authorize(j *journey, r *http.Request, t target, c *caller) (f *failure) {
	j.stored, f = s.mayUse(j.up, t.name != "", c, func() bool { return c.local && sameUser(r) })
	if j.stored {
		j.route.Credential = paceline.Any
	}
	return f
}
