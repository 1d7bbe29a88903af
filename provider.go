package paceline

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/policy"
)

// The parts of a provider's entry. Their fields are documented in package
// policy: go doc github.com/paceline-proxy/paceline/policy Limits.
type (
	// Limits is what a provider allows: MaxPerSecond, MaxPerMinute, MaxPerHour,
	// MaxPerDay, MaxConcurrent, Windows, Pacing, SafetyMargin, WindowSlack,
	// AbortHold, Adaptive.
	Limits = policy.Limits
	// Window is a rolling window of any length.
	Window = policy.Window
	// Pacing is how starts are spread inside the windows: Even or Burst.
	Pacing = policy.Pacing
	// Adaptive is how declared limits give way to refusals they do not explain.
	Adaptive = policy.Adaptive
	// Retry is how long and how often one request is tried: Max, Max5xx, Base,
	// MaxWait, Overload, WaitForCapacity.
	Retry = policy.Retry
	// Timeouts bound one attempt: Connect, Header, Idle, Total.
	Timeouts = policy.Timeouts
)

// The pacings of Limits.
const (
	Even  = policy.Even
	Burst = policy.Burst
)

// A Provider is one entry: where requests go, how it speaks, what it allows.
// Several entries may name one BaseURL, each with limits of its own;
// [Transport.Route] tells them apart.
type Provider struct {
	// Name of the entry, and of what is counted for it: two Transports over one
	// limiter count together where their entries have one name and the requests
	// one credential. The names of the built-in entries ("openai", "anthropic",
	// "openference") bring their defaults along.
	Name string
	// BaseURL is the beginning of the URLs that belong to the entry. Empty:
	// that of the built-in entry.
	BaseURL string
	// Dialect names how the provider speaks. Empty: as its host suggests.
	Dialect string
	// Scope is what a line, its throttles and its learned values belong to.
	// Empty: the provider where a rate is declared, or where it is known to tell
	// of budgets of the account as a whole, else each model, or those together
	// that are known to share a limit.
	Scope Scope
	// Account names whom the provider meters. Credentials of one account share
	// limits and throttles. Empty: each credential is an account.
	Account string
	// Credentials are keys that replace those of requests whose [Route] names
	// one of them. Without, and for all other requests, the client's own goes
	// through.
	Credentials []Credential

	Limits
	Retry
	Timeouts
	// Models are limits that some models have beside those of the entry. A key
	// is the name of a model or a pattern as in path.Match, in lower case; of
	// several that match, the model's own name counts, else the longest.
	Models map[string]Limits
	// Mode is whether the limits are enforced. Empty: Enforce.
	Mode Mode
	// Quota is whether requests wait for a spent quota, where they do not say so
	// themselves (X-Paceline-Quota). Empty: background requests do.
	Quota Quota
	// Budgets is what is done about what the provider tells is left. Empty:
	// HeedBudgets.
	Budgets Budgets
}

// A Scope is how finely a provider is divided into lines.
type Scope string

// The scopes.
const (
	ScopeProvider Scope = "provider"
	ScopeModel    Scope = "model"
)

// What holds where an entry says nothing.
var (
	defaultRetry    = Retry{Max: 6, Max5xx: 2, Base: 2 * time.Second, MaxWait: 10 * time.Minute, Overload: 2 * time.Minute}
	defaultTimeouts = Timeouts{Connect: 10 * time.Second, Idle: 5 * time.Minute, Total: 30 * time.Minute}
	defaultLimits   = Limits{
		WindowSlack: time.Second,
		AbortHold:   15 * time.Second,
		Adaptive:    Adaptive{Decrease: 0.7, Min: 0.2, Increase: 0.1, Cooldown: 5 * time.Minute, Gap: 5 * time.Second},
	}
	// A server on this machine or network counts at once and stops when its
	// client leaves.
	localLimits = Limits{WindowSlack: -1, AbortHold: -1}
)

// Complete returns the entry with the defaults of what it leaves open, or
// everything that is wrong with it.
func (p Provider) Complete() (Provider, error) {
	e, err := p.complete()
	if err != nil {
		return Provider{}, err
	}
	e.Provider.Dialect = e.dialect.Name
	return e.Provider, nil
}

// An entry is a Provider with everything filled in.
type entry struct {
	Provider
	base    *url.URL
	prefix  string // of the paths that belong to it, without a last slash
	dialect *dialect.Dialect
	keys    []configured
	// operator is the key of the orders to the provider.
	operator string
	models   []modelLimits
	longest  time.Duration // the longest window, the models' included
}

// complete fills in an entry, or reports everything wrong with it.
func (p Provider) complete() (*entry, error) {
	var errs []error
	if p.Name == "" {
		errs = append(errs, errors.New("a provider needs a Name"))
	}
	for _, b := range builtin {
		if b.Name == p.Name {
			p.BaseURL = orElse(p.BaseURL, b.BaseURL)
			p.Dialect = orElse(p.Dialect, b.Dialect)
			p.Limits, p.Retry = p.Limits.Or(b.Limits), p.Retry.Or(b.Retry)
		}
	}
	e := &entry{dialect: dialect.Generic, operator: operatorKey(p.Name)}
	if d, ok := dialect.ByName(p.Name); ok {
		e.dialect = d
	}
	var err error
	if e.base, err = url.Parse(p.BaseURL); err != nil || e.base.Host == "" {
		errs = append(errs, fmt.Errorf("BaseURL %q: give an absolute URL such as https://api.example.com/v1", p.BaseURL))
		e.base = &url.URL{}
	} else if e.base.Scheme != "http" && e.base.Scheme != "https" {
		errs = append(errs, fmt.Errorf("BaseURL %q: it begins with https:// or http://", p.BaseURL))
	} else if e.dialect == dialect.Generic {
		e.dialect = dialect.ByHost(e.base.Hostname())
	}
	if p.Dialect != "" {
		d, ok := dialect.ByName(p.Dialect)
		if !ok {
			errs = append(errs, fmt.Errorf("dialect %q is not known: it is one of %s", p.Dialect, dialectNames()))
		}
		e.dialect = d
	}
	if p.Scope != "" && p.Scope != ScopeProvider && p.Scope != ScopeModel {
		errs = append(errs, fmt.Errorf("scope is %q: it is %q or %q", p.Scope, ScopeProvider, ScopeModel))
	}
	if p.Credentials, err = named(p.Name, p.Credentials); err != nil {
		errs = append(errs, err)
	}
	e.prefix = strings.TrimSuffix(path.Clean("/"+e.base.Path), "/")
	e.keys = configure(e, p.Credentials)
	errs = append(errs, p.Limits.Validate(), p.Retry.Validate())
	if local(e.base.Hostname()) {
		p.Limits = p.Limits.Or(localLimits)
	}
	p.Limits = p.Limits.Or(defaultLimits)
	e.models, err = p.modelLimits()
	e.longest = p.Limits.Longest()
	for _, m := range e.models {
		e.longest = max(e.longest, m.limits.Longest())
	}
	errs = append(errs, err, p.Mode.validate(), p.Quota.validate(), p.Budgets.validate())
	p.Retry, p.Timeouts = p.Retry.Or(defaultRetry), p.Timeouts.Or(defaultTimeouts)
	if p.Scope == "" {
		p.Scope = ScopeModel
		// What a provider is known to tell of the account as a whole concerns
		// every model: in lines of their own each would see a part of it.
		d := e.dialect
		if p.DeclaresRate() || d != nil && d != dialect.Generic && d.Reports && !d.Metering.PerModel {
			p.Scope = ScopeProvider
		}
	}
	e.Provider = p
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("provider %q: %w", p.Name, err)
	}
	return e, nil
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func dialectNames() string {
	names := make([]string, len(dialect.All))
	for i, d := range dialect.All {
		names[i] = d.Name
	}
	return strings.Join(names, ", ")
}

// local reports whether a host is this machine or its network.
func local(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && (ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast())
}

// covers reports whether a URL belongs to the entry.
func (e *entry) covers(u *url.URL) bool {
	return e.serves(u) && strings.HasPrefix(u.Path, e.prefix) && (len(u.Path) == len(e.prefix) || e.prefix == "" || u.Path[len(e.prefix)] == '/')
}

// serves reports whether a URL is of the entry's server.
func (e *entry) serves(u *url.URL) bool {
	return strings.EqualFold(e.base.Hostname(), u.Hostname()) && portOf(e.base) == portOf(u)
}

// portOf is a URL's port, said or not.
func portOf(u *url.URL) string {
	switch port := u.Port(); {
	case port != "":
		return port
	case u.Scheme == "http":
		return "80"
	}
	return "443"
}
