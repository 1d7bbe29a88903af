package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/internal/config"
)

// A fakeProxy answers what a proxy would, and keeps what it was told.
type fakeProxy struct {
	stats  string
	orders []string // PATH BODY
	refuse string
}

func (f *fakeProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/stats" {
		io.WriteString(w, f.stats)
		return
	}
	b, _ := io.ReadAll(r.Body)
	f.orders = append(f.orders, r.Method+" "+r.URL.Path+" "+string(b))
	if f.refuse != "" {
		w.WriteHeader(http.StatusBadRequest)
		json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"message": f.refuse}})
		return
	}
	io.WriteString(w, `{"ok":true}`)
}

// fake starts one, and has the commands find it.
func fake(t *testing.T, stats string) *fakeProxy {
	t.Helper()
	f := &fakeProxy{stats: stats}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	t.Setenv("PACELINE_HOME", t.TempDir())
	t.Setenv("PACELINE_CONFIG", "")
	t.Setenv("PACELINE_URL", s.URL)
	return f
}

// command runs one.
func command(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs strings.Builder
	code = run(t.Context(), args, strings.NewReader(""), &out, &errs)
	return out.String(), errs.String(), code
}

// busy is a status document with every kind of line.
func busy() string {
	now := time.Now()
	at := func(d time.Duration) string { return now.Add(d).UTC().Format(time.RFC3339Nano) }
	return `{"version":"1.2.3","started_at":"` + at(-90*time.Minute) + `","mode":"enforce","limiter":{"url":"memory","state":"ok"},"extra":1,"callers":[
	{"provider":"openai","credential":"openai#1","scope":"gpt-5","waiting":{"interactive":1,"normal":2,"background":3},"active":4,"held":1,
	 "binding":{"what":"limit","says":"15 per minute","calls":15,"per_ms":60000},"limits":{"per_minute":15,"concurrent":4,"pacing":"even"},
	 "effective":{"factor":0.7,"per_minute":10.5,"concurrent":3,"spacing_ms":5714},"sent_60s":10,
	 "buckets":[{"unit":"requests","window":"minute","limit":12,"remaining":11,"reset_at":"` + at(30*time.Second+500*time.Millisecond) + `"},{"unit":"input_tokens","remaining":5}]},
	{"provider":"groq","credential":"mine","waiting":{"interactive":0,"normal":7,"background":0},"active":0,"held":0,
	 "binding":{"what":"pause","says":"rate limited (told) until 2026-11-30T12:00:00Z"},"paused_until":"` + at(time.Hour) + `","paused_why":"rate limited","paused_source":"told",
	 "limits":{},"effective":{"factor":1,"spacing_ms":2000},"sent_60s":0},
	{"provider":"xai","account":"acme\u001b[31m","scope":"grok","waiting":{"interactive":0,"normal":0,"background":0},"active":2,"held":0,
	 "binding":{"what":"clients","says":"nothing waits"},"limits":{},"effective":{"factor":1,"concurrent":2},"sent_60s":5,
	 "buckets":[{"unit":"requests","window":"day","limit":1000}]},
	{"provider":"mistral","waiting":{"interactive":0,"normal":0,"background":0},"active":0,"held":0,
	 "binding":{"what":"clients","says":"nothing waits"},"limits":{},"effective":{"factor":1,"spacing_ms":100000},"sent_60s":0},
	{"provider":"cohere","scope":"~other","waiting":{"interactive":0,"normal":0,"background":0},"active":0,"held":0,
	 "binding":{"what":"clients","says":"nothing waits"},"limits":{},"effective":{"factor":1},"sent_60s":0}]}`
}

func TestStatus(t *testing.T) {
	fake(t, busy())
	stdout, stderr, code := command(t, "status")
	const want = `paceline 1.2.3, up 1h30m0s, mode enforce, limiter memory ok

LINE                  WAITING                              ACTIVE  HELD  LAST 60 S  BOUND BY
openai#1 gpt-5        1 interactive, 2 normal, 3 background  4       1     10         limit: 15 per minute
groq/mine             7                                    0       0     0          pause: rate limited (told) until 2026-11-30T12:00:00Z
xai/acme?[31m grok    0                                    2       0     5          clients: nothing waits
mistral               0                                    0       0     0          clients: nothing waits
cohere ~other         0                                    0       0     0          clients: nothing waits
`
	if code != 0 || stderr != "" || squeezed(stdout) != squeezed(want) {
		t.Errorf("%d %s\n%s", code, stderr, stdout)
	}
	stdout, _, code = command(t, "status", "--line")
	if code != 0 || stdout != "6 active, 13 waiting; groq/mine: rate limited (told) until 2026-11-30T12:00:00Z\n" {
		t.Errorf("%d %q", code, stdout)
	}
	// As data it is what the proxy said, also what this version does not know.
	stdout, _, code = command(t, "status", "--json")
	if code != 0 || !strings.Contains(stdout, `"extra":1`) || !json.Valid([]byte(stdout)) || !strings.HasSuffix(stdout, "}\n") {
		t.Errorf("%d %q", code, stdout)
	}
	if _, stderr, code = command(t, "status", "--json", "--line"); code != exitUsage || !strings.Contains(stderr, "give one of them") {
		t.Errorf("%d %q", code, stderr)
	}
}

// squeezed is text without the width of its columns.
func squeezed(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

// What is wrong with the shared limiter stands below it.
func TestStatusOfTheLimiter(t *testing.T) {
	fake(t, `{"version":"1","started_at":"2026-11-30T00:00:00Z","mode":"enforce","limiter":{"url":"redis://h:1","state":"away",
		"warnings":["The shared limiter is out of reach.","It forgets."]},"callers":[]}`)
	stdout, _, code := command(t, "status")
	const want = ", limiter redis://h:1 away\nlimiter: The shared limiter is out of reach.\nlimiter: It forgets.\nnothing was sent lately\n"
	if code != 0 || !strings.HasSuffix(stdout, want) {
		t.Errorf("exit %d:\n%s", code, stdout)
	}
}

// The lines of a provider with a mode of its own say which.
func TestModesOfLines(t *testing.T) {
	fake(t, strings.Replace(busy(), `"mode":"enforce"`, `"mode":"enforce","modes":{"groq":"off"}`, 1))
	for _, c := range []string{"status", "limits"} {
		out, _, code := command(t, c)
		if code != 0 || !strings.Contains(out, "\ngroq/mine (mode off)") || strings.Count(out, "(mode") != 1 {
			t.Errorf("%s: exit code %d\n%s", c, code, out)
		}
	}
}
func TestStatusOfAnIdleProxy(t *testing.T) {
	fake(t, `{"version":"1","started_at":"2026-11-30T00:00:00Z","mode":"off","limiter":{"url":"memory","state":"ok"},"callers":[]}`)
	stdout, _, code := command(t, "status")
	if code != 0 || !strings.HasSuffix(stdout, ", mode off, limiter memory ok\nnothing was sent lately\n") {
		t.Errorf("%d %q", code, stdout)
	}
	if stdout, _, _ = command(t, "status", "--line"); stdout != "0 active, 0 waiting\n" {
		t.Errorf("%q", stdout)
	}
	if stdout, _, _ = command(t, "mode"); stdout != "off\n" {
		t.Errorf("%q", stdout)
	}
	if stdout, _, _ = command(t, "mode", "--json"); stdout != `{"mode":"off"}`+"\n" {
		t.Errorf("%q", stdout)
	}
	if stdout, _, _ = command(t, "limits"); stdout != "nothing was sent lately: there is nothing to tell of limits but what paceline config show says\n" {
		t.Errorf("%q", stdout)
	}
	if stdout, _, _ = command(t, "limits", "--yaml"); stdout != "# no limits are known yet\n" {
		t.Errorf("%q", stdout)
	}
	if stdout, _, _ = command(t, "limits", "--json"); stdout != "[]\n" {
		t.Errorf("%q", stdout)
	}
}

func TestLimits(t *testing.T) {
	fake(t, busy())
	stdout, stderr, code := command(t, "limits")
	const want = `openai#1 gpt-5
  declared  15/min, 4 at once; even
  told      requests a minute: 12, 11 left, full again in 30s
  told      input tokens: 5 left
  learned   0.7 of the declared rates

groq/mine
  learned   a start every 2s

xai/acme?[31m grok
  told      requests a day: 1000
  learned   2 at once

mistral
  learned   a start every 1m40s

cohere ~other
  none      it is sent as it comes until the provider refuses
`
	if code != 0 || stderr != "" || stdout != want {
		t.Errorf("%d %s\n%s", code, stderr, stdout)
	}
	stdout, _, _ = command(t, "limits", "openai", "--json")
	if !strings.HasPrefix(stdout, `[{"provider":"openai","credential":"openai#1","scope":"gpt-5","declared":{"per_minute":15,"concurrent":4,"pacing":"even"},"told":[{"unit":"requests","window":"minute","limit":12,"remaining":11,`) ||
		!strings.HasSuffix(stdout, `"learned":{"factor":0.7}}]`+"\n") {
		t.Error(stdout)
	}
	_, stderr, code = command(t, "limits", "fireworks")
	if code != exitFailed || stderr != "paceline: nothing of \"fireworks\" was sent lately: there is nothing to tell of its limits but what paceline config show fireworks says\n" {
		t.Errorf("%d %q", code, stderr)
	}
}

// What is printed for pasting is a configuration.
func TestLimitsToPaste(t *testing.T) {
	fake(t, busy())
	stdout, _, code := command(t, "limits", "--yaml")
	const want = `providers:
  groq:
    limits:
      maxPerMinute: 30  # learned
  mistral:
    limits:
      maxPerHour: 36  # learned
  openai:
    models:
      gpt-5:
        limits:
          maxConcurrent: 4  # declared
          maxPerMinute: 12  # told
  xai:
    models:
      grok:
        limits:
          maxConcurrent: 2  # learned
          maxPerDay: 1000  # told
`
	if code != 0 || stdout != want {
		t.Errorf("%d\n%s", code, stdout)
	}
	path := filepath.Join(t.TempDir(), "paceline.yaml")
	if err := os.WriteFile(path, []byte(stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Providers[0].Limits.MaxPerMinute; got != 30 {
		t.Errorf("%d", got)
	}
}

// Windows of any length are shown and printed for pasting too, and what a
// provider needs that is not built in.
func TestLimitsOfWindows(t *testing.T) {
	fake(t, `{"version":"1","mode":"enforce","limiter":{"url":"memory","state":"ok"},"callers":[
	{"provider":"own","base_url":"http://127.0.0.1:9/v1","dialect":"openai","effective":{"factor":1},
	 "limits":{"pacing":"even","windows":[{"calls":60,"per_ms":5000,"unit":"input"},{"calls":9,"per_ms":90000,"slack_ms":-1}]}},
	{"provider":"openai","base_url":"https://api.openai.com/v1","effective":{"factor":1},"limits":{"per_minute":15}}]}`)
	stdout, _, code := command(t, "limits", "own")
	if want := "own\n  declared  60 input tokens in 5s, 9 in 1m30s; even\n"; code != 0 || stdout != want {
		t.Errorf("%d %q, want %q", code, stdout, want)
	}
	if stdout, _, _ = command(t, "limits", "--json"); !strings.Contains(stdout, `"windows":[{"calls":60,"per_ms":5000,"unit":"input"},{"calls":9,"per_ms":90000,"slack_ms":-1}]`) {
		t.Errorf("%s", stdout)
	}
	stdout, _, code = command(t, "limits", "--yaml")
	const want = `providers:
  openai:
    limits:
      maxPerMinute: 15  # declared
  own:
    baseURL: http://127.0.0.1:9/v1
    dialect: openai
    limits:
      windows:  # declared
        - {calls: 60, perMs: 5000, unit: input}
        - {calls: 9, perMs: 90000, slackMs: 0}
`
	if code != 0 || stdout != want {
		t.Errorf("%d\n%s", code, stdout)
	}
	path := filepath.Join(t.TempDir(), "paceline.yaml")
	if err := os.WriteFile(path, []byte(stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	wants := []paceline.Window{{Calls: 60, Per: 5 * time.Second, Unit: "input"}, {Calls: 9, Per: 90 * time.Second, Slack: -1}}
	for _, p := range c.Providers {
		if p.Name == "own" && !slices.Equal(p.Limits.Windows, wants) {
			t.Errorf("%+v, want %+v", p.Limits.Windows, wants)
		}
	}
}

func TestOrders(t *testing.T) {
	f := fake(t, "")
	for _, x := range []struct{ args, order, says string }{
		{"pause openai --for 10m --why lunch", `POST /control/pause {"provider":"openai","for_ms":600000,"why":"lunch"}`, "openai is paused for 10m0s; paceline resume openai ends it"},
		{"pause openai", `POST /control/pause {"provider":"openai"}`, "openai is paused; paceline resume openai ends it"},
		{"resume openai", `POST /control/resume {"provider":"openai"}`, "openai is resumed"},
		{"clear --learned openai", `POST /control/clear {"provider":"openai","what":"learned"}`, "openai: forgotten (learned)"},
		{"clear openai --budget", `POST /control/clear {"provider":"openai","what":"budget"}`, "openai: forgotten (budget)"},
		{"clear openai --all", `POST /control/clear {"provider":"openai","what":"all"}`, "openai: forgotten (all)"},
		{"mode observe", `POST /control/mode {"mode":"observe"}`, "mode observe for every provider, until the next start"},
		{"mode off groq", `POST /control/mode {"provider":"groq","mode":"off"}`, "mode off for groq, until the next start"},
	} {
		f.orders = nil
		stdout, stderr, code := command(t, strings.Fields(x.args)...)
		if code != 0 || stderr != "" || stdout != x.says+"\n" || len(f.orders) != 1 || f.orders[0] != x.order {
			t.Errorf("%s: %d %q %q %q", x.args, code, stdout, stderr, f.orders)
		}
	}
	f.orders = nil
	for args, want := range map[string]string{
		"pause":                       "paceline pause needs the name of a provider: paceline pause openai",
		"pause openai groq":           `pause takes one provider: "groq" is too much; see paceline pause --help`,
		"pause openai --for 0s":       "--for is 0s: give a longer time, such as 10m",
		"pause openai --for -1m":      "--for is -1m0s: give a longer time, such as 10m",
		"pause openai --for soon":     `--for is "soon": give a duration such as 300ms, 45s or 1m`,
		"clear openai":                "clear needs to know what: give one of --learned, --budget, --all",
		"clear openai --all --budget": "clear needs to know what: give one of --learned, --budget, --all",
		"mode observ":                 `mode "observ" is not known (did you mean observe?): it is enforce, observe or off`,
		"mode off groq xai":           `mode takes a mode and a provider at most: "xai" is too much; see paceline mode --help`,
		"mode off --json":             "--json is for showing the mode: leave it out",
		"limits --yaml --json":        "--json and --yaml are two ways to print one thing: give one of them",
	} {
		stdout, stderr, code := command(t, strings.Fields(args)...)
		if code != exitUsage || stdout != "" || stderr != "paceline: "+want+"\n" || len(f.orders) != 0 {
			t.Errorf("%s: %d %q\n got %swant paceline: %s", args, code, stdout, stderr, want)
		}
	}
	f.refuse = `there is no provider "opnai": there are openai`
	_, stderr, code := command(t, "resume", "opnai")
	if code != exitFailed || stderr != "paceline: the proxy refuses: there is no provider \"opnai\": there are openai\n" {
		t.Errorf("%d %q", code, stderr)
	}
}

// Without a proxy every command says what to type, and a prompt is left alone.
func TestNoProxy(t *testing.T) {
	t.Setenv("PACELINE_HOME", t.TempDir())
	t.Setenv("PACELINE_URL", "")
	t.Setenv("PACELINE_PORT", "")
	for _, args := range []string{"status", "status --json", "limits", "pause openai", "resume openai", "clear --all openai", "mode", "mode off"} {
		stdout, stderr, code := command(t, strings.Fields(args)...)
		if code != exitFailed || stdout != "" || stderr != "paceline: no proxy runs for this home; start one with paceline serve\n" {
			t.Errorf("%s: %d %q %q", args, code, stdout, stderr)
		}
	}
	if stdout, stderr, code := command(t, "status", "--line"); code != 0 || stdout != "" || stderr != "" {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
	fake(t, "<html>a router's page</html>")
	for _, args := range []string{"status", "limits", "mode"} {
		if _, stderr, code := command(t, strings.Fields(args)...); code != exitFailed || !strings.Contains(stderr, "is no paceline, or another version of it") {
			t.Errorf("%s: %d %q", args, code, stderr)
		}
	}
}
