package slot

import (
	"errors"
	"io"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paceline-proxy/paceline/internal/home"
	"github.com/paceline-proxy/paceline/internal/servertest"
	"github.com/paceline-proxy/paceline/internal/slot/address"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/limiter/slothttp"
)

// Each address opens a limiter that grants.
func TestOpen(t *testing.T) {
	wire := httptest.NewServer(&slothttp.Handler{Limiter: memory.New(), Secret: "wire-secret"})
	t.Cleanup(wire.Close)
	for name, at := range map[string]func(t *testing.T) string{
		"memory":   func(*testing.T) string { return "memory" },
		"file":     func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "l.db") + "?durable=1" },
		"wire":     func(*testing.T) string { return wire.URL },
		"redis":    func(t *testing.T) string { return servertest.Redis(t) + "?tag=slot" },
		"postgres": func(t *testing.T) string { return servertest.Postgres(t) + "&schema=slot" },
	} {
		t.Run(name, func(t *testing.T) {
			l, err := Open(t.Context(), at(t), Options{Home: home.Home{Dir: t.TempDir()}, Secret: map[string]string{"wire": "wire-secret"}[name]})
			if err != nil {
				t.Fatal(err)
			}
			d, err := l.Acquire(t.Context(), limiter.Request{Key: "slot", Limits: []limiter.Limit{{Key: t.TempDir(), Calls: 1, Per: 1e9}}})
			if err != nil || !d.Granted {
				t.Errorf("%+v, %v", d, err)
			}
			if c, ok := l.(io.Closer); ok {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// What is no address says what to write; what cannot be opened is no limiter,
// and shows no secret.
func TestOpenFails(t *testing.T) {
	for at, want := range map[string]string{
		"sqlit:x":                            "did you mean sqlite?",
		"sqlite:x?durable=maybe":             "sqlite:PATH?durable=1",
		"sqlite:x?tag=1":                     `"tag"`,
		"sqlite:/nowhere/at/all/l.db":        "/nowhere/at/all",
		"redis://me:SECRET@127.0.0.1:1":      "127.0.0.1:1",
		"postgres://me:SECRET@127.0.0.1:1/d": "127.0.0.1",
		"http://127.0.0.1:1":                 "127.0.0.1:1",
		"unix:/nowhere/l.sock":               "/nowhere/l.sock",
		"module:none":                        "none",
	} {
		l, err := Open(t.Context(), at, Options{Home: home.Home{Dir: t.TempDir()}, Secret: "SECRET"})
		if l != nil || err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v, %v; want %q", at, l, err, want)
		}
	}
	_, err := Open(t.Context(), "reddis://h", Options{})
	if _, ok := errors.AsType[*address.Fault](err); !ok {
		t.Errorf("a typo is %T", err)
	}
}
