package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/stub"
)

// asking asks for one answer as programs of a user do: by the environment.
const asking = `import os, urllib.request
r = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", b'{"model":"m","messages":[]}',
	{"Content-Type": "application/json", "Authorization": "Bearer sk-test"})
print(urllib.request.urlopen(r).status)`

func python(t *testing.T) string {
	t.Helper()
	p, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	return p
}

// P-23: commands that begin at once start one proxy, and none beside one that
// runs.
func TestAutostart(t *testing.T) {
	up, meter := provider(t, stub.Config{})
	b := newBox(t)
	b.configure(up, fmt.Sprintf(one, ""))
	program := python(t)
	check := func() {
		t.Helper()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if out, said, code := b.run("exec", "--require", "--", program, "-c", asking); code != 0 || out != "200\n" || said != "" {
					t.Errorf("exit code %d: %s%s", code, out, said)
				}
			})
		}
		wg.Wait()
	}
	check()
	s, live := b.Live(t.Context())
	if !live || !s.Autostarted {
		t.Fatalf("afterwards server.json is %+v, live %v", s, live)
	}
	check()
	if again, _ := b.Live(t.Context()); again.PID != s.PID {
		t.Errorf("another proxy runs: %+v, then %+v", s, again)
	}
	if n := meter.Counts(); n.Admitted != 8 {
		t.Errorf("the provider has seen %+v", n)
	}
	log, err := os.ReadFile(b.ServeLog())
	if err != nil || strings.Count(string(log), "msg=serving") != 1 {
		t.Errorf("its log says: %s", log)
	}
}

// It leaves when it is idle, and not while a command runs; when it dies, the
// command brings it back at its port.
func TestAutostartedLife(t *testing.T) {
	up, _ := provider(t, stub.Config{})
	b := newBox(t)
	b.configure(up, "idleExitMs: 200\n"+fmt.Sprintf(one, ""))
	c := b.command("exec", "--", "sh", "-c", "echo up; read line")
	var out lines
	c.Stdout = &out
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return out.String() == "up\n" })
	first, _ := b.Recorded()
	if err := kill(first.PID); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { s, live := b.Live(t.Context()); return live && s.PID != first.PID })
	if s, _ := b.Recorded(); s.Port != first.Port {
		t.Errorf("it was at %d and is at %d", first.Port, s.Port)
	}
	// Longer than idleExitMs: the command still runs.
	time.Sleep(500 * time.Millisecond)
	if _, live := b.Live(t.Context()); !live {
		t.Error("it has left while a command ran")
	}
	in.Close()
	_ = c.Wait()
	await(t, func() bool { _, err := os.Stat(b.ServerFile()); return err != nil })
}

// Whatever a client is called, its requests come through, and are counted.
func TestExecNames(t *testing.T) {
	up, _ := provider(t, stub.Config{})
	b := newBox(t)
	b.configure(up, fmt.Sprintf(one, ""))
	b.serve()
	program := python(t)
	for _, name := range []string{"a/b", "a=b", "a,b", "100%", ".."} {
		if out, said, code := b.run("exec", "--as", name, "--require", "--", program, "-c", asking); code != 0 || out != "200\n" || said != "" {
			t.Errorf("%q: exit code %d: %s%s", name, code, out, said)
		}
	}
	inner := []string{"exec", "--require", "--", "sh", "-c", `paceline exec --require -- "$@" && ! paceline exec --require -- true`, "sh", program, "-c", asking}
	if out, said, code := b.run(inner...); code != 0 || out != "200\n" || strings.Count(said, "no request") != 1 || !strings.Contains(said, "no request of true") {
		t.Errorf("one inside another: exit code %d: %s%s", code, out, said)
	}
	if _, said, code := b.run("exec", "--as", "a\nb", "--", "true"); code != 2 || !strings.Contains(said, "without control characters") {
		t.Errorf("a name of two lines: exit code %d, %s", code, said)
	}
}

func TestExecCode(t *testing.T) {
	b := newBox(t)
	b.serve("--port", "0")
	for _, c := range []struct {
		args []string
		code int
		said string
	}{
		{[]string{"--", "sh", "-c", "exit 7"}, 7, "no request of sh came through"},
		{[]string{"sh", "-c", "exit 0", "--help"}, 0, "no request of sh came through"},
		{[]string{"--require", "--", "true"}, 4, "no request of true came through: it had none to send, or it does not read OPENAI_BASE_URL"},
		{[]string{"--", "sh", "-c", "kill -TERM $$"}, 143, "no request"},
		{[]string{"--", "no-such-command"}, 127, "no-such-command"},
		{[]string{"--", b.ServerFile()}, 126, "permission denied"},
	} {
		_, said, code := b.run(append([]string{"exec"}, c.args...)...)
		if code != c.code || !strings.Contains(said, c.said) {
			t.Errorf("exec %v: exit code %d, %q; want %d, %q", c.args, code, said, c.code, c.said)
		}
	}
	// The user's own variables win, and it is said.
	b.env = append(b.env, "OPENAI_BASE_URL=http://192.0.2.1/v1")
	out, said, _ := b.run("exec", "--", "sh", "-c", "echo $OPENAI_BASE_URL")
	if out != "http://192.0.2.1/v1\n" || !strings.Contains(said, "OPENAI_BASE_URL was set already, to http://192.0.2.1/v1") {
		t.Errorf("%s%s", out, said)
	}
}

// Input, output and signals are the command's own.
func TestExecPassesThrough(t *testing.T) {
	b := newBox(t)
	b.serve("--port", "0")
	c := b.command("exec", "--", "sh", "-c", `trap 'echo caught; exit 5' TERM; cat; while :; do sleep 0.05; done`)
	c.Stdin = strings.NewReader("typed\n")
	var out lines
	c.Stdout = &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return out.String() == "typed\n" })
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); c.ProcessState.ExitCode() != 5 || out.String() != "typed\ncaught\n" {
		t.Errorf("it ends with %v after %q", err, out.String())
	}
}

func TestPlanFor(t *testing.T) {
	env := map[string]string{"NO_PROXY": "example.com", "ANTHROPIC_BASE_URL": "http://elsewhere"}
	getenv := func(name string) string { return env[name] }
	base := caller{name: "night run", priority: "background", mark: "exec-1", token: "pcl_x"}.base("http://127.0.0.1:8790")
	const wantBase = "http://127.0.0.1:8790/~pcl_x/as/night%20run,priority=background,purpose=exec-1"
	if base != wantBase {
		t.Errorf("the base URL is %s", base)
	}
	has := func(p plan, name, value string) {
		t.Helper()
		if !slices.Contains(p.Set, variable{name, value}) {
			t.Errorf("%s is not %s: %v", name, value, p.Set)
		}
	}
	p := planFor(toolOf("/usr/bin/claude"), base, getenv)
	has(p, "OPENAI_BASE_URL", wantBase+"/v1")
	has(p, "OPENAI_API_BASE", wantBase+"/v1")
	has(p, "ANTHROPIC_API_BASE", wantBase)
	has(p, "GOOGLE_GEMINI_BASE_URL", wantBase+"/gemini")
	has(p, "ENABLE_TOOL_SEARCH", "true")
	has(p, "CLAUDE_CODE_GATEWAY_HINT_HEADERS", "1")
	has(p, "NO_PROXY", "example.com,localhost,127.0.0.1,::1")
	if len(p.Kept) != 1 || p.Kept[0] != (variable{"ANTHROPIC_BASE_URL", "http://elsewhere"}) {
		t.Errorf("kept: %v", p.Kept)
	}
	has(p, "PACELINE_ENV", wantBase)
	p = planFor(toolOf("codex"), "http://127.0.0.1:1", getenv)
	if want := []string{"-c", `openai_base_url="http://127.0.0.1:1/v1"`}; !slices.Equal(p.Args, want) {
		t.Errorf("codex gets %q", p.Args)
	}
	if got := planFor(toolOf("sh"), "b", getenv); len(got.Args) > 0 || got.Note != "" {
		t.Errorf("a command that is not known: %+v", got)
	}
}

func TestExplain(t *testing.T) {
	b := newBox(t)
	out, said, code := b.run("exec", "--explain", "--as", "me", "codex")
	if code != 0 || !strings.Contains(out, `runs  codex`) || !strings.Contains(out, `openai_base_url="http://localhost:8790/as/me/v1"`) {
		t.Errorf("exit code %d: %s%s", code, out, said)
	}
	if _, err := os.Stat(b.ServerFile()); err == nil {
		t.Error("it has started a proxy")
	}
}

// What env prints, a shell understands.
func TestEnv(t *testing.T) {
	b := newBox(t)
	p := b.serve("--port", "0")
	out, said, code := b.run("env", "--as", "it's me")
	if code != 0 {
		t.Fatal(said)
	}
	c := exec.Command("sh", "-c", out+"\necho $OPENAI_BASE_URL $NO_PROXY")
	got, err := c.CombinedOutput()
	if want := p.URL() + "/as/it%27s%20me/v1 localhost,127.0.0.1,::1\n"; err != nil || string(got) != want {
		t.Errorf("the shell says %q, %v; want %q", got, err, want)
	}
	var quoted bytes.Buffer
	if err := printEnv(&quoted, "sh", []variable{{"A", "it's"}}); err != nil || quoted.String() != `export A='it'\''s'`+"\n" {
		t.Errorf("quoted for sh: %s", &quoted)
	}
}

// What env has set, another env or an exec sets anew; what the user has set
// stays.
func TestEnvAgain(t *testing.T) {
	b := newBox(t)
	p := b.serve("--port", "0")
	p.stop(t, syscall.SIGTERM)
	now := b.serve("--port", "0")
	b.env = append(b.env, "OPENAI_BASE_URL="+p.URL()+"/as/old/v1", "PACELINE_ENV="+p.URL()+"/as/old", "GROQ_BASE_URL=http://192.0.2.1")
	again, said, code := b.run("env")
	if code != 0 || !strings.Contains(again, "OPENAI_BASE_URL='"+now.URL()+"/v1'") || strings.Contains(again, "GROQ_BASE_URL") ||
		said != "paceline: GROQ_BASE_URL is http://192.0.2.1 and stays so; unset it to go through the proxy\n" {
		t.Errorf("again: exit code %d\n%s%s", code, again, said)
	}
	out, said, _ := b.run("exec", "--as", "me", "--", "sh", "-c", "echo $OPENAI_BASE_URL")
	if !strings.HasPrefix(out, now.URL()+"/as/me,purpose=exec-") || strings.Contains(said, "OPENAI_BASE_URL was set already") {
		t.Errorf("exec: %s%s", out, said)
	}
}

func TestCheckVariables(t *testing.T) {
	const base = "http://127.0.0.1:8790"
	for _, c := range []struct{ name, value, want string }{
		{"OPENAI_BASE_URL", base + "/v1", ""},
		{"OPENAI_BASE_URL", "http://localhost:8790/as/x/v1/", ""},
		{"OPENAI_BASE_URL", base + "/v1/v1", "doubled"},
		{"OPENAI_BASE_URL", base, "expect /v1"},
		{"OPENAI_BASE_URL", "https://api.openai.com/v1", "do not come to the proxy"},
		{"OPENAI_BASE_URL", "localhost", "no URL"},
		{"ANTHROPIC_BASE_URL", base, ""},
		{"ANTHROPIC_BASE_URL", base + "/v1", "add /v1 themselves"},
		{"HTTP_PROXY", "http://proxy.example:3128", "NO_PROXY leaves the loopback out"},
	} {
		got := checkVariables(func(name string) string {
			if name == c.name {
				return c.value
			}
			return ""
		}, base)
		if len(got) != 1 || (got[0].Status == "ok") != (c.want == "") || !strings.Contains(got[0].Says, c.want) {
			t.Errorf("%s=%s: %+v, want %q", c.name, c.value, got, c.want)
		}
	}
	env := map[string]string{"HTTP_PROXY": "http://proxy.example:3128", "NO_PROXY": "localhost,127.0.0.1,::1"}
	if got := checkVariables(func(name string) string { return env[name] }, base); got[0].Status != "ok" {
		t.Errorf("with NO_PROXY: %+v", got)
	}
}

// A proxy that only passes on answers is no second one.
func TestDoctorSeesNoDraining(t *testing.T) {
	up, meter := provider(t, stub.Config{Service: 10 * time.Second})
	b := newBox(t)
	b.configure(up, fmt.Sprintf(one, ""))
	old := b.serve()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go chat(ctx, old.URL(), prompt(1))
	await(t, func() bool { return meter.Counts().PeakLive == 1 })
	b.serve("--replace")
	out, _, _ := b.run("doctor")
	if strings.Contains(out, fmt.Sprintf("process %d", old.PID)) || old.Dead() {
		t.Errorf("process %d is draining:\n%s", old.PID, out)
	}
}

func TestDoctor(t *testing.T) {
	var status atomic.Int32
	status.Store(http.StatusUnauthorized)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(status.Load()))
		fmt.Fprint(w, `{"error":{"message":"no"}}`)
	}))
	defer up.Close()
	b := newBox(t)
	if out, _, code := b.run("doctor"); code != 1 || !strings.Contains(out, "no proxy runs for this home; start one with paceline serve") {
		t.Errorf("without a proxy: exit code %d\n%s", code, out)
	}
	b.configure(up, fmt.Sprintf(one, ""))
	p := b.serve()
	if out, _, code := b.run("doctor"); code != 0 || !strings.Contains(out, "none has come through yet") && !strings.Contains(out, "none came through") {
		t.Errorf("with one, before the first request: exit code %d\n%s", code, out)
	}
	chat(t.Context(), p.URL(), prompt(1))
	await(t, func() bool { return logged(t, b) == 1 })
	out, _, code := b.run("doctor")
	if code != 1 || !strings.Contains(out, "p refuses the key p#1 (401, 1 time since") {
		t.Errorf("with a refused key: exit code %d\n%s", code, out)
	}
	if !strings.Contains(out, "1 attempt sent in the last 24 hours; the last one ") {
		t.Errorf("what came through is not said:\n%s", out)
	}
	// rohitg00/agentmemory#628: all requests lead nowhere.
	status.Store(http.StatusNotFound)
	chat(t.Context(), p.URL(), prompt(2))
	chat(t.Context(), p.URL(), prompt(3))
	await(t, func() bool { return logged(t, b) == 3 })
	if out, _, code = b.run("doctor"); code != 1 || !strings.Contains(out, "p does not have what is asked for (404, 2 times since") || !strings.Contains(out, "paceline check") {
		t.Errorf("with a wrong path: exit code %d\n%s", code, out)
	}
	other := newBox(t)
	two := other.serve("--port", "0")
	want := fmt.Sprintf("process %d of the home %s, at %s, is another paceline serve", two.PID, other.Dir, two.URL())
	if out, _, _ = b.run("doctor"); knowsPeers && !strings.Contains(out, want) {
		t.Errorf("it is not said that %s:\n%s", want, out)
	}
	b.env = append(b.env, "PACELINE_PORT="+strconv.Itoa(two.Port))
	out, _, code = b.run("doctor", "--json")
	if code != 1 || !strings.Contains(out, `"check":"two proxies","status":"fault"`) || !strings.Contains(out, "unset PACELINE_PORT") {
		t.Errorf("with two proxies: exit code %d\n%s", code, out)
	}
	if err := os.WriteFile(filepath.Join(b.Dir, "paceline.yaml"), []byte("bogus: 1\nmode: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _, _ = b.run("doctor"); strings.Count(out, "fault    config") < 2 {
		t.Errorf("with a bad configuration:\n%s", out)
	}
}
