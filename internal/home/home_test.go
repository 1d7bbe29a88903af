package home_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/home"
)

// newHome is a home of its own, which is not made yet, and what its logger
// says.
func newHome(t *testing.T) (home.Home, *strings.Builder) {
	t.Helper()
	t.Setenv("PACELINE_HOME", filepath.Join(t.TempDir(), "home"))
	t.Setenv("PACELINE_URL", "")
	t.Setenv("PACELINE_PORT", "")
	h, err := home.Find()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	h.Logger = slog.New(slog.NewTextHandler(&said, nil))
	return h, &said
}

func made(t *testing.T) (home.Home, *strings.Builder) {
	t.Helper()
	h, said := newHome(t)
	if err := h.Make(); err != nil {
		t.Fatal(err)
	}
	return h, said
}

// answering is a server that answers every request, as a proxy's entry.
func answering(t *testing.T, status int, got func(*http.Request)) home.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got != nil {
			got(r)
		}
		w.WriteHeader(status)
		w.Write([]byte(`{"error":{"message":"no luck"}}`))
	}))
	t.Cleanup(s.Close)
	host, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	n, _ := strconv.Atoi(port)
	return home.Server{Host: host, Port: n}
}

// rewrite changes the recorded server.json.
func rewrite(t *testing.T, h home.Home, old, new string) {
	t.Helper()
	b, err := os.ReadFile(h.ServerFile())
	if err != nil {
		t.Fatal(err)
	}
	changed := regexp.MustCompile(old).ReplaceAllString(string(b), new)
	if changed == string(b) {
		t.Fatalf("%s is not in %s", old, b)
	}
	if err := os.WriteFile(h.ServerFile(), []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
}

// deadPID is the id of a process that was.
func deadPID(t *testing.T) int {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^$")
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	return c.Process.Pid
}

// the override, then an absolute XDG_DATA_HOME, then the usual place; what is
// empty or relative counts as unset.
func TestFind(t *testing.T) {
	if runtime.GOOS == "linux" {
		t.Setenv("HOME", "/home/somebody")
		t.Setenv("PACELINE_HOME", "")
		for xdg, want := range map[string]string{"": "/home/somebody/.local/share/paceline", "data": "/home/somebody/.local/share/paceline", "/data": "/data/paceline"} {
			t.Setenv("XDG_DATA_HOME", xdg)
			if h, err := home.Find(); err != nil || h.Dir != want {
				t.Errorf("with XDG_DATA_HOME=%q: %q, %v; want %q", xdg, h.Dir, err, want)
			}
		}
	}
	t.Setenv("PACELINE_HOME", "")
	t.Setenv("XDG_DATA_HOME", "/data")
	if h, err := home.Find(); err != nil || !strings.HasSuffix(filepath.ToSlash(h.Dir), "/paceline") {
		t.Errorf("without PACELINE_HOME: %q, %v", h.Dir, err)
	}
	t.Setenv("PACELINE_HOME", "here")
	if h, err := home.Find(); err != nil || !filepath.IsAbs(h.Dir) || filepath.Base(h.Dir) != "here" {
		t.Errorf("a relative PACELINE_HOME: %q, %v", h.Dir, err)
	}
}

func TestMake(t *testing.T) {
	h, _ := made(t)
	info, err := os.Stat(h.Dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the home is %v, %v; want it for its owner only", info.Mode(), err)
	}
	if left, _ := os.ReadDir(h.Dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	for name, dir := range map[string]string{"a file": h.ServerFile(), "below a file": h.ServerFile() + "/home"} {
		if err := os.WriteFile(h.ServerFile(), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		err := home.Home{Dir: dir}.Make()
		if err == nil || !strings.Contains(err.Error(), "is not a directory: move the file away, or set PACELINE_HOME") {
			t.Errorf("%s in its place: %v", name, err)
		}
	}
}

// P-14, P-25, P-162.
func TestRecord(t *testing.T) {
	h, _ := made(t)
	s, err := h.Record(home.Server{Host: "127.0.0.1", Port: 1234, StartedAt: time.Now(), Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(h.Dir, "server.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("server.json is %v, %v; want it for its owner only", info.Mode(), err)
	}
	b, _ := os.ReadFile(h.ServerFile())
	for _, key := range []string{`"pid":`, `"host":"127.0.0.1"`, `"port":1234`, `"startedAt":"`, `"hostname":"`, `"bootId":"`, `"version":"1"`} {
		if !strings.Contains(string(b), key) {
			t.Errorf("%s is not in %s", key, b)
		}
	}
	if s.PID != os.Getpid() {
		t.Errorf("pid %d is recorded, it is %d", s.PID, os.Getpid())
	}
	// Another process's entry stays.
	rewrite(t, h, `"pid":\d+`, `"pid":1`)
	if err := h.Forget(); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Recorded(); err != nil {
		t.Errorf("the entry of another process was removed: %v", err)
	}
	rewrite(t, h, `"pid":\d+`, `"pid":`+strconv.Itoa(os.Getpid()))
	if err := h.Forget(); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Recorded(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("our own entry is still there: %v", err)
	}
}

// P-27: a process that exists, and a 2xx within 1.5 s.
func TestLive(t *testing.T) {
	h, _ := made(t)
	live := func() bool { _, ok := h.Live(t.Context()); return ok }
	record := func(s home.Server) {
		t.Helper()
		if _, err := h.Record(s); err != nil {
			t.Fatal(err)
		}
	}
	if live() {
		t.Error("a home without an entry has a live proxy")
	}
	var path string
	record(answering(t, 204, func(r *http.Request) { path = r.URL.Path }))
	if !live() || path != "/health" {
		t.Errorf("one that answers %q with 204 is not live", path)
	}
	rewrite(t, h, `"pid":\d+`, `"pid":`+strconv.Itoa(deadPID(t)))
	if live() {
		t.Error("a dead process whose port answers is live")
	}
	record(answering(t, 500, nil))
	if live() {
		t.Error("one that answers 500 is live")
	}
	slow := make(chan struct{})
	record(answering(t, 200, func(*http.Request) { <-slow }))
	began := time.Now()
	if live() {
		t.Error("one that does not answer is live")
	}
	if took := time.Since(began); took < 1400*time.Millisecond {
		t.Errorf("given up after %v", took)
	}
	close(slow)
}

// An entry of another machine, whose process nobody here can see, is never
// stale; one of this machine before it was started anew is.
func TestElsewhere(t *testing.T) {
	h, _ := made(t)
	for _, c := range []struct {
		name, hostname, boot string
		live                 bool
	}{
		{"this machine", "", "", false},
		{"this machine before it was started anew", "", "other", false},
		{"a container on this machine", "other", "", false},
		{"another machine", "other", "other", true},
	} {
		if _, err := h.Record(home.Server{Host: "127.0.0.1", Port: 1}); err != nil {
			t.Fatal(err)
		}
		if c.hostname != "" {
			rewrite(t, h, `"hostname":"[^"]*"`, `"hostname":"other"`)
		}
		if c.boot != "" {
			rewrite(t, h, `"bootId":"[^"]*"`, `"bootId":"other"`)
		}
		rewrite(t, h, `"pid":\d+`, `"pid":`+strconv.Itoa(deadPID(t)))
		if _, live := h.Live(t.Context()); live != c.live {
			t.Errorf("%s: live is %v", c.name, live)
		}
		l, err := h.Lock()
		if taken, ok := errors.AsType[*home.Taken](err); ok != c.live || ok && !taken.Elsewhere {
			t.Errorf("%s: taking it gives %v", c.name, err)
		}
		if err == nil {
			l.Unlock()
		} else if !strings.Contains(err.Error(), "remove "+h.ServerFile()) {
			t.Errorf("it is not said what to do: %v", err)
		}
	}
}

// P-16, P-26: the lock is one process's, and who has it is said.
func TestLock(t *testing.T) {
	h, _ := made(t)
	first, err := h.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Record(home.Server{Host: "127.0.0.1", Port: 4321}); err != nil {
		t.Fatal(err)
	}
	_, err = h.Lock()
	taken, ok := errors.AsType[*home.Taken](err)
	if !ok || taken.Server.Port != 4321 || taken.Server.PID != os.Getpid() {
		t.Fatalf("a second lock: %v", err)
	}
	if want := "pid " + strconv.Itoa(os.Getpid()) + ", port 4321"; !strings.Contains(err.Error(), want) {
		t.Errorf("%q does not say %q", err, want)
	}
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
	again, err := h.Lock()
	if err != nil {
		t.Fatalf("after it was given back: %v", err)
	}
	again.Unlock()
}

// P-28: of many who take it in one instant one gets it.
func TestLockRace(t *testing.T) {
	h, _ := made(t)
	if _, err := h.Record(home.Server{Host: "127.0.0.1", Port: 1}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := 0
	for range 16 {
		wg.Go(func() {
			if _, err := h.Lock(); err == nil {
				mu.Lock()
				got++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if got != 1 {
		t.Errorf("%d have the lock", got)
	}
}

// P-19; PrimeIntellect-ai/verifiers#2612: what is damaged heals, and what says
// who has the home is not what is locked.
func TestLockOverDamage(t *testing.T) {
	for _, content := range []string{"", "{", "null", `{"pid":0}`, "\x00\xff", `{"pid":99999999,"host":"127.0.0.1","port":1}`} {
		h, said := made(t)
		if err := os.WriteFile(h.ServerFile(), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := h.Lock()
		if err != nil {
			t.Errorf("server.json %q: %v", content, err)
			continue
		}
		l.Unlock()
		if said.Len() == 0 {
			t.Errorf("server.json %q: nothing was said", content)
		}
	}
}

func TestToken(t *testing.T) {
	h, said := newHome(t)
	if _, err := h.ReadToken(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before there is one: %v", err)
	}
	tokens := make([]string, 8)
	var wg sync.WaitGroup
	for i := range tokens {
		wg.Go(func() { tokens[i], _ = h.Token() })
	}
	wg.Wait()
	for _, token := range tokens {
		if !regexp.MustCompile(`^pcl_[A-Z0-9]{26}$`).MatchString(token) || token != tokens[0] {
			t.Fatalf("made at once: %q", tokens)
		}
	}
	info, _ := os.Stat(h.TokenFile())
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the token is %v", info.Mode())
	}
	if left, _ := filepath.Glob(filepath.Join(h.Dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	// Too open.
	if err := os.Chmod(h.TokenFile(), 0o644); err != nil {
		t.Fatal(err)
	}
	if token, err := h.Token(); err != nil || token != tokens[0] {
		t.Errorf("too open: %q, %v", token, err)
	}
	if info, _ := os.Stat(h.TokenFile()); info.Mode().Perm() != 0o600 || !strings.Contains(said.String(), "others could read the token") {
		t.Errorf("too open: it is %v and said is %q", info.Mode(), said)
	}

	// Damaged.
	said.Reset()
	if err := os.WriteFile(h.TokenFile(), []byte("pcl_"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.ReadToken(); err == nil || !strings.Contains(err.Error(), "paceline restart") {
		t.Errorf("reading a damaged one: %v", err)
	}
	token, err := h.Token()
	if err != nil || token == tokens[0] || !strings.HasPrefix(token, "pcl_") {
		t.Errorf("damaged: %q, %v", token, err)
	}
	if !strings.Contains(said.String(), "damaged") || strings.Contains(said.String(), token) {
		t.Errorf("said: %s", said)
	}
}

// P-20, P-21, P-22, P-167: the URL, the port, the file, in this order.
func TestEndpoint(t *testing.T) {
	h, _ := made(t)
	if _, err := h.Client().Endpoint(); err == nil || err.Error() != "no proxy runs for this home; start one with paceline serve" {
		t.Errorf("without anything: %v", err)
	}
	if _, err := h.Record(home.Server{Host: "127.0.0.1", Port: 1001}); err != nil {
		t.Fatal(err)
	}
	check := func(url, from string) {
		t.Helper()
		at, err := h.Client().Endpoint()
		if err != nil || at.URL != url || at.From != from {
			t.Errorf("it is %+v, %v; want %s from %s", at, err, url, from)
		}
	}
	check("http://127.0.0.1:1001", h.ServerFile())
	t.Setenv("PACELINE_PORT", "1002")
	check("http://127.0.0.1:1002", "PACELINE_PORT")
	t.Setenv("PACELINE_URL", "http://example.test:1003/")
	check("http://example.test:1003", "PACELINE_URL")
	t.Setenv("PACELINE_URL", "example")
	if _, err := h.Client().Endpoint(); err == nil || !strings.Contains(err.Error(), "give a URL such as") {
		t.Errorf("a bad PACELINE_URL: %v", err)
	}
	t.Setenv("PACELINE_URL", "")
	t.Setenv("PACELINE_PORT", "many")
	if _, err := h.Client().Endpoint(); err == nil || !strings.Contains(err.Error(), "a number from 1 to 65535") {
		t.Errorf("a bad PACELINE_PORT: %v", err)
	}
}

func TestClient(t *testing.T) {
	h, _ := made(t)
	token, err := h.Token()
	if err != nil {
		t.Fatal(err)
	}
	var got *http.Request
	s := answering(t, 200, func(r *http.Request) { got = r })
	if _, err := h.Record(s); err != nil {
		t.Fatal(err)
	}
	var answer struct{ Error struct{ Message string } }
	if err := h.Client().Control(t.Context(), "pause", map[string]string{"provider": "p"}, &answer); err != nil || answer.Error.Message != "no luck" {
		t.Errorf("%+v, %v", answer, err)
	}
	if got.Method != "POST" || got.URL.Path != "/control/pause" || got.Header.Get("X-Paceline-Token") != token {
		t.Errorf("asked with %s %s %v", got.Method, got.URL, got.Header)
	}
	if err := h.Client().Status(t.Context(), nil); err != nil || got.Method != "GET" || got.URL.Path != "/stats" {
		t.Errorf("asked with %s %s: %v", got.Method, got.URL, err)
	}

	if _, err := h.Record(answering(t, 409, nil)); err != nil {
		t.Fatal(err)
	}
	err = h.Client().Status(t.Context(), nil)
	if r, ok := errors.AsType[*home.Refusal](err); !ok || r.Status != 409 || r.Message != "no luck" {
		t.Errorf("a refusal: %v", err)
	}
	if _, err := h.Record(home.Server{Host: "127.0.0.1", Port: 1}); err != nil {
		t.Fatal(err)
	}
	err = h.Client().Status(t.Context(), nil)
	if _, ok := errors.AsType[*home.NotRunning](err); !ok || !strings.Contains(err.Error(), "start one with paceline serve") {
		t.Errorf("a proxy that is gone: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Client().Status(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
}

// A command keeps an idle proxy from leaving, and waits for one that leaves.
func TestExecs(t *testing.T) {
	h, _ := made(t)
	one, err := h.HoldExec()
	if err != nil {
		t.Fatal(err)
	}
	two, err := h.HoldExec()
	if err != nil {
		t.Fatal(err)
	}
	one.Close()
	if h.NoExecs() != nil {
		t.Error("there is a command, and none is seen")
	}
	two.Close()
	leaving := h.NoExecs()
	if leaving == nil {
		t.Fatal("there is no command, and one is seen")
	}
	began := make(chan struct{})
	go func() {
		three, _ := h.HoldExec()
		three.Close()
		close(began)
	}()
	select {
	case <-began:
		t.Error("a command began while the proxy left")
	case <-time.After(50 * time.Millisecond):
	}
	leaving.Close()
	<-began
}

// A process that has ended does not exist, also before its parent has asked.
func TestEndedProcess(t *testing.T) {
	c := exec.Command(os.Args[0], "-test.run=^$")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if !home.Exists(c.Process.Pid) {
		t.Error("it has begun, and does not exist")
	}
	if _, err := os.Stat("/proc/self/stat"); err == nil {
		for deadline := time.Now().Add(20 * time.Second); home.Exists(c.Process.Pid); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("it has ended, and exists")
			}
		}
	}
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
}

func FuzzRecorded(f *testing.F) {
	f.Add([]byte(`{"pid":1,"host":"127.0.0.1","port":1,"startedAt":"2026-11-30T00:00:00Z"}`))
	f.Add([]byte(`{"pid":1,"host":"unix:/x"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		h := home.Home{Dir: t.TempDir()}
		if err := os.WriteFile(h.ServerFile(), b, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := h.Recorded()
		if err != nil {
			return
		}
		if _, err := url.Parse(s.URL()); err != nil || s.PID <= 0 {
			t.Errorf("%q was taken: %+v", b, s)
		}
	})
}

// A lock that somebody has removed with its home is held no more.
func TestLockRemoved(t *testing.T) {
	h := home.Home{Dir: t.TempDir()}
	l, err := h.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Unlock()
	if !l.Held() {
		t.Error("it is not held")
	}
	if err := os.Remove(filepath.Join(h.Dir, "lock")); err != nil {
		t.Fatal(err)
	}
	if l.Held() {
		t.Error("it is held although it is gone")
	}
	other, err := h.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Unlock()
	if l.Held() || !other.Held() {
		t.Error("it is not the one who came last that has it")
	}
}
