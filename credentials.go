package paceline

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/paceline-proxy/paceline/dialect"
)

// A Credential is a key of the user's own, which replaces the one a request
// came with where a [Route] names it. However it is printed, marshalled or
// logged, its key is not shown.
type Credential struct {
	// Name is what a Route and the records call it. Empty: the provider's name,
	// with a number from the second one on.
	Name string
	// Key is the secret, as the provider gave it out.
	Key string
	// Account names whom the provider meters, where several keys are of one
	// account: they share limits, throttles and what is learned. Empty: the
	// provider's Account, else each key is one.
	Account string
	// Weight is how much of the work it gets beside others with as much left, or
	// of which nothing is known: one of weight 3 three times as much as one of
	// weight 1. 0 is 1.
	Weight int
}

// String names the credential, without its key.
func (c Credential) String() string { return "credential " + c.Name }

// Format writes what String says, whatever the verb: %#v and %x would show the
// key otherwise.
func (c Credential) Format(f fmt.State, _ rune) { fmt.Fprint(f, c.String()) }

// MarshalJSON writes everything but the key.
func (c Credential) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Name    string `json:"name,omitempty"`
		Account string `json:"account,omitempty"`
		Weight  int    `json:"weight,omitempty"`
	}{c.Name, c.Account, c.Weight})
}

// LogValue is the name.
func (c Credential) LogValue() slog.Value { return slog.StringValue(c.Name) }

// validate says what is wrong with a credential, without saying its key.
func (c Credential) validate() error {
	switch {
	case strings.Contains(c.Name, "#"):
		return fmt.Errorf("%v: leave the # to the names that others get, such as openai#1", c)
	case c.Name == Any:
		return fmt.Errorf("%v: a Route that names %s means any of them; give it another name", c, Any)
	case c.Weight < 0:
		return fmt.Errorf("%v: its Weight is %d: give a number from 1, or 0 for 1", c, c.Weight)
	case c.Key == "":
		return fmt.Errorf("%v has no key", c)
	case strings.ContainsFunc(c.Key, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return fmt.Errorf("%v: its key holds a space, a line break or a sign that no key has: give the key alone", c)
	}
	return nil
}

// named fills in the names of credentials, or says what is wrong with them.
func named(provider string, cs []Credential) ([]Credential, error) {
	var errs []error
	out := make([]Credential, len(cs))
	seen := make(map[string]bool)
	for i, c := range cs {
		if c.Name == "" {
			c.Name = provider
			if i > 0 {
				c.Name = fmt.Sprintf("%s-%d", provider, i+1)
			}
		}
		if seen[c.Name] {
			errs = append(errs, fmt.Errorf("%v is given twice", c))
		}
		seen[c.Name] = true
		out[i] = c
		errs = append(errs, c.validate())
	}
	return out, errors.Join(errs...)
}

// A configured credential is one with what it is known by.
type configured struct {
	Credential
	id string
}

// configure gives the credentials of an entry their ids: those that requests
// which carry the keys by themselves have.
func configure(e *entry, cs []Credential) []configured {
	out := make([]configured, len(cs))
	for i, c := range cs {
		h, u := http.Header{}, *e.base
		e.dialect.SetKey(h, &u, c.Key)
		out[i] = configured{c, credentialID(e, h, &u)}
	}
	return out
}

// credential finds a configured credential by its name, nil for none. Of any the
// first is as good as another, until one is chosen.
func (e *entry) credential(name string) (*configured, error) {
	switch {
	case name == "":
		return nil, nil
	case name == Any && len(e.keys) > 0:
		return &e.keys[0], nil
	}
	for i := range e.keys {
		if e.keys[i].Name == name {
			return &e.keys[i], nil
		}
	}
	return nil, fmt.Errorf("paceline: provider %q has no credential %q", e.Name, name)
}

// identify says by which credential and for which account a call is made, and
// returns the credential's id.
func (c *call) identify() (id string) {
	who := c.with
	if who == nil {
		if id = hashed(c.demand.Account); id == "" {
			id = credentialID(c.entry, c.req.Header, c.req.URL)
		}
		who = c.entry.keyOf(id) // its client may send a configured key itself
	}
	if who == nil {
		c.account, c.credential = c.entry.Account, c.home.credentialName(c.entry.Name, id)
		return id
	}
	c.account, c.credential = c.entry.accountOf(who), who.Name
	return who.id
}

// accountOf is the account of a configured credential, empty where none is said.
func (e *entry) accountOf(k *configured) string { return orElse(k.Account, e.Account) }

// keyOf finds a configured credential by its id, nil for none.
func (e *entry) keyOf(id string) *configured {
	for i := range e.keys {
		if e.keys[i].id == id {
			return &e.keys[i]
		}
	}
	return nil
}

// hideKey takes a configured key out of an answer that shows it: whoever may
// use it need not know it.
func (c *call) hideKey(h http.Header) {
	if c.with != nil {
		dialect.HideKey(h, c.with.Key)
	}
}

// redacted is a message without the secrets of the call, which the words of a
// server or of a transport may repeat.
func (c *call) redacted(message string) string {
	secrets := dialect.Secrets(c.req.Header, c.req.URL)
	if c.with != nil {
		secrets = append(secrets, c.with.Key)
	}
	for _, secret := range secrets {
		message = strings.ReplaceAll(message, secret, "[key]")
	}
	return message
}

// A redactedError says what an error says, without the key that is in it.
type redactedError struct {
	error
	says string
}

func (e *redactedError) Error() string { return e.says }
func (e *redactedError) Unwrap() error { return e.error }

// redact keeps the call's credential out of an error.
func (c *call) redact(err error) error {
	if err == nil {
		return nil
	}
	if says := c.redacted(err.Error()); says != err.Error() {
		return &redactedError{err, says}
	}
	return err
}

// KeyOf returns the built-in provider whose keys have the shape of key, empty
// where the shape tells nothing: many providers give out keys that begin with
// sk- alone. It is for telling a user of a key sent the wrong way.
func KeyOf(key string) (provider string) {
	if d := dialect.KeyOf(key); d != nil && d.BaseURL != "" {
		return d.Name
	}
	return ""
}
