package sqlite_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/promises"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/limitertest"
	"github.com/paceline-proxy/paceline/limiter/sqlite"
)

func open(t testing.TB, path string) *sqlite.Limiter {
	t.Helper()
	l, err := sqlite.Open(context.Background(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// files opens limiters and finds their files again.
type files struct {
	mu    sync.Mutex
	paths map[limiter.Limiter]string
}

func (f *files) open(t *testing.T, path string) limiter.Limiter {
	l := open(t, path)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paths[l] = path
	return l
}

func (f *files) host(t *testing.T, l limiter.Limiter) limiter.Limiter {
	f.mu.Lock()
	path := f.paths[l]
	f.mu.Unlock()
	return f.open(t, path)
}

func (f *files) reopen(t *testing.T, l limiter.Limiter) limiter.Limiter {
	if err := l.(*sqlite.Limiter).Close(); err != nil {
		t.Error(err)
	}
	return f.host(t, l)
}

// L-112, L-116: the same cases as any limiter's, with hosts that share a file
// (L-27, L-80, CC-25, CC-26) and restarts (CC-27, CC-28). The tolerance is that of
// throttles and seeds, which are told by the caller's clock; what this limiter
// tells is exact.
func TestContract(t *testing.T) {
	one := filepath.Join(t.TempDir(), "limits.db")
	for name, path := range map[string]func(*testing.T) string{
		"a file each": func(t *testing.T) string { return filepath.Join(t.TempDir(), "limits.db") },
		"one file":    func(*testing.T) string { return one },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &files{paths: map[limiter.Limiter]string{}}
			limitertest.Run(t, limitertest.Harness{
				Open:      func(t *testing.T) limiter.Limiter { return f.open(t, path(t)) },
				Reopen:    f.reopen,
				Host:      f.host,
				Tolerance: time.Millisecond,
				Outcome:   promises.Of(t, "sqlite"),
			})
		})
	}
}

// CC-25, L-27: ten processes and one file.
func TestTenProcesses(t *testing.T) {
	limitertest.Race(t, limitertest.RaceHarness{
		Store:     func(t *testing.T) string { return filepath.Join(t.TempDir(), "limits.db") },
		Open:      func(t *testing.T, path string) limiter.Limiter { return open(t, path) },
		Processes: 10,
	})
	promises.Of(t, "sqlite")(promises.Together, nil)
}
