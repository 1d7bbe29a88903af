package proxy

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/internal/config"
)

// state is what a configuration compiles to.
type state struct {
	config    *config.Config
	upstreams map[string]*upstream
	home      [sha256.Size]byte   // of the home's token
	tokens    [][sha256.Size]byte // of the configuration's, in its order
}

// An upstream is a provider as the proxy sees it.
type upstream struct {
	config.Provider
	base *url.URL
	// known is the built-in provider at that host, empty where none is.
	known string
	shape shape
	// listed is whether the configuration file has it; local whether it is on
	// this machine or its network, where keys are not usual.
	listed, local bool
}

// reserved are first segments that are the proxy's own.
var reserved = []string{"health", "healthz", "ready", "readyz", "stats", "metrics", "ui", "control", "door", "as"}

// compile prepares a configuration for requests.
func compile(c *config.Config, homeToken string) (*state, error) {
	s := &state{config: c, upstreams: make(map[string]*upstream), home: sha256.Sum256([]byte(homeToken))}
	var errs []error
	for _, t := range c.Tokens {
		if !strings.HasPrefix(t.Value, tokenPrefix) {
			// It could not be told from a key, and be forwarded as one.
			errs = append(errs, fmt.Errorf("token %q: its value does not begin with %s", t.Name, tokenPrefix))
		}
		s.tokens = append(s.tokens, sha256.Sum256([]byte(t.Value)))
	}
	known := paceline.BuiltIn()
	add := func(p config.Provider, listed bool) {
		var err error
		if p.Provider, err = p.Complete(); err != nil {
			errs = append(errs, err)
			return
		}
		base, err := url.Parse(p.BaseURL)
		switch {
		case err != nil:
			errs = append(errs, err)
			return
		case listed && (slices.Contains(reserved, p.Name) || isVersion(p.Name) || strings.HasPrefix(p.Name, "~")):
			errs = append(errs, fmt.Errorf("provider %q: the proxy has another use for paths that begin so; give it another name", p.Name))
			return
		}
		host := base.Hostname()
		u := &upstream{Provider: p, base: base, known: knownHost(known, host), shape: shapeOf(p.Dialect), listed: listed}
		ip, err := netip.ParseAddr(host)
		u.local = loopbackName(host) || err == nil && (ip.IsLoopback() || ip.IsPrivate())
		s.upstreams[p.Name] = u
	}
	for _, p := range known {
		add(config.Provider{Provider: p}, false)
	}
	for _, p := range c.Providers {
		add(p, true)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	return s, nil
}

// names lists the providers there are.
func (s *state) names() []string { return slices.Sorted(maps.Keys(s.upstreams)) }

// keyed reports whether the proxy has a key for the provider.
func (u *upstream) keyed() bool { return len(u.Credentials) > 0 }

// knownHost is the built-in provider at a host, empty where none is.
func knownHost(known []paceline.Provider, host string) string {
	for _, p := range known {
		if u, err := url.Parse(p.BaseURL); err == nil && strings.EqualFold(u.Hostname(), host) {
			return p.Name
		}
	}
	return ""
}

// A shape is how an API writes its errors.
type shape = dialect.API

const (
	openAI    = dialect.OpenAIAPI
	anthropic = dialect.AnthropicAPI
	gemini    = dialect.GeminiAPI
)

// shapeOf is the shape of the errors of a dialect.
func shapeOf(name string) shape {
	if d, ok := dialect.ByName(name); ok {
		return d.API
	}
	return openAI
}
