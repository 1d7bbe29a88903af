package paceline

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"github.com/paceline-proxy/paceline/dialect"
)

// entries are the completed entries of a Transport.
type entries struct {
	declared []*entry
	builtin  map[string]*entry // by the host of their addresses
	names    map[string]*entry // declared and built in

	mu   sync.Mutex
	made map[string]*entry // by scheme and host, for hosts that nobody declared
}

// mostMade bounds what strange hosts can make us remember.
const mostMade = 1024

func complete(ps []Provider) (*entries, error) {
	es := &entries{builtin: make(map[string]*entry), names: make(map[string]*entry)}
	var errs []error
	for _, p := range ps {
		e, err := p.complete()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if es.names[p.Name] != nil {
			errs = append(errs, fmt.Errorf("provider %q is given twice", p.Name))
		}
		es.names[p.Name] = e
		es.declared = append(es.declared, e)
	}
	for _, p := range builtin {
		if es.names[p.Name] == nil {
			e, err := p.complete()
			if err != nil {
				errs = append(errs, err)
				continue
			}
			es.names[p.Name], es.builtin[e.base.Hostname()] = e, e
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("paceline: %w", err)
	}
	return es, nil
}

// named returns the entry of a name.
func (es *entries) named(name string) (*entry, error) {
	if e := es.find(name); e != nil {
		return e, nil
	}
	return nil, fmt.Errorf("paceline: provider %q is not declared, and none of %s", name, builtinNames())
}

// find returns the declared or built-in entry of a name, nil where there is
// none.
func (es *entries) find(name string) *entry { return es.names[name] }

// undeclared is an entry for a provider that nobody declares: that of a host
// that has been asked, else one that says nothing.
func (es *entries) undeclared(name string) *entry {
	es.mu.Lock()
	defer es.mu.Unlock()
	for _, e := range es.made {
		if e.Name == name {
			return e
		}
	}
	return &entry{Provider: Provider{Name: name, Limits: defaultLimits, Retry: defaultRetry}}
}

// of returns the entry a URL belongs to: the declared one with the longest
// matching base, else a built-in one, else one made up from the host.
func (es *entries) of(u *url.URL) (*entry, error) {
	var found *entry
	for _, e := range es.declared {
		if e.covers(u) && (found == nil || len(e.prefix) > len(found.prefix)) {
			found = e
		}
	}
	if found != nil {
		return found, nil
	}
	if e := es.builtin[strings.ToLower(u.Hostname())]; e != nil && e.covers(u) {
		return e, nil
	}
	return es.madeUp(u)
}

// madeUp returns the entry of a host that nobody declared.
func (es *entries) madeUp(u *url.URL) (*entry, error) {
	host := strings.ToLower(u.Host)
	base := u.Scheme + "://" + host
	es.mu.Lock()
	defer es.mu.Unlock()
	if e := es.made[base]; e != nil {
		return e, nil
	}
	p := Provider{Name: host, BaseURL: base}
	if d := dialect.ByHost(u.Hostname()); d != dialect.Generic {
		if e := es.find(d.Name); e != nil && e.serves(u) {
			return e, nil // beside its base, but its server all the same
		}
		p.Name = d.Name
	}
	e, err := p.complete()
	if err != nil {
		return nil, err
	}
	if es.made == nil || len(es.made) >= mostMade {
		es.made = map[string]*entry{}
	}
	es.made[base] = e
	return e, nil
}
