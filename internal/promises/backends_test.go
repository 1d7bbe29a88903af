package promises

import (
	"io"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/servertest"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/limitertest"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/limiter/postgres"
	"github.com/paceline-proxy/paceline/limiter/redis"
	"github.com/paceline-proxy/paceline/limiter/slothttp"
	"github.com/paceline-proxy/paceline/limiter/sqlite"
)

// A backend is where limiters of several processes can meet.
type backend struct {
	name string
	// store is where one is, for a test by itself.
	store func(*testing.T) string
	open  func(t *testing.T, store string) (limiter.Limiter, error)
	// rounds is by how much an instant is rounded on its way, late the part of a
	// window's span by which it makes room late.
	rounds time.Duration
	late   float64
}

var backends = []backend{
	{
		name:  "sqlite",
		store: func(t *testing.T) string { return filepath.Join(t.TempDir(), "limits.db") },
		open: func(t *testing.T, store string) (limiter.Limiter, error) {
			return sqlite.Open(t.Context(), store, sqlite.Options{})
		},
	},
	{
		name:  "redis",
		store: func(t *testing.T) string { return servertest.Redis(t) + "?tag=contract" },
		open: func(t *testing.T, store string) (limiter.Limiter, error) {
			return redis.Open(t.Context(), store, redis.Options{})
		},
		late: 1. / 64,
	},
	{
		name:  "postgres",
		store: func(t *testing.T) string { return servertest.Postgres(t) + "&schema=contract" },
		open: func(t *testing.T, store string) (limiter.Limiter, error) {
			return postgres.Open(t.Context(), store, postgres.Options{})
		},
		late: 1. / 63,
	},
}

func (b backend) mustOpen(t *testing.T, store string) limiter.Limiter {
	t.Helper()
	l, err := b.open(t, store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.(io.Closer).Close() })
	return l
}

// inMemory is shared by whoever asks the process it is in.
var inMemory = backend{
	name:  "memory",
	store: func(t *testing.T) string { return "" },
	open:  func(*testing.T, string) (limiter.Limiter, error) { return memory.New(), nil },
}

// Several processes of the operating system over each shared store, and with one
// process in between over each of them (CC-25).
func TestSeveralProcesses(t *testing.T) {
	all := slices.Clone(backends)
	for _, b := range append(backends, inMemory) {
		all = append(all, backend{
			name:  "wire over " + b.name,
			store: func(t *testing.T) string { return serve(t, b.mustOpen(t, b.store(t))) },
			open: func(t *testing.T, store string) (limiter.Limiter, error) {
				return slothttp.Dial(t.Context(), store, slothttp.Options{Concurrent: true})
			},
			rounds: time.Millisecond,
			late:   b.late,
		})
	}
	for _, b := range all {
		t.Run(b.name, func(t *testing.T) {
			limitertest.Race(t, limitertest.RaceHarness{Store: b.store, Open: b.mustOpen, Tolerance: b.rounds, Late: b.late})
			Of(t, b.name)(Together, nil)
		})
	}
}

func serve(t *testing.T, l limiter.Limiter) (url string) {
	s := httptest.NewServer(&slothttp.Handler{Limiter: l})
	t.Cleanup(s.Close)
	return s.URL
}

// A limiter behind the wire keeps the contract of the one that is served, with
// another host as another client (L-05, L-120).
func TestOverTheWire(t *testing.T) {
	for _, b := range append(backends, inMemory) {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			w := wired{backend: b, store: b.store(t), urls: map[limiter.Limiter]string{}}
			first := w.open(t)
			h := limitertest.Harness{
				Open:      func(*testing.T) limiter.Limiter { return first },
				Host:      func(t *testing.T, l limiter.Limiter) limiter.Limiter { return w.dial(t, w.url(l)) },
				Tolerance: 5 * time.Millisecond,
				Outcome:   Of(t, "wire over "+b.name),
			}
			if b.name != "memory" {
				h.Reopen = func(t *testing.T, _ limiter.Limiter) limiter.Limiter { return w.open(t) }
			}
			limitertest.Run(t, h)
		})
	}
}

// wired is a backend and servers over it.
type wired struct {
	backend
	store string

	mu   sync.Mutex
	urls map[limiter.Limiter]string // where each client's server is
}

// open begins anew: another limiter over the store, and a server over that.
func (w *wired) open(t *testing.T) limiter.Limiter {
	return w.dial(t, serve(t, w.mustOpen(t, w.store)))
}

func (w *wired) dial(t *testing.T, url string) limiter.Limiter {
	c, err := slothttp.Dial(t.Context(), url, slothttp.Options{Concurrent: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	w.mu.Lock()
	defer w.mu.Unlock()
	l := c.Limiter()
	w.urls[l] = url
	return l
}

func (w *wired) url(l limiter.Limiter) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.urls[l]
}
