package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/home"
	"github.com/paceline-proxy/paceline/stub"
)

// A box is a home of its own, in which the real program runs.
type box struct {
	t *testing.T
	home.Home
	env []string
}

func newBox(t *testing.T) *box {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "home")
	b := &box{t: t, Home: home.Home{Dir: dir}, env: []string{"PACELINE_HOME=" + dir, "PATH=" + os.Getenv("PATH"), "HOME=" + dir}}
	// What was started in the background ends with the test.
	t.Cleanup(func() {
		if s, err := b.Recorded(); err == nil && s.PID != os.Getpid() {
			_ = kill(s.PID)
		}
	})
	return b
}

// kill ends a process as kill -9 does.
func kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}

// configure writes the home's configuration. STUB in it is the URL of a
// provider.
func (b *box) configure(provider *httptest.Server, yaml string) {
	b.t.Helper()
	if err := os.MkdirAll(b.Dir, 0o700); err != nil {
		b.t.Fatal(err)
	}
	if provider != nil {
		yaml = strings.ReplaceAll(yaml, "STUB", provider.URL+"/v1")
	}
	if err := os.WriteFile(b.Config(), []byte(yaml), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// command is the real program, which is this test under another name.
func (b *box) command(args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Args[0] = "paceline"
	c.Env = b.env
	return c
}

// run runs a command to its end.
func (b *box) run(args ...string) (stdout, stderr string, code int) {
	b.t.Helper()
	c := b.command(args...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		b.t.Fatal(err)
	} else if ok {
		code = exit.ExitCode()
	}
	return out.String(), errs.String(), code
}

// A proc is a proxy that runs.
type proc struct {
	*exec.Cmd
	home.Server
	said  *lines
	ended chan struct{}
	err   error
}

// lines collects what a process says.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// begin starts a proxy, without waiting for it.
func (b *box) begin(args ...string) *proc {
	b.t.Helper()
	p := &proc{Cmd: b.command(append([]string{"serve"}, args...)...), said: &lines{}, ended: make(chan struct{})}
	p.Stderr = p.said
	if err := p.Start(); err != nil {
		b.t.Fatal(err)
	}
	go func() {
		p.err = p.Wait()
		close(p.ended)
	}()
	b.t.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.ended
	})
	return p
}

// serve starts a proxy and returns when it answers.
func (b *box) serve(args ...string) *proc {
	b.t.Helper()
	p := b.begin(args...)
	await(b.t, func() bool {
		select {
		case <-p.ended:
			b.t.Fatalf("it ended: %v\n%s", p.err, p.said)
		default:
		}
		s, live := b.Live(b.t.Context())
		p.Server = s
		return live && s.PID == p.Process.Pid
	})
	return p
}

// stop sends a signal and waits for the end.
func (p *proc) stop(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	p.wait(t)
}

func (p *proc) wait(t *testing.T) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		t.Fatalf("it does not end\n%s", p.said)
	}
}

// await waits for something that another process does.
func await(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen")
		}
	}
}

// provider is a stub on a socket.
func provider(t *testing.T, c stub.Config) (*httptest.Server, *stub.Stub) {
	t.Helper()
	s, err := stub.New(c)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return server, s
}

// chat makes one request at a base URL. header is KEY, VALUE, ...
func chat(ctx context.Context, url, body string, header ...string) (status int, head http.Header, answer string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return 0, nil, "", err
	}
	req.Header.Set("Authorization", "Bearer sk-test")
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(b), err
}

var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// prompt is the body of a request that differs from those with another number.
func prompt(n int) string {
	return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"say %d"}]}`, n)
}

// get reads JSON.
func get(t *testing.T, url string, out any) (status int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return resp.StatusCode
}
