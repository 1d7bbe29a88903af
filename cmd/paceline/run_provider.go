package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/internal/config"
)

// Whom run asks, and with whose key.

// configure finds out whom to ask, and with which key.
func (r *request) configure(ctx context.Context) error {
	at, err := findConfig(ctx, "")
	if err != nil {
		return err
	}
	if r.config, err = config.Load(at.path); err != nil {
		return err
	}
	name, err := r.name()
	if err != nil {
		return err
	}
	p, known, err := r.config.Provider(name)
	switch {
	case err != nil:
		return err
	case !known && !elsewhere():
		return unknownProvider(name, providerNames(r.config))
	}
	r.provider = p
	r.api, r.path = apiOf(p)
	r.path = cmp.Or(r.runFlags.path, r.path)
	r.header = r.api.header.Clone()
	r.header.Set("Content-Type", "application/json")
	r.header.Set("User-Agent", "paceline/"+thisBuild().Version)
	set := func(name, value string) {
		if value != "" {
			r.header.Set("X-Paceline-"+name, value)
		}
	}
	set("Client", cmp.Or(string(r.callerFlags.name), "run"))
	if r.priority.word == "" && typed(r.c.InOrStdin()) {
		set("Priority", "interactive") // somebody sits there
	}
	set("Priority", r.priority.word)
	if r.anyhow {
		set("Wait-For-Capacity", "1")
	}
	return r.authorize()
}

// elsewhere reports whether the proxy is one whose configuration is not ours.
func elsewhere() bool { return os.Getenv("PACELINE_URL") != "" }

// name is the provider that is meant. A prefix of the model is taken off.
func (r *request) name() (string, error) {
	if r.runFlags.provider != "" {
		return r.runFlags.provider, nil
	}
	defaults := r.config.DefaultProvider
	if prefix, model, ok := strings.Cut(r.Model, "/"); ok {
		if _, known, err := r.config.Provider(prefix); known && err == nil {
			r.Model = model
			return prefix, nil
		}
		// A provider that somebody has chosen as default may have such models.
		if defaults == config.Default().DefaultProvider && !elsewhere() {
			return "", usagef("%v; for a model with a slash in its name give --provider too", unknownProvider(prefix, providerNames(r.config)))
		}
	}
	if strings.HasPrefix(r.Model, "claude") || strings.HasSuffix(r.runFlags.path, "/messages") {
		return defaults.Anthropic, nil
	}
	return defaults.OpenAI, nil
}

// apiOf is how a provider is asked, and where below its base URL.
func apiOf(p config.Provider) (a api, path string) {
	d := dialectOf(p)
	bound := "max_tokens"
	if p.Name == d.Name || d.BaseURL == "" { // who else speaks so may not know the newer field
		bound = cmp.Or(d.MaxTokens, bound)
	}
	if a = chatCompletions(bound); d.API == dialect.AnthropicAPI {
		a = messages()
	}
	return a, cmp.Or(d.ChatPath, "/v1/chat/completions")
}

// dialectOf is how a provider speaks.
func dialectOf(p config.Provider) *dialect.Dialect {
	if d, ok := dialect.ByName(p.Dialect); ok {
		return d
	}
	return dialect.Generic
}

// variablesOf are the environment variables that may have a provider's key.
func variablesOf(p config.Provider) []string {
	if names := dialectOf(p).KeyVariables; names != nil && p.Name == p.Dialect {
		return names
	}
	return []string{strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(p.Name)) + "_API_KEY"}
}

// authorize sends the key of the environment where the proxy has none.
func (r *request) authorize() error {
	name := r.provider.Name
	if len(r.provider.Credentials) > 0 && !elsewhere() {
		r.keyFrom = "paceline.yaml"
		return nil
	}
	variables := variablesOf(r.provider)
	for _, v := range variables {
		if key := os.Getenv(v); key != "" {
			r.api.key(r.header, key)
			r.keyFrom = v
			return nil
		}
	}
	if elsewhere() || local(r.provider.BaseURL) {
		return nil // it may have one, or need none
	}
	return fmt.Errorf("there is no key for %s: set %s, or add to paceline.yaml providers: {%s: {apiKey: file:PATH}}", name, variables[0], name)
}

// local reports whether a base URL is of this machine.
func local(base string) bool {
	u, err := url.Parse(base)
	return err == nil && (u.Hostname() == "localhost" || strings.HasPrefix(u.Hostname(), "127.") || u.Hostname() == "::1")
}
