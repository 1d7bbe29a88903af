package daemon

import (
	"fmt"
	"maps"
	"os"
	"os/signal"
	"reflect"
	"syscall"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/internal/config"
)

// load reads the configuration.
func (d *daemon) load() (*config.Config, error) {
	path, _ := config.Find(d.ConfigFile, d.Home.Dir)
	d.ConfigFile = path // a reload reads the same file
	return config.Load(path)
}

// reload reads the configuration again. Whatever is wrong with it, the old one
// stays; requests that wait take the new one when they ask next.
func (d *daemon) reload() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.load()
	if err != nil {
		d.Logger.Error("the configuration has faults: the old one stays", "error", err)
		return err
	}
	if err := d.apply(c, d.modes); err != nil {
		return err
	}
	for _, name := range startOnly(d.begun, c) {
		d.Logger.Warn("this takes effect at the next start", "key", name)
	}
	d.config = c
	d.Logger.Info("the configuration was read again", "file", c.File)
	for _, w := range c.Warnings {
		d.Logger.Warn(w.Error())
	}
	return nil
}

// apply hands a configuration to what is running, or changes nothing.
func (d *daemon) apply(c *config.Config, modes map[string]config.Mode) error {
	before := d.modes
	d.modes = modes
	ps := d.providers(c)
	if err := d.transport.SetProviders(ps); err != nil {
		d.modes = before
		return err
	}
	if err := d.proxy.SetConfig(c); err != nil {
		d.modes = before
		if e := d.transport.SetProviders(d.providers(d.config)); e != nil {
			d.Logger.Error("the old entries could not be set again", "error", e)
		}
		return err
	}
	d.history.Declare(ps)
	return nil
}

// startOnly names what differs and is not taken by a running proxy.
func startOnly(a, b *config.Config) (keys []string) {
	for _, k := range []struct {
		name string
		a, b any
	}{
		{"listen", a.Listen, b.Listen},
		{"limiter", a.Limiter, b.Limiter},
		{"clientTimeoutMs", a.ClientTimeout, b.ClientTimeout},
		{"maxReplayBytes", a.MaxReplayBytes, b.MaxReplayBytes},
		{"queue", a.Queue, b.Queue},
		{"upstream", upstreams(a), upstreams(b)},
		{"background", a.BackgroundShare, b.BackgroundShare},
		{"clients.maxConcurrent", clients(a), clients(b)},
		{"log", a.Log, b.Log},
	} {
		if !reflect.DeepEqual(k.a, k.b) {
			keys = append(keys, k.name)
		}
	}
	return keys
}

// upstreams are the general one and those of providers that have one of their
// own.
func upstreams(c *config.Config) map[string]config.Upstream {
	all := map[string]config.Upstream{"": c.Upstream}
	for _, p := range c.Providers {
		if p.Upstream != c.Upstream && p.Upstream != (config.Upstream{}) {
			all[p.Name] = p.Upstream
		}
	}
	return all
}

// providers are the entries of a configuration, the built-in ones included
// where a mode reaches them.
func (d *daemon) providers(c *config.Config) []paceline.Provider {
	var ps []paceline.Provider
	declared := make(map[string]bool)
	for _, p := range c.Providers {
		declared[p.Name] = true
		ps = append(ps, p.Provider)
	}
	for _, p := range paceline.BuiltIn() {
		if !declared[p.Name] {
			ps = append(ps, paceline.Provider{Name: p.Name})
		}
	}
	for i := range ps {
		ps[i].Budgets = budgets(c)
		ps[i].Mode = paceline.Mode(d.modeOf(c, ps[i]))
	}
	return ps
}

// budgets is what a configuration does about what providers tell is left.
func budgets(c *config.Config) paceline.Budgets {
	switch {
	case !c.Budget.Enable:
		return paceline.IgnoreBudgets
	case c.Budget.LogOnly:
		return paceline.LogBudgets
	}
	return paceline.HeedBudgets
}

// modeOf is the mode of an entry: one set while running, its own, or that of
// all.
func (d *daemon) modeOf(c *config.Config, p paceline.Provider) config.Mode {
	for _, m := range []config.Mode{d.modes[p.Name], d.modes[""], config.Mode(p.Mode), c.Mode} {
		if m != "" {
			return m
		}
	}
	return config.Enforce
}

// control is what the proxy's callers may tell the daemon.
type control struct{ *daemon }

// Reload reads the configuration again.
func (c control) Reload() error { return c.reload() }

// Stop begins to drain.
func (c control) Stop() { c.stop() }

// SetMode sets the mode of a provider, or of all, until the next start.
func (c control) SetMode(provider string, mode config.Mode) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := provider == ""
	for _, p := range c.providers(c.config) {
		known = known || p.Name == provider
	}
	if !known {
		return fmt.Errorf("there is no provider %q", provider)
	}
	modes := maps.Clone(c.modes)
	if provider == "" {
		clear(modes) // all means all
	}
	modes[provider] = mode
	if err := c.apply(c.config, modes); err != nil {
		return err
	}
	c.Logger.Info("mode set", "provider", provider, "mode", string(mode))
	return nil
}

// reloadOnSignal reloads at each SIGHUP until the end. What is wrong has been
// logged.
func (d *daemon) reloadOnSignal(ended <-chan struct{}) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	for {
		select {
		case <-ended:
			return
		case <-hup:
			_ = d.reload()
		}
	}
}
