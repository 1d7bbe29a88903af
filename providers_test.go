package paceline_test

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/stub"
)

var update = flag.Bool("update", false, "write the documents that are made from code")

// providersTable is docs/providers.md as the code would have it.
func providersTable() string {
	var b strings.Builder
	b.WriteString("# Built-in providers\n\n" +
		"A request to one of these addresses belongs to the entry, and a declared entry of\n" +
		"the same name starts from it. An entry without limits lives on what its provider\n" +
		"tells and learns the rest: plans differ. Made from code: `go test . -run Providers -update`.\n\n" +
		"| name | base URL | read as | limits |\n|---|---|---|---|\n")
	for _, p := range paceline.BuiltIn() {
		var limits []string
		for _, l := range []struct {
			n    int
			what string
		}{{p.MaxPerSecond, "a second"}, {p.MaxPerMinute, "a minute"}, {p.MaxPerHour, "an hour"}, {p.MaxPerDay, "a day"}, {p.MaxConcurrent, "at once"}} {
			if l.n > 0 {
				limits = append(limits, fmt.Sprintf("%d %s", l.n, l.what))
			}
		}
		if limits == nil {
			limits = []string{"learned"}
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", p.Name, p.BaseURL, p.Dialect, strings.Join(limits, ", "))
	}
	return b.String()
}

// The table of the built-in providers in the docs is that of the code.
// the tries and waits of entries that say nothing of them.
func TestRetryDefaults(t *testing.T) {
	for name, want := range map[string]paceline.Retry{
		"openai":      {Max: 6, Max5xx: 2, Base: 2 * time.Second, MaxWait: 10 * time.Minute, Overload: 2 * time.Minute},
		"openference": {Max: 4, Max5xx: 2, Base: time.Second, MaxWait: time.Minute, Overload: 2 * time.Minute},
	} {
		if p, err := (paceline.Provider{Name: name}).Complete(); err != nil || p.Retry != want {
			t.Errorf("%s: %+v, %v; want %+v", name, p.Retry, err, want)
		}
	}
}

func TestProvidersTable(t *testing.T) {
	const file = "docs/providers.md"
	want := providersTable()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is not what the code says (%v): go test . -run Providers -update", file, err)
	}
}

// Every built-in entry is whole, has a name and an address of its own, and gets
// the requests to it; a declared entry of its name goes before it.
func TestBuiltInProviders(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range paceline.BuiltIn() {
		u, err := url.Parse(p.BaseURL)
		if err != nil || u.Host == "" || seen[p.Name] || seen[u.Host] {
			t.Errorf("%s at %s: %v", p.Name, p.BaseURL, err)
		}
		seen[p.Name], seen[u.Host] = true, true
		r := newRig(t, stub.Config{}, paceline.Provider{})
		res, err := r.RoundTrip(request(t.Context(), "POST", strings.TrimSuffix(p.BaseURL, "/")+"/chat/completions", "{}"))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if rec := r.logged()[0]; rec.Provider != p.Name {
			t.Errorf("%s belongs to %s, want %s", p.BaseURL, rec.Provider, p.Name)
		}
		mine := paceline.Provider{Name: p.Name, Limits: paceline.Limits{MaxPerDay: 7}}
		r = newRig(t, stub.Config{}, paceline.Provider{})
		r.Providers = []paceline.Provider{mine}
		if res, err = r.RoundTrip(request(t.Context(), "POST", p.BaseURL+"/chat/completions", "{}")); err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if s := r.Status()[0]; s.Provider != p.Name || s.Limits.PerDay != 7 || s.Limits.PerMinute != p.MaxPerMinute {
			t.Errorf("%+v; want that of the declared entry, on top of the built-in one", s)
		}
	}
	if len(seen) < 30 {
		t.Errorf("only %d names and hosts", len(seen))
	}
}

// A URL belongs to the entry whose base it begins with, segment by segment,
// whatever its port says and in whatever case its host is.
func TestEntryOfURL(t *testing.T) {
	for u, want := range map[string]string{
		"https://api.groq.com/openai/v1/chat/completions":     "groq",
		"https://API.groq.com:443/openai/v1/chat/completions": "groq",
		"https://api.groq.com/openai/v1":                      "groq",
		"https://api.groq.com/openai/v11/chat/completions":    "groq",
		"https://api.groq.com:8443/openai/v1/x":               "groq",
		"https://api.openai.com/other/x":                      "openai",
		"http://provider.test:80/v1/x":                        "test",
		"http://provider.test/v1x":                            "provider.test",
		"https://provider.test/v1/x":                          "provider.test",
	} {
		r := newRig(t, stub.Config{}, paceline.Provider{})
		res, err := r.RoundTrip(request(t.Context(), "POST", u, "{}"))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if rec := r.logged()[0]; rec.Provider != want {
			t.Errorf("%s belongs to %s, want %s", u, rec.Provider, want)
		}
	}
}
