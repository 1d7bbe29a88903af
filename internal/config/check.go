package config

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	"github.com/paceline-proxy/paceline"
)

// finish checks what no value shows alone, and makes of the entries what a
// Transport takes.
func (c *Config) finish(r *reader) {
	c.checkListen(r)
	known := c.checkProviders(r)
	c.checkTokens(r, known)
	names := func(path, name string) {
		if name != "" && !slices.Contains(known, name) {
			r.faultAt(path, fmt.Sprintf("%s is no provider%s", quoted(name), didYouMean(name, known)), "write a name of providers, or one of those built in: "+strings.Join(known, ", "))
		}
	}
	names("defaultProvider.openai", c.DefaultProvider.OpenAI)
	names("defaultProvider.anthropic", c.DefaultProvider.Anthropic)
	for i, t := range c.Tokens {
		for j, name := range t.Providers {
			names(fmt.Sprintf("tokens[%d].providers[%d]", i, j), name)
		}
	}
	if c.Budget.LogOnly && !c.Budget.Enable {
		r.faultAt("budget.logOnly", "has nothing to log: budget.enable is false", "leave one of the two out")
	}
	c.checkLimiter(r)
	c.checkFallback(r)
	checkUpstream(r, "upstream", &c.Upstream)
}

func (c *Config) checkListen(r *reader) {
	if _, c.Listens = r.at["listen"]; !c.Listens {
		return
	}
	if len(c.Listen) == 0 {
		r.faultAt("listen", "names no address", "write HOST:PORT such as localhost:8790, or leave it out")
	}
	for i, a := range c.Listen {
		path := "listen"
		if len(c.Listen) > 1 {
			path = fmt.Sprintf("listen[%d]", i)
		}
		if a != "" && slices.Contains(c.Listen[:i], a) {
			r.faultAt(path, quoted(a)+" is given twice", "keep one of the two")
		}
		if !loopback(a) && len(c.Tokens) == 0 {
			r.faultAt(path, quoted(a)+" can be reached from other machines, and nobody needs a token", "write tokens: [{name: NAME, value: file:PATH}], or listen on localhost")
		}
	}
}

// checkProviders returns the names of all providers, built-in ones included.
func (c *Config) checkProviders(r *reader) []string {
	builtin := make(map[string]paceline.Provider)
	known := make([]string, 0, len(c.Providers))
	for _, b := range paceline.BuiltIn() {
		builtin[b.Name] = b
	}
	for i := range c.Providers {
		p := &c.Providers[i]
		at := join("providers", p.Name)
		known = append(known, p.Name)
		if p.BaseURL == "" {
			p.BaseURL = builtin[p.Name].BaseURL
		}
		if p.BaseURL == "" {
			r.unlessFaulty(at+".baseURL", at, "has no baseURL, and is not built in"+didYouMean(p.Name, sorted(builtin)), "write baseURL: and the URL of its API")
		}
		p.keys(r, at)
		p.windows(r, at)
		checkUpstream(r, at+".upstream", &p.Upstream)
		if len(r.faults) == 0 {
			// What a Transport refuses is no configuration, whatever it is.
			if _, err := p.Complete(); err != nil {
				r.faultAt(at, strings.ReplaceAll(err.Error(), "\n", ", "), "write other values")
			}
		}
	}
	for name := range builtin {
		if !slices.Contains(known, name) {
			known = append(known, name)
		}
	}
	slices.Sort(known)
	return known
}

// unlessFaulty says that a key is missing, unless it is there and was refused.
func (r *reader) unlessFaulty(key, path, problem, advice string) {
	if _, there := r.at[key]; !there {
		r.faultAt(path, problem, advice)
	}
}

// keys makes credentials of an apiKey.
func (p *Provider) keys(r *reader, at string) {
	if _, both := r.at[at+".credentials"]; both && r.at[at+".apiKey"] != nil {
		r.faultAt(at+".apiKey", "is beside credentials", "keep one of the two")
		return
	}
	if p.Credentials != nil && len(p.Credentials) == 0 {
		r.faultAt(at+".credentials", "has no key", "write - apiKey: ${NAME} of a variable or file:PATH, or leave it out to send the client's own")
	}
	if p.apiKey != "" {
		p.Credentials = []paceline.Credential{{Key: p.apiKey}}
	}
	for i, c := range p.Credentials {
		here := fmt.Sprintf("%s.credentials[%d]", at, i)
		if c.Key == "" && p.apiKey == "" {
			r.unlessFaulty(here+".apiKey", here, "has no apiKey", "write apiKey: ${NAME} of a variable or file:PATH")
		}
		for j, d := range p.Credentials[:i] {
			if c.Name != "" && c.Name == d.Name {
				r.faultAt(here+".name", quoted(c.Name)+" is given twice", "write another name")
			}
			if c.Key != "" && c.Key == d.Key {
				r.faultAt(here+".apiKey", fmt.Sprintf("is the same key as that of credentials[%d]", j), "keep one of the two")
			}
		}
	}
}

// windows checks that each says how many and in what time.
func (p *Provider) windows(r *reader, at string) {
	check := func(at string, ws []paceline.Window) {
		for i, w := range ws {
			here := fmt.Sprintf("%s.limits.windows[%d]", at, i)
			if w.Calls == 0 {
				r.unlessFaulty(here+".calls", here, "has no calls", "write {calls: 100, perMs: 10m}")
			}
			if w.Per == 0 {
				r.unlessFaulty(here+".perMs", here, "has no perMs", "write {calls: 100, perMs: 10m}")
			}
		}
	}
	check(at, p.Limits.Windows)
	for _, model := range sorted(p.Models) {
		check(join(at+".models", model), p.Models[model].Windows)
	}
}

func (c *Config) checkTokens(r *reader, known []string) {
	for i, t := range c.Tokens {
		at := fmt.Sprintf("tokens[%d]", i)
		if t.Name == "" {
			r.unlessFaulty(at+".name", at, "has no name", "write name: and who comes with it")
		}
		if t.Value == "" {
			r.unlessFaulty(at+".value", at, "has no value", "write value: file:PATH")
		}
		for j, o := range c.Tokens[:i] {
			if t.Name != "" && t.Name == o.Name {
				r.faultAt(at+".name", quoted(t.Name)+" is given twice", "write another name")
			}
			if t.Value != "" && t.Value == o.Value {
				r.faultAt(at+".value", fmt.Sprintf("is the same as that of tokens[%d]", j), "write another: a token says who comes")
			}
		}
	}
}

// checkFallback checks that tiers and fallback lead to providers of the file:
// what is sent elsewhere than its client meant needs a configured key.
func (c *Config) checkFallback(r *reader) {
	names := make([]string, len(c.Providers))
	for i, p := range c.Providers {
		names[i] = p.Name
	}
	provider := func(path, name string) {
		if name != "" && !slices.Contains(names, name) {
			r.faultAt(path, fmt.Sprintf("%s is no provider of this file%s", quoted(name), didYouMean(name, names)), "write a name of providers")
		}
	}
	for _, tier := range sorted(c.Tiers) {
		at := join("tiers", tier)
		if len(c.Tiers[tier]) == 0 {
			r.faultAt(at, "leads nowhere", "write [PROVIDER/MODEL]")
		}
		if slices.Contains(names, tier) {
			r.faultAt(at, "is the name of a provider, too", "write another name")
		}
		for i, target := range c.Tiers[tier] {
			name, _, _ := strings.Cut(target, "/")
			provider(fmt.Sprintf("%s[%d]", at, i), name)
		}
	}
	f := c.Fallback
	if _, there := r.at["fallback"]; !there {
		return
	}
	if f.From == "" {
		r.unlessFaulty("fallback.from", "fallback", "has no from", "write from: and the name of a provider")
	}
	if f.To == "" {
		r.unlessFaulty("fallback.to", "fallback", "has no to", "write to: and the name of a provider")
	}
	provider("fallback.from", f.From)
	provider("fallback.to", f.To)
	if f.From != "" && f.From == f.To {
		r.faultAt("fallback.to", "leads back to "+f.From, "write another provider")
	}
}

// checkUpstream reads the certificates, whose path is then one of this
// process.
func checkUpstream(r *reader, at string, u *Upstream) {
	if u.CAFile == "" {
		return
	}
	path := r.resolvePath(u.CAFile)
	b, _, err := readFile(path, 4<<20)
	if err != nil {
		r.faultAt(at+".caFile", quoted(u.CAFile)+" "+err.Error(), "write the path of a PEM file")
		return
	}
	if !x509.NewCertPool().AppendCertsFromPEM(b) {
		r.faultAt(at+".caFile", quoted(u.CAFile)+" holds no certificate", "write the path of a PEM file")
	}
	u.CAFile = path
}
