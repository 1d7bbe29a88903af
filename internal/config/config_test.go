package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/paceline-proxy/paceline"
)

var update = flag.Bool("update", false, "write what is wanted anew: testdata/bad/*.want and docs/configuration.md")

// environment is what the files of testdata find.
func environment(name string) (string, bool) {
	v, ok := map[string]string{
		"OPENFERENCE_API_KEY": "of-key",
		"GROQ_API_KEY":        "groq-key",
		"CI_TOKEN":            "pcl_ci-ci-ci-ci-ci-ci",
		"LIMITER_PASSWORD":    "limiter-password",
		"PER_DAY":             "10k",
		"EMPTY":               "",
		"WORD":                "SECRET-WORD",
		"TOKEN":               "pcl_SECRET-SECRET-12",
	}[name]
	return v, ok
}

func mustLoad(t *testing.T, text string) *Config {
	t.Helper()
	c, err := load("paceline.yaml", []byte(text), environment, false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func readAll(t *testing.T, pattern string) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatal(pattern, err)
	}
	files := make(map[string][]byte)
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = b
	}
	return files
}

// P-164, P-165: every key is read, into what a Transport takes.
func TestEveryKeyIsRead(t *testing.T) {
	b, err := os.ReadFile("testdata/good/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := mustLoad(t, string(b))
	want := Default()
	want.File, want.Listens, want.Tokens = "paceline.yaml", true, []Token{}
	want.Clients = map[string]Client{"night": {"background", 4 * time.Hour, 8, "wait"}}
	want.Providers = []Provider{{
		Provider: paceline.Provider{
			Name: "openference", BaseURL: "https://api.openference.com/v1", Dialect: "openai", Scope: "provider",
			Credentials: []paceline.Credential{{Key: "of-key"}},
			Quota:       "fail",
			Limits: paceline.Limits{
				MaxPerMinute: 15, MaxPerSecond: 5, MaxPerHour: 800, MaxConcurrent: 4, Windows: []paceline.Window{},
				Pacing: "even", WindowSlack: 1500 * time.Millisecond, AbortHold: 30 * time.Second,
				Adaptive: paceline.Adaptive{Decrease: 0.7, Min: 0.2, Increase: 0.1, Cooldown: 5 * time.Minute, Gap: 5 * time.Second},
			},
			Retry:    paceline.Retry{Max: 4, Max5xx: 2, Base: time.Second, MaxWait: time.Minute, Overload: 2 * time.Minute},
			Timeouts: paceline.Timeouts{Connect: 10 * time.Second, Header: -1, Idle: 5 * time.Minute, Total: 30 * time.Minute},
			Models:   map[string]paceline.Limits{"gpt-oss-*": {MaxPerMinute: 5}},
		},
		apiKey: "of-key",
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !reflect.DeepEqual(got.Providers, want.Providers) {
		t.Errorf("got  %#v\nwant %#v", got.Providers, want.Providers)
	}
}

// The other forms of values: P-164, P-165, and observe.
func TestFormsOfValues(t *testing.T) {
	b, err := os.ReadFile("testdata/good/everything.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := mustLoad(t, string(b))
	p := c.Providers[0]
	for _, x := range []struct{ what, got, want any }{
		{"listen", c.Listen, []string{"localhost:9000", "0.0.0.0:9001"}},
		{"mode", c.Mode, Off},
		{"tokens", c.Tokens, []Token{{"ci", "pcl_ci-ci-ci-ci-ci-ci", "background", []string{"mine", "openai"}}, {Name: "me", Value: "pcl_0123456789abcdef"}}},
		{"clientTimeoutMs", c.ClientTimeout, 10 * time.Minute},
		{"maxReplayBytes", c.MaxReplayBytes, int64(64 << 20)},
		{"queue", c.Queue, Queue{0, 20000, 3 << 29}},
		{"idleExitMs", c.IdleExit, time.Duration(0)},
		{"upstream", c.Upstream.Proxy, "http://proxy.example.com:3128"},
		{"budget", c.Budget, Budget{Enable: true}},
		{"limiter", c.Limiter, Default().Limiter},
		{"names", c.Providers[1].Name, "openai"},
		{"provider's mode", p.Mode, Observe},
		{"provider's upstream", p.Upstream.Proxy, "none"},
		{"heartbeat", p.StreamHeartbeat, 15 * time.Second},
		{"credentials", p.Credentials[0].Name + p.Credentials[0].Key + p.Credentials[0].Account + p.Credentials[1].Key, "agroq-keyacmeliteral"},
		{"limits", p.Limits, paceline.Limits{
			MaxPerDay: 10000, Pacing: "burst", SafetyMargin: 0.1, WindowSlack: -1, AbortHold: -1, Adaptive: paceline.Adaptive{Min: 1},
			MaxTokensPerMinute: 6000, MaxTokensPerDay: 500000, MaxInputTokensPerMinute: 5000, MaxOutputTokensPerMinute: 800,
			Windows: []paceline.Window{
				{Calls: 100, Per: 10 * time.Minute, Unit: "requests", Slack: -1}, {Calls: 1000, Per: 5 * time.Hour},
				{Calls: 2000000, Per: 5 * time.Hour, Unit: "input"},
			},
		}},
		{"retry", p.Retry, paceline.Retry{Max: -1, Max5xx: -1, MaxWait: -1, WaitForCapacity: true}},
		{"timeouts", p.Timeouts, paceline.Timeouts{Connect: -1, Header: 90 * time.Second, Idle: -1, Total: 2 * time.Hour}},
		{"models", p.Models, map[string]paceline.Limits{"[ab]*": {MaxPerSecond: 1, MaxConcurrent: 2, MaxTokensPerMinute: 5}, "plain": {}}},
	} {
		if !reflect.DeepEqual(x.got, x.want) {
			t.Errorf("%s: got %#v\nwant %#v", x.what, x.got, x.want)
		}
	}
}

// What short names, numbers with letters and anchors mean.
func TestShortNames(t *testing.T) {
	files := readAll(t, "testdata/good/*.yaml")
	c := mustLoad(t, string(files["testdata/good/short.yaml"]))
	if l := c.Providers[0].Limits; l.MaxPerMinute != 30 || l.MaxPerDay != 14400 {
		t.Errorf("%+v", l)
	}
	if l := c.Providers[1].Limits; l.MaxPerMinute != 10000 || l.MaxPerSecond != 200 || l.MaxPerHour != 1000000 || !l.Adaptive.Off {
		t.Errorf("%+v", l)
	}
	c = mustLoad(t, string(files["testdata/good/anchors.yaml"]))
	if a, b := c.Providers[1].Limits, c.Providers[2].Limits; a.MaxPerMinute != 10 || b.MaxPerMinute != 20 || b.Pacing != "burst" {
		t.Errorf("%+v %+v", a, b)
	}
}

// The schema takes what is good, and what it refuses is bad.
func TestSchema(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("paceline.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := compiler.Compile("paceline.json")
	if err != nil {
		t.Fatal(err)
	}
	valid := func(b []byte) error {
		b, err := yaml.YAMLToJSON(b)
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		return s.Validate(v)
	}
	for name, b := range readAll(t, "testdata/good/*.yaml") {
		if err := valid(b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []string{
		"nope: 1", "limiter: {nope: 1}", "clients: {a: {nope: 1}}", "tokens: [{nope: 1}]",
		"providers: {a: {nope: 1}}", "providers: {a: {limits: {nope: 1}}}", "providers: {a: {limits: {adaptive: {nope: 1}}}}",
		"providers: {a: {limits: {windows: [{nope: 1}]}}}", "providers: {a: {models: {b: {nope: 1}}}}",
		"providers: {a: {limits: {rpm: 1, maxPerMinute: 1}}}", "providers: {a: {limits: {rpm: 1.5}}}", "providers: {a: {limits: {rpm: 0}}}",
		"mode: enforced", "background: {share: 0}", "clientTimeoutMs: soon", "providers: [a]", "queue: 1",
	} {
		if valid([]byte(bad)) == nil {
			t.Errorf("the schema takes %s", bad)
		}
		if _, err := load("f", []byte(bad), environment, false); err == nil {
			t.Errorf("it is read: %s", bad)
		}
	}
}

// Each file of testdata/bad has all its faults said at once: P-164, P-165.
func TestFaults(t *testing.T) {
	for name, b := range readAll(t, "testdata/bad/*.yaml") {
		_, err := load("paceline.yaml", b, environment, false)
		if err == nil {
			t.Errorf("%s is read", name)
			continue
		}
		got := err.Error() + "\n"
		want := strings.TrimSuffix(name, ".yaml") + ".want"
		if *update {
			if err := os.WriteFile(want, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		b, err := os.ReadFile(want)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(b) {
			t.Errorf("%s\n got\n%s\nwant\n%s", name, got, b)
		}
		if strings.Contains(got, "SECRET") {
			t.Errorf("%s: a secret is shown:\n%s", name, got)
		}
	}
}

// P-166: tiers and fallback are read; sending by them is not supported yet,
// and a file that asks for it is told so.
func TestFallbackIsRead(t *testing.T) {
	const text = `
providers: {openference: {}, groq: {}}
tiers:
  small: [openference/qwen, groq/llama]
fallback: {from: openference, to: groq, models: {qwen: llama}}
`
	c := Default()
	r := newReader("f", environment)
	table(c).read(r, r.parse([]byte(text)), "")
	if want := map[string][]string{"small": {"openference/qwen", "groq/llama"}}; !reflect.DeepEqual(c.Tiers, want) {
		t.Errorf("tiers %v", c.Tiers)
	}
	if want := (Fallback{"openference", "groq", map[string]string{"qwen": "llama"}}); !reflect.DeepEqual(c.Fallback, want) {
		t.Errorf("fallback %v", c.Fallback)
	}
	_, err := load("f", []byte(text), environment, false)
	const want = `f:3:1: tiers: is not supported yet; leave it out, and name the provider in the path
f:5:1: fallback: is not supported yet; leave it out: refusals are handed back`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

// What is shown can be read again, and says the same.
func TestShownIsRead(t *testing.T) {
	for name, b := range readAll(t, "testdata/good/*.yaml") {
		c, err := load("paceline.yaml", b, environment, false)
		if err != nil {
			t.Fatal(name, err)
		}
		shownAgain(t, name, c)
	}
	shownAgain(t, "default", Default())
}

func shownAgain(t *testing.T, name string, c *Config) {
	t.Helper()
	c, err := c.Effective()
	if err != nil {
		t.Fatal(name, err)
	}
	// What is hidden is no token, and one key twice.
	c.Tokens = nil
	for i := range c.Providers {
		c.Providers[i].Credentials = nil
	}
	c.Listen = []string{"localhost:0"}
	b, err := c.YAML()
	if err != nil {
		t.Fatal(name, err)
	}
	again, err := load("paceline.yaml", b, environment, false)
	if err != nil {
		t.Fatalf("%s is shown as\n%s\n%v", name, b, err)
	}
	if again, err = again.Effective(); err != nil {
		t.Fatal(err)
	}
	shown, err := again.YAML()
	if err != nil || !bytes.Equal(b, shown) {
		t.Errorf("%s is shown as\n%s\nand then as\n%s%v", name, b, shown, err)
	}
	asJSON, err := c.JSON()
	if err != nil || !json.Valid(asJSON) {
		t.Errorf("%s: %v in %s", name, err, asJSON)
	}
}

func TestSecretsAreHidden(t *testing.T) {
	c := mustLoad(t, `
tokens: [{name: a, value: "${TOKEN}"}]
upstream: {proxy: "http://me:SECRET@proxy.example.com"}
providers:
  groq: {apiKey: "${WORD}"}
  openai: {credentials: [{apiKey: SECRET-1}, {apiKey: SECRET-2}]}`)
	c, err := c.Effective()
	if err != nil {
		t.Fatal(err)
	}
	y, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	j, err := c.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(y, []byte("SECRET")) || bytes.Contains(j, []byte("SECRET")) || !bytes.Contains(y, []byte("apiKey: (hidden)")) {
		t.Errorf("%s\n%s", y, j)
	}
}

// what a person sees of a wait is one section, what is waited for another,
// and neither changes the other.: their defaults.
func TestWaitAndBudget(t *testing.T) {
	read := func(text string) *Config {
		c := Default()
		r := newReader("f", environment)
		table(c).read(r, r.parse([]byte(text)), "")
		if len(r.faults) > 0 {
			t.Fatal(r.faults)
		}
		return c
	}
	usual := read("{}")
	if w := usual.Wait; !usual.Budget.Enable || usual.Budget.LogOnly || w != (Wait{Show: true, Delay: time.Second, Interval: 100 * time.Millisecond, Timeout: 10 * time.Second}) {
		t.Errorf("%+v, %+v", usual.Budget, w)
	}
	if c := read("wait: {show: false, delaySecs: 2, intervalMs: 50, timeoutSecs: 30}"); c.Budget != usual.Budget ||
		c.Wait != (Wait{Delay: 2 * time.Second, Interval: 50 * time.Millisecond, Timeout: 30 * time.Second}) {
		t.Errorf("%+v, %+v", c.Budget, c.Wait)
	}
	if c := read("budget: {enable: false}"); c.Wait != usual.Wait || c.Budget.Enable {
		t.Errorf("%+v, %+v", c.Budget, c.Wait)
	}
}
