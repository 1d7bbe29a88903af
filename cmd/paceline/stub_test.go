package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// A stub that runs in this process, until it is stopped.
type running struct {
	url    string
	stdout *bufio.Reader
	stderr *strings.Builder
	stop   context.CancelCauseFunc
	exit   chan int
}

// start runs `paceline stub --json` with more flags, on a free port.
func start(t *testing.T, flags ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	out, in := io.Pipe()
	r := &running{stdout: bufio.NewReader(out), stderr: &strings.Builder{}, stop: cancel, exit: make(chan int, 1)}
	go func() {
		r.exit <- run(ctx, append([]string{"stub", "--json", "--listen", "127.0.0.1:0"}, flags...), nil, in, r.stderr)
		in.Close()
	}()
	var ready struct{ URL string }
	r.next(t, &ready)
	r.url = ready.URL
	return r
}

// next reads the next line of JSON.
func (r *running) next(t *testing.T, into any) {
	t.Helper()
	line, err := r.stdout.ReadString('\n')
	if err != nil {
		t.Fatalf("no line on stdout: %v", err)
	}
	if err := json.Unmarshal([]byte(line), into); err != nil {
		t.Fatalf("stdout: %s: %v", line, err)
	}
}

func (r *running) chat(t *testing.T) *http.Response {
	t.Helper()
	res, err := http.Post(r.url+"/v1/chat/completions", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res
}

func TestStubServes(t *testing.T) {
	r := start(t, "--limit", "2", "--per", "1h", "--headers", "openai", "--retry-after", "ms")
	for i, want := range []int{200, 200, 429} {
		res := r.chat(t)
		if res.StatusCode != want || res.Header.Get("x-ratelimit-limit-requests") != "2" {
			t.Errorf("request %d: %s %v", i+1, res.Status, res.Header)
		}
		if want == 429 && res.Header.Get("retry-after-ms") == "" {
			t.Errorf("the refusal tells no wait: %v", res.Header)
		}
	}
	r.stop(interrupted{os.Interrupt})
	var counts struct{ Admitted, Refused int }
	r.next(t, &counts)
	if counts.Admitted != 2 || counts.Refused != 1 {
		t.Errorf("counts %+v", counts)
	}
	if code := <-r.exit; code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	for _, want := range []string{"serving at " + r.url, "OPENAI_BASE_URL=" + r.url + "/v1\n", "ANTHROPIC_BASE_URL=" + r.url + "\n"} {
		if !strings.Contains(r.stderr.String(), want) {
			t.Errorf("stderr does not say %q:\n%s", want, r.stderr)
		}
	}
}

// Each use of --fault adds one.
func TestStubFaults(t *testing.T) {
	r := start(t, "--fault", "503:first=1", "--fault", "529:every=2")
	for i, want := range []int{503, 529, 200, 529} {
		if got := r.chat(t).StatusCode; got != want {
			t.Errorf("request %d: %d, want %d", i+1, got, want)
		}
	}
	r.stop(interrupted{syscall.SIGTERM})
	io.Copy(io.Discard, r.stdout)
	if code := <-r.exit; code != 143 {
		t.Errorf("exit code %d, want 143", code)
	}
}

func TestStubAtAPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var stdout, stderr strings.Builder
	code := run(t.Context(), []string{"stub", "--listen", l.Addr().String()}, nil, &stdout, &stderr)
	want := "paceline: cannot serve at " + l.Addr().String() + ": "
	if code != 1 || stdout.Len() > 0 || !strings.HasPrefix(stderr.String(), want) || strings.Count(stderr.String(), "\n") != 1 {
		t.Errorf("exit code %d, stderr %q", code, stderr.String())
	}
}

// What a signal does to the real process.
func TestSignalsEndTheProcess(t *testing.T) {
	for signal, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		c := exec.CommandContext(t.Context(), "paceline", "stub", "--listen", "127.0.0.1:0")
		var stdout strings.Builder
		c.Stdout = &stdout
		stderr, err := c.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		said := bufio.NewReader(stderr)
		if line, err := said.ReadString('\n'); !strings.HasPrefix(line, "serving at http://127.0.0.1:") {
			t.Fatal(line, err)
		}
		if err := c.Process.Signal(signal); err != nil {
			t.Skip("this system cannot send it: ", err)
		}
		io.Copy(io.Discard, said)
		c.Wait()
		if got := c.ProcessState.ExitCode(); got != want || !strings.HasPrefix(stdout.String(), "admitted     0\n") {
			t.Errorf("%v: exit code %d, want %d; stdout %q", signal, got, want, stdout.String())
		}
	}
}
