package config

import (
	"github.com/goccy/go-yaml"

	"github.com/paceline-proxy/paceline"
)

// Effective is the configuration with the defaults of every entry filled in.
func (c *Config) Effective() (*Config, error) {
	out := *c
	out.Providers = make([]Provider, len(c.Providers))
	for i, p := range c.Providers {
		full, err := c.complete(p)
		if err != nil {
			return nil, err
		}
		out.Providers[i] = full
	}
	return &out, nil
}

// Provider is an entry in full, of the file or built in.
func (c *Config) Provider(name string) (p Provider, ok bool, err error) {
	p.Name = name
	for _, known := range c.Providers {
		if known.Name == name {
			p, ok = known, true
		}
	}
	for _, b := range paceline.BuiltIn() {
		ok = ok || b.Name == name
	}
	if !ok {
		return p, false, nil
	}
	p, err = c.complete(p)
	return p, true, err
}

func (c *Config) complete(p Provider) (Provider, error) {
	full, err := p.Complete()
	if err != nil {
		return p, err
	}
	p.Provider, p.apiKey = full, ""
	// What is the default without being filled in.
	if p.DeclaresRequests() && p.Pacing == "" {
		p.Pacing = paceline.Even
	}
	if p.Header == 0 {
		p.Header = -1
	}
	if p.Mode == "" {
		p.Mode = c.Mode
	}
	if p.Upstream.Proxy == "" {
		p.Upstream.Proxy = c.Upstream.Proxy
	}
	if p.Upstream.CAFile == "" {
		p.Upstream.CAFile = c.Upstream.CAFile
	}
	return p, nil
}

// YAML is the configuration as a file would say it, secrets hidden.
func (c *Config) YAML() ([]byte, error) { return yaml.Marshal(table(c).show()) }

// JSON is the same as one line of JSON.
func (c *Config) JSON() ([]byte, error) {
	return yaml.MarshalWithOptions(table(c).show(), yaml.JSON())
}

// YAML is the entry as a file would say it, secrets hidden.
func (p Provider) YAML() ([]byte, error) { return yaml.Marshal(p.show()) }

// JSON is the same as one line of JSON.
func (p Provider) JSON() ([]byte, error) { return yaml.MarshalWithOptions(p.show(), yaml.JSON()) }

func (p Provider) show() yaml.MapSlice {
	return yaml.MapSlice{{Key: "providers", Value: yaml.MapSlice{{Key: p.Name, Value: provider(&p).show()}}}}
}
