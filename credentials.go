package paceline

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
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
}

// String names the credential, without its key.
func (c Credential) String() string { return "credential " + c.Name }

// Format writes what String says, whatever the verb: %#v and %x would show the
// key otherwise.
func (c Credential) Format(f fmt.State, _ rune) { fmt.Fprint(f, c.String()) }

// MarshalJSON writes the name and the account.
func (c Credential) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Name    string `json:"name,omitempty"`
		Account string `json:"account,omitempty"`
	}{c.Name, c.Account})
}

// LogValue is the name.
func (c Credential) LogValue() slog.Value { return slog.StringValue(c.Name) }

// validate says what is wrong with a credential, without saying its key.
func (c Credential) validate() error {
	switch {
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

// keyShapes are the beginnings by which a key tells whose it is, the longer
// before the shorter.
var keyShapes = []struct{ prefix, provider string }{
	{"sk-ant-", "anthropic"},
	{"sk-or-", "openrouter"},
	{"sk-proj-", "openai"},
	{"sk-svcacct-", "openai"},
	{"sk-admin-", "openai"},
	{"gsk_", "groq"},
	{"AIza", "gemini"},
	{"xai-", "xai"},
	{"pplx-", "perplexity"},
	{"nvapi-", "nvidia"},
	{"hf_", "huggingface"},
	{"csk-", "cerebras"},
	{"fw_", "fireworks"},
	{"tgp_v1_", "together"},
	{"github_pat_", "github"},
	{"ghp_", "github"},
}

// KeyOf returns the built-in provider whose keys have the shape of key, empty
// where the shape tells nothing: many providers give out keys that begin with
// sk- alone. It is for telling a user of a key sent the wrong way.
func KeyOf(key string) (provider string) {
	for _, s := range keyShapes {
		if strings.HasPrefix(key, s.prefix) {
			return s.provider
		}
	}
	return ""
}
