package clients

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/stub"
)

// An agent is a coding agent that runs in a terminal, over `paceline exec`.
type agent struct {
	name string
	args []string
	env  []string
	path string // where its requests go
}

var agents = []agent{
	{
		name: "claude",
		args: []string{"-p", "say hi"},
		env: []string{
			"ANTHROPIC_API_KEY=" + anthropicKey,
			"DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		},
		path: "/v1/messages",
	},
	{
		name: "codex",
		args: []string{
			"exec", "--skip-git-repo-check", "--sandbox", "read-only",
			"-c", "check_for_update_on_startup=false", "-c", "analytics.enabled=false", "say hi",
		},
		env:  []string{"CODEX_API_KEY=" + openAIKey},
		path: "/v1/responses",
	},
}

var agentPackages = packages{folder: "agents"}

// TestAgents has each agent do its task through what would make it fail: waits
// that it would not honour, and queues longer than it waits. It takes as long
// as the longest patience there is, 300 s, and installs 900 MB, so `make test`
// leaves it out.
func TestAgents(t *testing.T) {
	if os.Getenv("PACELINE_AGENTS") == "" {
		t.Skip("make test-agents runs it")
	}
	needNode(t)
	installed(t, &agentPackages)
	refused := func(wait time.Duration) []stub.Step { return []stub.Step{refusal(wait, stub.RetryAfterSeconds)} }
	for _, scenario := range []struct {
		name     string
		settings settings
		script   []stub.Step
		wait     time.Duration // between the first two requests at the provider
		filler   bool          // somebody else takes the window first
	}{
		{name: "plain"},
		{name: "429 with 3 s", script: refused(3 * time.Second), wait: 3 * time.Second},
		{name: "429 with 90 s", script: refused(90 * time.Second), wait: 90 * time.Second},
		{
			name: "a queue longer than a patience of 5 s", filler: true, wait: 12 * time.Second,
			settings: settings{"clientTimeoutMs: 5000", "limits: {windowSlackMs: 500, pacing: burst, windows: [{calls: 1, perMs: 12000}]}"},
		},
		{
			name: "a queue longer than its own patience", filler: true, wait: 310 * time.Second,
			settings: settings{"", "limits: {windowSlackMs: 500, pacing: burst, windows: [{calls: 1, perMs: 310000}]}"},
		},
	} {
		for _, a := range agents {
			t.Run(a.name+"/"+scenario.name, func(t *testing.T) {
				t.Parallel()
				u := newUpstream(t, stub.Config{Script: scenario.script})
				p := start(t, u, scenario.settings)
				want := 1
				if scenario.filler {
					want = 2
					run, api := openAIGo, "chat"
					if a.name == "claude" {
						run, api = anthropicGo, "messages"
					}
					if got := inProcess(run)(t, job{Base: p.url, Asks: []ask{{API: api, Model: stub.Model, Prompt: "first"}}})()[0]; got.Error != "" {
						t.Fatal(got.Error)
					}
				}
				said := p.exec(t, a)
				if !strings.Contains(said, generation(want)) {
					t.Errorf("it said %q, want generation %d", said, want)
				}
				seen := u.exchanges()
				var starts []time.Time
				for i, x := range seen {
					if x.path == a.path || scenario.filler && i == 0 {
						starts = append(starts, x.began)
					}
				}
				if wants := want + len(scenario.script); len(starts) != wants {
					t.Errorf("%d generation requests reached the provider, want %d", len(starts), wants)
				}
				if scenario.wait > 0 && len(starts) > 1 && starts[1].Sub(starts[0]) < scenario.wait {
					t.Errorf("%v between two requests, want %v", starts[1].Sub(starts[0]), scenario.wait)
				}
				if t.Failed() {
					for _, x := range seen {
						t.Logf("%v %s %.200s %v", x.began, x.path, x.asked, x.header)
					}
				}
				if c := u.stub.Counts(); c.Admitted+len(scenario.script) < want || c.Repeated > 0 || c.Early > 0 {
					t.Errorf("%+v", c)
				}
			})
		}
	}
}

// exec runs an agent as `paceline exec` does, in an empty folder, and returns
// what it printed.
func (p *proxy) exec(t *testing.T, a agent) string {
	t.Helper()
	program, err := filepath.Abs(filepath.Join(agentPackages.folder, "node_modules", ".bin", a.name))
	if err != nil {
		t.Fatal(err)
	}
	c := p.command(append([]string{"exec", "--require", "--", program}, a.args...)...)
	c.Dir = t.TempDir()
	c.Env = append(c.Env, a.env...)
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s", a.name, err, out, exitText(err))
	}
	return string(out)
}
