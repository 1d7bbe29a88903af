// Package node_test holds the limiter in JavaScript beside it to the contract.
package node_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/modules"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/limitertest"
	"github.com/paceline-proxy/paceline/limiter/slothttp"
)

// needNode skips where there is no Node, unless somebody counts on the test.
func needNode(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// install copies this folder into the modules of a home.
func install(t *testing.T) (home string) {
	t.Helper()
	home = t.TempDir()
	if err := os.CopyFS(modules.Dir(home, "limiter-module-node"), os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	return home
}

// L-121: a limiter in another language passes by speaking the wire alone. L-114:
// it is the test module that fills a host's slot.
func TestContract(t *testing.T) {
	needNode(t)
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	l, err := modules.Open(ctx, install(t), "limiter-module-node", slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.(io.Closer).Close(); err != nil {
			t.Error(err)
		}
	})
	for what, there := range map[string]bool{"batches": is[limiter.Batcher](l), "settles": is[limiter.Settler](l), "renews": is[limiter.Renewer](l), "opens": is[limiter.Opener](l)} {
		if !there {
			t.Errorf("it has no power that %s", what)
		}
	}
	limitertest.Run(t, limitertest.Harness{
		Open:      func(*testing.T) limiter.Limiter { return l },
		Tolerance: 2 * time.Millisecond, // instants on the wire are whole milliseconds
	})
}

func is[T any](l limiter.Limiter) bool { _, ok := l.(T); return ok }

// L-33, L-34, L-53, L-65: what it answers to what is no call, and to calls that
// cannot be.
func TestErrors(t *testing.T) {
	needNode(t)
	t.Parallel()
	c := exec.Command("node", "server.js")
	c.Env = append(os.Environ(), "PORT=0", "PACELINE_SLOT_SECRET=s3cret")
	c.Stderr = t.Output()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}()
	line := make([]byte, 100)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSpace(string(line[:n]))
	post := func(body, secret string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+secret)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b)
	}
	for _, c := range []struct{ body, want string }{
		{`{"protocolVersion":"2","method":"acquire","params":{"key":"me","limits":[]}}`, slothttp.NotOpen},
		{`{"protocolVersion":"2","method":"open"}`, `"ok":true`},
		{`{"protocolVersion":"3","method":"open"}`, slothttp.UnsupportedVersion},
		{`{"method":"open"}`, slothttp.UnsupportedVersion},
		{`{"protocolVersion":"2","method":"toString"}`, slothttp.UnknownMethod},
		{`{"protocolVersion":"2"}`, slothttp.UnknownMethod},
		{`{"protocolVersion":"2","method":"acquire"}`, slothttp.InvalidParams},
		{`{"protocolVersion":"2","method":"acquire","params":[]}`, slothttp.InvalidParams},
		{`{"protocolVersion":"2","method":"acquire","params":{"key":"me"}}`, slothttp.InvalidParams},
		{`{"protocolVersion":"2","method":"acquire","params":{"key":"me","limits":[{"key":"a","calls":0,"perMs":1}]}}`, slothttp.InvalidParams},
		{`{"protocolVersion":"2","method":"acquire","params":{"key":"me","limits":[{"key":"a","calls":1.5,"perMs":1}]}}`, slothttp.InvalidParams},
		{`{"protocolVersion":"2","method":"acquire","params":{"key":"me","limits":[{"key":"a","calls":"1","perMs":1}]}}`, slothttp.InvalidParams},
		{`{"protocolVersion":"2","method":"acquire","params":{"key":"me","limits":[{"key":"a","calls":1}]}}`, slothttp.InvalidParams},
		{`{"protocolVersion":"2","method":"acquire","params":{"key":"me","limits":[{"key":"a"}]}}`, slothttp.InvalidParams},
		{`{"protocolVersion":"2","method":"acquire","params":{"key":"me","limits":[{"key":"a","concurrent":1}]}}`, slothttp.InvalidParams},
		{`{"protocolVersion":"2","method":"acquire","params":{"key":"me","limits":[{"key":"a","calls":1,"perMs":1},{"key":"a","calls":2,"perMs":1}]}}`, slothttp.InvalidParams},
		{`{"protocolVersion":"2","method":"acquireBatch","params":{"requests":[{"key":"me","limits":[{"key":"once","calls":1,"perMs":60000}]},{}]}}`, slothttp.InvalidParams},
		{`{"protocolVersion":"2","method":"acquire","params":{"key":"me","limits":[{"key":"once","calls":1,"perMs":60000,"cost":null}],"new":1}}`, `"granted":true`},
		{`{"protocolVersion":"2","method":"throttle","params":{"key":"me","until":"tomorrow"}}`, slothttp.InvalidParams},
		{`{"protocolVersion":"2","method":"throttle","params":{"key":"me","until":"2026-11-29T12:00:00Z"}}`, slothttp.InvalidParams},
		{`{"protocolVersion":"2","method":"settle","params":{"permit":"p","costs":[{"key":"a","cost":-1}]}}`, slothttp.InvalidParams},
		{`{"protocolVersion":"2","method":"renew","params":{"permits":[],"holdMs":0}}`, slothttp.InvalidParams},
		{`{"protocolVersion":"2","method":"release","params":{"permit":"p","costs":[{"key":"a","cost":0}]}}`, `"ok":true`},
		{`{"protocolVersion":"2","method":"close"}`, `"ok":true`},
		{`{"protocolVersion":"2","method":"release","params":{"permit":"p"}}`, slothttp.NotOpen},
	} {
		if status, got := post(c.body, "s3cret"); status != 200 || !strings.Contains(got, c.want) {
			t.Errorf("%s: %d %s, want %s", c.body, status, got, c.want)
		}
	}
	for body, want := range map[string]int{"acquire": 400, "[]": 400, "": 400, strings.Repeat("x", 5<<20): 413} {
		if status, got := post(body, "s3cret"); status != want {
			t.Errorf("%.20s: %d %s, want %d", body, status, got, want)
		}
	}
	if status, got := post(`{"protocolVersion":"2","method":"open"}`, "guessed"); status != 200 || !strings.Contains(got, slothttp.Unauthorized) {
		t.Errorf("without the secret: %d %s", status, got)
	}
	if err := slothttp.Health(t.Context(), url); err != nil {
		t.Error(err)
	}
}

// The folder is all that a host needs.
func TestManifest(t *testing.T) {
	m, err := modules.Load(install(t), "limiter-module-node")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range m.Command[1:] {
		if _, err := os.Stat(filepath.Join(".", file)); err != nil {
			t.Error(err)
		}
	}
}
