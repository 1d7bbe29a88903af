package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/home"
	"github.com/paceline-proxy/paceline/internal/servertest"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/postgres"
	"github.com/paceline-proxy/paceline/limiter/slothttp"
	"github.com/paceline-proxy/paceline/stub"
)

// A served limiter runs in this process, until it is stopped.
type served struct {
	url    string
	stderr *lines
	stop   context.CancelCauseFunc
	exit   chan int
}

// serveLimiter runs `paceline limiter serve`, whose first line is its URL.
func serveLimiter(t *testing.T, flags ...string) *served {
	t.Helper()
	t.Setenv("PACELINE_HOME", t.TempDir())
	ctx, cancel := context.WithCancelCause(t.Context())
	out, in := io.Pipe()
	s := &served{stderr: new(lines), stop: cancel, exit: make(chan int, 1)}
	go func() {
		s.exit <- run(ctx, append([]string{"limiter", "serve"}, flags...), nil, in, s.stderr)
		in.Close()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("no line on stdout: %v; %s", err, s.stderr)
	}
	s.url = strings.TrimSpace(line)
	go io.Copy(io.Discard, out)
	return s
}

// end stops it as a signal does.
func (s *served) end(t *testing.T) {
	t.Helper()
	s.stop(interrupted{syscall.SIGTERM})
	select {
	case code := <-s.exit:
		if code != exitOK {
			t.Errorf("exit %d: %s", code, s.stderr)
		}
	case <-time.After(10 * time.Second):
		t.Error("it does not end")
	}
}

// L-04, L-05: a limiter that is served is one for whoever reaches its URL, over
// TCP or a socket, with the secret of its environment; it ends in order.
func TestLimiterServe(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "slot.sock")
	for _, c := range []struct {
		name   string
		env    map[string]string
		flags  []string
		prefix string
		secret string
	}{
		{"a free port", nil, []string{"--url", "memory", "--listen", "127.0.0.1:0"}, "http://127.0.0.1:", ""},
		{"localhost", nil, []string{"--url", "memory", "--listen", "localhost:0"}, "http://127.0.0.1:", ""},
		{"as a module", map[string]string{"PORT": "0", secretVariable: "s3cret"}, []string{"--url", "memory"}, "http://127.0.0.1:", "s3cret"},
		{"a socket", nil, []string{"--url", "memory", "--listen", "unix:" + socket}, "unix:" + socket, ""},
		{"everywhere", map[string]string{secretVariable: "s3cret"}, []string{"--url", "memory", "--listen", ":0"}, "http://localhost:", "s3cret"},
		{"an address in the environment", map[string]string{limiterVariable: "memory"}, []string{"--listen", "127.0.0.1:0"}, "http://127.0.0.1:", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			s := serveLimiter(t, c.flags...)
			if !strings.HasPrefix(s.url, c.prefix) {
				t.Errorf("at %s, want %s", s.url, c.prefix)
			}
			l, err := slothttp.Dial(t.Context(), s.url, slothttp.Options{Secret: c.secret})
			if err != nil {
				t.Fatal(err)
			}
			r := limiter.Request{Key: "me", Limits: []limiter.Limit{{Key: "a", Calls: 1, Per: time.Hour}}}
			for _, want := range []bool{true, false} {
				if d, err := l.Acquire(t.Context(), r); err != nil || d.Granted != want {
					t.Errorf("%+v, %v, want granted %v", d, err, want)
				}
			}
			if c.secret != "" {
				_, err := slothttp.Dial(t.Context(), s.url, slothttp.Options{})
				if e, ok := errors.AsType[*slothttp.Error](err); !ok || e.Code != slothttp.Unauthorized {
					t.Errorf("without the secret: %v", err)
				}
			}
			if path, ok := strings.CutPrefix(s.url, "unix:"); ok {
				if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("the socket: %v, %v", info.Mode(), err)
				}
			}
			s.end(t)
			if _, err := l.Acquire(t.Context(), r); err == nil {
				t.Error("it goes on")
			}
			if s.stderr.String() != "" {
				t.Errorf("it says %s", s.stderr)
			}
		})
	}
}

// L-24, L-25: without an address the settings of open say which, and closed it
// can be opened again.
func TestLimiterOfSettings(t *testing.T) {
	s := serveLimiter(t, "--listen", "127.0.0.1:0")
	defer s.end(t)
	call := func(body string) string {
		t.Helper()
		res, err := http.Post(s.url, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != 200 {
			t.Fatal(res.Status, err)
		}
		return string(b)
	}
	const acquire = `{"protocolVersion":"2","method":"acquire","params":{"key":"me","limits":[]}}`
	for _, c := range []struct{ body, want string }{
		{acquire, `"not_open"`},
		{`{"protocolVersion":"2","method":"open","params":{"settings":{}}}`, `"invalid_params","message":"invalid limiter request: the setting url is missing: give memory, sqlite:PATH`},
		{`{"protocolVersion":"2","method":"open","params":{"settings":{"url":"memry"}}}`, `"invalid_params","message":"the address of the limiter has no scheme that is known (did you mean memory?)`},
		{`{"protocolVersion":"2","method":"open","params":{"settings":{"url":"memory","shema":"x"}}}`, `there is no setting \"shema\": the settings are url, schema and tag`},
		{`{"protocolVersion":"2","method":"open","params":{"settings":{"url":"memory","schema":""}}}`, `{"ok":true`},
		{acquire, `"granted":true`},
		{`{"protocolVersion":"2","method":"close","params":{}}`, `{"ok":true`},
		{acquire, `"not_open"`},
		{`{"protocolVersion":"2","method":"open","params":{"settings":{"url":"memory"}}}`, `{"ok":true`},
		{acquire, `"granted":true`},
	} {
		if got := call(c.body); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", c.body, got, c.want)
		}
	}
	for in, want := range map[string]map[string]string{
		"postgres://h/d?schema=a":           {"url": "postgres://h/d", "schema": "a"},
		"postgres://h/d?sslmode=x&schema=a": {"url": "postgres://h/d?sslmode=x", "schema": "a"},
	} {
		if got, err := limiterOf(want); got != in || err != nil {
			t.Errorf("%v: %s, %v", want, got, err)
		}
	}
}

// The examples of docs/slot.md are what a limiter answers.
func TestSlotExamples(t *testing.T) {
	for _, program := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	text, err := os.ReadFile("../../docs/slot.md")
	if err != nil {
		t.Fatal(err)
	}
	s := serveLimiter(t, "--url", "memory", "--listen", "127.0.0.1:0")
	defer s.end(t)
	permits := map[string]string{}
	blocks := regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	n := 0
	for _, block := range blocks {
		for _, example := range strings.Split("\n"+block[1], "\n$ ")[1:] {
			command, want, ok := strings.Cut(example, "\n{\"ok")
			if !ok {
				t.Fatalf("no answer: %s", example)
			}
			want = `{"ok` + strings.TrimSpace(want)
			command = strings.ReplaceAll(command, "http://127.0.0.1:8793", s.url)
			for name, permit := range permits {
				command = strings.ReplaceAll(command, name, permit)
			}
			out, err := exec.Command("sh", "-c", command).Output()
			if err != nil {
				t.Fatalf("%s: %v", command, err)
			}
			got := strings.TrimSpace(string(out))
			if named, real := permitOf(want), permitOf(got); named != "" && real != "" {
				permits[named] = real
			}
			if shapeOf(got) != shapeOf(want) {
				t.Errorf("%s\nanswers\n%s\nnot\n%s", command, got, want)
			}
			n++
		}
	}
	if n < 11 {
		t.Errorf("only %d examples", n)
	}
}

func permitOf(answer string) string {
	if m := regexp.MustCompile(`"permit":"([^"]+)"`).FindStringSubmatch(answer); m != nil {
		return m[1]
	}
	return ""
}

// shapeOf is an answer without what differs from run to run.
func shapeOf(answer string) string {
	answer = regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"`).ReplaceAllString(answer, "AT")
	answer = regexp.MustCompile(`"retryAfterMs":\d+`).ReplaceAllString(answer, `"retryAfterMs":N`)
	return regexp.MustCompile(`"permit":"[^"]+"`).ReplaceAllString(answer, `"permit":"P"`)
}

// L-26: the schema is there once somebody has migrated, also where who opens the
// limiter may not.
func TestLimiterMigrate(t *testing.T) {
	at := servertest.Postgres(t)
	schema := fmt.Sprintf("wire_migrate_%d", time.Now().UnixNano())
	join := "?"
	if strings.Contains(at, "?") {
		join = "&"
	}
	at += join + "schema=" + schema + "&migrate=check"
	if _, err := postgres.Open(t.Context(), at, postgres.Options{}); err == nil {
		t.Fatal("a schema that nobody has made was opened")
	}
	for range 2 {
		var out, errs strings.Builder
		if code := run(t.Context(), []string{"limiter", "migrate", "--url", at}, nil, &out, &errs); code != exitOK || !strings.HasPrefix(out.String(), "the schema "+schema+" of postgres://") {
			t.Fatalf("exit %d: %s%s", code, out.String(), errs.String())
		}
	}
	l, err := postgres.Open(t.Context(), at, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := l.Acquire(t.Context(), limiter.Request{Key: "me"}); err != nil || !d.Granted {
		t.Errorf("%+v, %v", d, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// own installs paceline's limiter as a module of a home, with the settings that
// a shared one has, and a PATH on which it is found.
func (b *box) own(t *testing.T) (dir string) {
	t.Helper()
	bin := t.TempDir()
	program, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, filepath.Join(bin, "paceline")); err != nil {
		t.Fatal(err)
	}
	b.env = append(b.env, "PATH="+bin+":"+os.Getenv("PATH"))
	dir = filepath.Join(b.Dir, "modules", "own")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile("../../examples/limiter-module/lf-external.yaml")
	if err != nil {
		t.Fatal(err)
	}
	manifest = []byte(strings.Replace(string(manifest), "name: limiter-module", "name: own", 1))
	if err := os.WriteFile(filepath.Join(dir, "lf-external.yaml"), manifest, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// L-01, L-03, L-22, L-23, L-27: a proxy counts in its own memory unless its
// configuration names a module; two whose modules count in one place share it,
// and what the first was granted the second has to wait for.
func TestModuleOfAProxy(t *testing.T) {
	upstream, _ := provider(t, stub.Config{})
	counts := filepath.Join(t.TempDir(), "counts.db")
	var proxies []*proc
	for _, slot := range []string{"limiter: {url: module:own}\n", "limiter: {url: module:own}\n", ""} {
		b := newBox(t)
		dir := b.own(t)
		if err := os.WriteFile(filepath.Join(dir, "settings.yaml"), []byte("url: sqlite:"+counts+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		b.configure(upstream, slot+"providers: {st: {baseURL: STUB, limits: {maxPerMinute: 1, pacing: burst}}}\n")
		p := b.serve("--port", "0")
		proxies = append(proxies, p)
		var status struct{ Limiter struct{ URL, State string } }
		get(t, p.URL()+"/stats", &status)
		want := "module:own"
		if slot == "" {
			want = "memory"
		}
		if status.Limiter.URL != want || status.Limiter.State != "ok" {
			t.Errorf("the limiter is %+v, want %s\n%s", status.Limiter, want, p.said)
		}
	}
	for i, want := range []int{200, 429, 200} {
		status, _, answer, err := chat(t.Context(), proxies[i].URL()+"/st", prompt(1), "X-Paceline-Max-Wait", "1s")
		if status != want || err != nil {
			t.Errorf("proxy %d answers %d %s, %v, want %d\n%s", i+1, status, answer, err, want, proxies[i].said)
		}
	}
}

// A limiter that is told to stop has nobody run on, and a module that is killed
// leaves nobody behind.
func TestLimiterProcessEnds(t *testing.T) {
	b := newBox(t)
	c := b.command("limiter", "serve", "--url", "memory", "--listen", "127.0.0.1:0")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil || home.Exists(c.Process.Pid) {
		t.Errorf("after SIGTERM: %v", err)
	}
}
