package modules_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/config"
	"github.com/paceline-proxy/paceline/internal/home"
	"github.com/paceline-proxy/paceline/internal/modules"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/limitertest"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/limiter/slothttp"
)

// The test binary is every module, by its argument.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "module" {
		os.Exit(module(os.Args[2]))
	}
	os.Exit(m.Run())
}

// module runs in the folder of a module.
func module(kind string) int {
	note("pids", strconv.Itoa(os.Getpid()))
	h := &slothttp.Handler{Secret: os.Getenv("PACELINE_SLOT_SECRET"), Open: func(_ context.Context, settings map[string]string) (limiter.Limiter, error) {
		note("opened", fmt.Sprint(settings))
		if settings["url"] == "bad" {
			return nil, fmt.Errorf("%w: the setting url is bad", limiter.ErrInvalid)
		}
		return memory.New(), nil
	}}
	var serve http.Handler = h
	addr := "127.0.0.1:" + os.Getenv("PORT")
	network := "tcp"
	switch kind {
	case "good":
	case "printing":
		addr = "127.0.0.1:0"
	case "socket":
		network, addr = "unix", "slot.sock"
	case "chatty":
		fmt.Println("hello")
		fmt.Fprintln(os.Stderr, "connecting to postgres://me:hunter2%2Fhunter2@db/x")
		fmt.Fprintln(os.Stderr, "the password is hunter2/hunter2, the secret "+os.Getenv("PACELINE_SLOT_SECRET"))
		fmt.Fprint(os.Stderr, "no end of this line")
	case "dying":
		fmt.Fprintln(os.Stderr, "loading")
		fmt.Fprint(os.Stderr, "cannot find libpq; secret "+os.Getenv("PACELINE_SLOT_SECRET"))
		return 3
	case "deaf":
		fmt.Fprintln(os.Stderr, "thinking")
		time.Sleep(time.Minute)
	case "nonsense":
		fmt.Fprintln(os.Stderr, "I speak protocol 1")
		serve = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	case "hanging":
		serve = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				time.Sleep(time.Minute)
			}
		})
	case "parent":
		// What it starts is to go with it.
		c := exec.Command(os.Args[0], "module", "child")
		if err := c.Start(); err != nil {
			return 1
		}
	case "child":
		time.Sleep(time.Minute)
		return 0
	case "stubborn":
		ignoreTerm()
	}
	l, err := net.Listen(network, addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	switch kind {
	case "printing":
		fmt.Printf("http://%s\n", l.Addr())
	case "socket":
		dir, _ := os.Getwd()
		fmt.Printf("unix:%s\n", filepath.Join(dir, "slot.sock"))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/die", func(http.ResponseWriter, *http.Request) {
		fmt.Fprintln(os.Stderr, "dying now")
		os.Exit(7)
	})
	mux.Handle("/", serve)
	_ = http.Serve(l, mux)
	return 0
}

// note leaves a line in the module's folder.
func note(file, line string) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		fmt.Fprintln(f, line)
		f.Close()
	}
}

func notes(t *testing.T, home, name, file string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(modules.Dir(home, name), file))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Fields(string(b))
}

// install makes a module of the test binary, with the settings of L-24 and L-25.
func install(t *testing.T, home, name, kind string, more ...string) {
	t.Helper()
	manifest := fmt.Sprintf(`name: %s
kind: core
slot: limiter
command: [%s, module, %s]
settings:
  - {name: url, label: Where the database is, secret: true}
  - {name: schema, label: Its schema}
%s
`, name, strconv.Quote(os.Args[0]), kind, strings.Join(more, "\n"))
	write(t, filepath.Join(modules.Dir(home, name), config.ManifestFile), manifest, 0o644)
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// logged is what a host has logged.
type logged struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func open(t *testing.T, home, name string, log *logged) limiter.Limiter {
	t.Helper()
	l, err := modules.Open(within(t, 30*time.Second), home, name, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.(io.Closer).Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// until waits for something that takes a while.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for start := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > 20*time.Second {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// L-04, L-14, L-18: a module is a folder, and its command is started there. It is
// reached at the port it is told, where it says, or at a socket, with a secret of
// its own; and it keeps the contract (L-112).
func TestStarted(t *testing.T) {
	for _, kind := range []string{"good", "printing", "socket"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h := t.TempDir()
			install(t, h, "m", kind)
			l := open(t, h, "m", new(logged))
			if pids := notes(t, h, "m", "pids"); len(pids) != 1 {
				t.Errorf("started %d times in its folder", len(pids))
			}
			for _, power := range []bool{is[limiter.Batcher](l), is[limiter.Settler](l), is[limiter.Renewer](l), is[limiter.Opener](l)} {
				if !power {
					t.Errorf("%T lacks a power that the module has", l)
				}
			}
			if kind == "good" {
				limitertest.Run(t, limitertest.Harness{Open: func(*testing.T) limiter.Limiter { return l }, Tolerance: 2 * time.Millisecond})
			}
		})
	}
}

func is[T any](l limiter.Limiter) bool { _, ok := l.(T); return ok }

// L-05: a module without a command is reached at its URL, and nothing is started.
func TestReached(t *testing.T) {
	t.Setenv("PACELINE_SLOT_SECRET", "s3cret")
	s := httptest.NewServer(&slothttp.Handler{Limiter: memory.New(), Secret: "s3cret"})
	defer s.Close()
	h := t.TempDir()
	path := filepath.Join(modules.Dir(h, "far"), config.ManifestFile)
	write(t, path, "name: far\nkind: core\nslot: limiter\nurl: "+s.URL+"\n", 0o644)
	one, two := open(t, h, "far", new(logged)), open(t, h, "far", new(logged))
	r := limiter.Request{Key: "me", Limits: []limiter.Limit{{Key: "a", Calls: 1, Per: time.Hour}}}
	if d, err := one.Acquire(t.Context(), r); err != nil || !d.Granted {
		t.Errorf("the first host: %+v, %v", d, err)
	}
	if d, err := two.Acquire(t.Context(), r); err != nil || d.Granted {
		t.Errorf("the second host: %+v, %v", d, err)
	}
	// Whoever leaves does not close it for the others.
	if err := one.(io.Closer).Close(); err != nil {
		t.Error(err)
	}
	if _, err := two.Acquire(t.Context(), r); err != nil {
		t.Error(err)
	}
	s.Close()
	_, err := modules.Open(within(t, 10*time.Second), h, "far", nil)
	if err == nil || !strings.Contains(err.Error(), "the limiter module far: open: ") || !strings.Contains(err.Error(), "start it, or correct url: in "+path) {
		t.Errorf("nobody there: %v", err)
	}
}

// A module that ends is started again, and opened again with its settings.
func TestStartedAgain(t *testing.T) {
	h := t.TempDir()
	install(t, h, "m", "printing")
	write(t, filepath.Join(modules.Dir(h, "m"), config.SettingsFile), "url: postgres://db\n", 0o600)
	var log logged
	l := open(t, h, "m", &log)
	for n := 1; n <= 2; n++ {
		pids := notes(t, h, "m", "pids")
		pid, _ := strconv.Atoi(pids[len(pids)-1])
		p, err := os.FindProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		until(t, "it grants again", func() bool {
			d, err := l.Acquire(t.Context(), limiter.Request{Key: "me"})
			return err == nil && d.Granted && len(notes(t, h, "m", "pids")) == n+1
		})
	}
	if got := fmt.Sprint(notes(t, h, "m", "opened")); got != "[map[url:postgres://db] map[url:postgres://db] map[url:postgres://db]]" {
		t.Errorf("opened with %s", got)
	}
	for _, want := range []string{"has ended and is started again", "signal: killed", "runs again", "module=m"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q: %s", want, log.String())
		}
	}
}

// A module that has died is named by the error of a call, and how it died is in
// the log.
func TestDiesLater(t *testing.T) {
	h := t.TempDir()
	install(t, h, "m", "printing")
	var log logged
	l := open(t, h, "m", &log)
	// Its folder is gone, so it stays dead.
	if err := os.RemoveAll(modules.Dir(h, "m")); err != nil {
		t.Fatal(err)
	}
	url := at(t, &log)
	if resp, err := http.Get(url + "/die"); err == nil {
		resp.Body.Close()
	}
	until(t, "its death is noticed", func() bool { return strings.Contains(log.String(), "cannot be started again") })
	_, err := l.Acquire(t.Context(), limiter.Request{Key: "me"})
	if e, ok := errors.AsType[*slothttp.Error](err); !ok || !e.Retryable || e.Limiter != "the limiter module m" || !strings.HasSuffix(err.Error(), "it may be starting again: see the log") {
		t.Errorf("%v", err)
	}
	for _, want := range []string{"exit status 7", "dying now", "m cannot be started in"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q: %s", want, log.String())
		}
	}
}

// at is where the module of a log answers.
func at(t *testing.T, log *logged) string {
	t.Helper()
	_, rest, ok := strings.Cut(log.String(), "answers at\" module=m url=")
	if !ok {
		t.Fatalf("the log does not say where it is: %s", log.String())
	}
	return strings.Fields(rest)[0]
}

// Closing ends the module and what it has started, also where it will not leave.
func TestEnds(t *testing.T) {
	for _, kind := range []string{"good", "parent", "stubborn"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h := t.TempDir()
			install(t, h, "m", kind)
			l, err := modules.Open(within(t, 30*time.Second), h, "m", nil)
			if err != nil {
				t.Fatal(err)
			}
			want := 1
			if kind == "parent" {
				want = 2
			}
			until(t, "all of it runs", func() bool { return len(notes(t, h, "m", "pids")) == want })
			for range 2 {
				if err := l.(io.Closer).Close(); err != nil {
					t.Error(err)
				}
			}
			for _, s := range notes(t, h, "m", "pids") {
				pid, _ := strconv.Atoi(s)
				until(t, "process "+s+" is gone", func() bool { return !home.Exists(pid) })
			}
			if _, err := l.Acquire(t.Context(), limiter.Request{Key: "me"}); err == nil {
				t.Error("a closed module granted")
			}
		})
	}
}

// A module does not outlive its host, however that ends.
func TestEndsWithHost(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only the kernel of Linux sees to that")
	}
	if os.Getenv("TEST_HOST_HOME") != "" {
		if _, err := modules.Open(context.Background(), os.Getenv("TEST_HOST_HOME"), "m", nil); err != nil {
			t.Fatal(err)
		}
		note(filepath.Join(os.Getenv("TEST_HOST_HOME"), "ready"), "yes")
		time.Sleep(time.Minute)
		return
	}
	h := t.TempDir()
	install(t, h, "m", "good")
	c := exec.Command(os.Args[0], "-test.run=^TestEndsWithHost$")
	c.Env = append(os.Environ(), "TEST_HOST_HOME="+h)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	until(t, "the host has its module", func() bool { _, err := os.Stat(filepath.Join(h, "ready")); return err == nil })
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	pid, _ := strconv.Atoi(notes(t, h, "m", "pids")[0])
	until(t, "the module is gone", func() bool { return !home.Exists(pid) })
}

// What a module writes is in the log, without what is secret (L-21).
func TestLog(t *testing.T) {
	h := t.TempDir()
	install(t, h, "m", "chatty")
	write(t, filepath.Join(modules.Dir(h, "m"), config.SettingsFile), "url: postgres://me:hunter2%2Fhunter2@db/x\nschema: public\n", 0o600)
	var log logged
	l := open(t, h, "m", &log)
	if err := l.(io.Closer).Close(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"hello", "connecting to (hidden)", "the password is (hidden), the secret (hidden)", "no end of this line"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q: %s", want, log.String())
		}
	}
	if strings.Contains(log.String(), "hunter2") {
		t.Errorf("the log tells a secret: %s", log.String())
	}
	if got := strings.Join(notes(t, h, "m", "opened"), " "); got != "map[schema:public url:postgres://me:hunter2%2Fhunter2@db/x]" {
		t.Errorf("opened with %s", got)
	}
}

// A module that is none says so: which one it is, what it said, and what to do.
func TestThatAreNone(t *testing.T) {
	for _, c := range []struct {
		kind, settings string
		want           []string
	}{
		{"dying", "", []string{"the limiter module m ended before it answered: exit status 3", "it said: loading | cannot find libpq; secret (hidden)", "try its command in "}},
		{"deaf", "", []string{"the limiter module m runs and does not answer GET /health at http://127.0.0.1:", "it said: thinking", "PORT of its environment, or print its URL"}},
		{"nonsense", "", []string{"the limiter module m: open: the answer is not one of the protocol", "it said: I speak protocol 1", "is it a limiter of adapter protocol 2?"}},
		{"hanging", "", []string{"the limiter module m: open: no answer in time", "it said nothing"}},
		{"good", "url: bad\n", []string{"the limiter module m: open: invalid_params: ", "the setting url is bad"}},
	} {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			h := t.TempDir()
			install(t, h, "m", c.kind)
			write(t, filepath.Join(modules.Dir(h, "m"), config.SettingsFile), c.settings, 0o600)
			patience := 2 * time.Second
			if c.kind == "good" || c.kind == "dying" || c.kind == "nonsense" {
				patience = 30 * time.Second
			}
			_, err := modules.Open(within(t, patience), h, "m", nil)
			if err == nil {
				t.Fatal("opened")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v: want %q", err, want)
				}
			}
			for _, s := range notes(t, h, "m", "pids") {
				pid, _ := strconv.Atoi(s)
				until(t, "it is gone", func() bool { return !home.Exists(pid) })
			}
		})
	}
}

// L-14, L-15: a module that is not there, or whose program is not.
func TestMissing(t *testing.T) {
	h := t.TempDir()
	install(t, h, "postgres", "good")
	write(t, filepath.Join(modules.Dir(h, "empty"), "README"), "", 0o644)
	write(t, filepath.Join(modules.Dir(h, "noprogram"), config.ManifestFile), "name: noprogram\nkind: core\nslot: limiter\ncommand: [no-such-program-anywhere]\n", 0o644)
	write(t, filepath.Join(modules.Dir(h, "nofile"), config.ManifestFile), "name: nofile\nkind: core\nslot: limiter\ncommand: [./run]\n", 0o644)
	for name, want := range map[string]string{
		"postgress":   "there is no module postgress (did you mean postgres?); put its folder, with its lf-external.yaml, at " + modules.Dir(h, "postgress"),
		"":            `"" is no name of a module`,
		"../postgres": `"../postgres" is no name of a module`,
		"empty":       config.ManifestFile + ": cannot be read: no such file or directory; a module is a folder with this file",
		"noprogram":   "the limiter module noprogram cannot be started in " + modules.Dir(h, "noprogram") + ": exec: \"no-such-program-anywhere\"",
		"nofile":      "no such file or directory; correct command: in its manifest",
	} {
		_, err := modules.Open(t.Context(), h, name, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
}

// A module is given what it needs to run, and no key that is in the proxy's
// environment.
func TestModuleEnvironment(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-of-the-proxy")
	h := t.TempDir()
	seen := filepath.Join(h, "seen")
	dir := filepath.Join(h, "modules", "prying")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	manifest := "name: prying\nkind: core\nslot: limiter\ncommand: [sh, -c, 'env > " + seen + "; exit 1']\n"
	if err := os.WriteFile(filepath.Join(dir, "lf-external.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := modules.Open(t.Context(), h, "prying", nil); err == nil {
		t.Fatalf("opened: %v", l)
	}
	b, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	if env := string(b); strings.Contains(env, "sk-of-the-proxy") || !strings.Contains(env, "PACELINE_SLOT_SECRET=") || !strings.Contains(env, "PATH=") {
		t.Errorf("the module is given:\n%s", env)
	}
}
