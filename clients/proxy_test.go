package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// binary is the paceline program that the tests run.
var binary string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	// Most of a test here is waiting, so all wait at the same time.
	if err := setParallel(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "paceline-clients")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "paceline")
	build := exec.Command("go", "build", "-o", binary, "./cmd/paceline")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building paceline: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// settings are lines of a configuration: some for its top, some for each of
// its providers.
type settings struct{ top, provider string }

// A proxy is a `paceline serve` with a home of its own.
type proxy struct {
	url  string
	home string
}

// start runs the proxy in front of an upstream that stands in for OpenAI and
// for Anthropic, and stops it after the test.
func start(t *testing.T, u *upstream, s settings) *proxy {
	t.Helper()
	indented := strings.ReplaceAll(strings.TrimSpace(s.provider), "\n", "\n    ")
	return serve(t, fmt.Sprintf(`listen: 127.0.0.1:0
%s
providers:
  openai:
    baseURL: %[2]s/v1
    %[3]s
  anthropic:
    baseURL: %[2]s
    %[3]s
`, strings.TrimSpace(s.top), u.url, indented))
}

// serve runs the proxy with a configuration, and stops it after the test.
func serve(t *testing.T, config string) *proxy {
	t.Helper()
	p := &proxy{home: t.TempDir()}
	file := filepath.Join(p.home, "paceline.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	program := p.command("serve")
	program.Stdout, program.Stderr = &said, &said
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- program.Wait() }()
	t.Cleanup(func() {
		program.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Error("the proxy did not stop within 10 s")
			program.Process.Kill()
			<-ended
		}
		if t.Failed() {
			t.Logf("the proxy said:\n%s", &said)
		}
	})
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the proxy ended: %v", err)
		default:
		}
		if p.url = p.found(); p.url != "" {
			return p
		}
	}
	t.Fatal("the proxy did not start")
	return nil
}

// found is where the proxy serves, empty while it does not.
func (p *proxy) found() string {
	text, err := os.ReadFile(filepath.Join(p.home, "server.json"))
	if err != nil {
		return ""
	}
	var server struct {
		Host string
		Port int
	}
	if json.Unmarshal(text, &server) != nil {
		return ""
	}
	url := fmt.Sprintf("http://%s:%d", server.Host, server.Port)
	resp, err := http.Get(url + "/health")
	if err != nil {
		return ""
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return ""
	}
	return url
}

// command is a paceline command in the proxy's home. Nothing of the machine's
// own configuration reaches it.
func (p *proxy) command(args ...string) *exec.Cmd {
	c := exec.Command(binary, args...)
	c.Env = []string{"PACELINE_HOME=" + p.home, "HOME=" + p.home, "PATH=" + os.Getenv("PATH")}
	return c
}

// records are the rows of the log, once there are as many as the test needs.
func (p *proxy) records(t *testing.T, want int) []record {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		out, err := p.command("log", "--json").Output()
		if err != nil {
			t.Fatalf("paceline log: %v: %s", err, exitText(err))
		}
		var all []record
		for line := range strings.Lines(string(out)) {
			var r record
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatalf("paceline log: %v: %s", err, line)
			}
			all = append(all, r)
		}
		if len(all) >= want || time.Now().After(end) {
			return all
		}
	}
}

type record struct {
	Provider string
	Status   int
	Class    string
	Aborted  bool
	Error    string
}

func exitText(err error) string {
	if exit, ok := err.(*exec.ExitError); ok {
		return string(exit.Stderr)
	}
	return ""
}

// get reads one of the proxy's own pages.
func (p *proxy) get(t *testing.T, path string, into any) {
	t.Helper()
	resp, err := http.Get(p.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %v", path, resp.Status, err)
	}
}
