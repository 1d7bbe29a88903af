package sqlite_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

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

// L-116, and L-112: the same cases as any limiter's. CC-27, CC-28: closed and
// opened again, and opened twice. The tolerance is that of throttles and seeds,
// which are told by the caller's clock; instants that this limiter tells are
// exact.
func TestContract(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	paths := map[limiter.Limiter]string{}
	at := func(t *testing.T, path string) limiter.Limiter {
		l := open(t, path)
		mu.Lock()
		defer mu.Unlock()
		paths[l] = path
		return l
	}
	limitertest.Run(t, limitertest.Harness{
		Open: func(t *testing.T) limiter.Limiter { return at(t, filepath.Join(t.TempDir(), "limits.db")) },
		Reopen: func(t *testing.T, l limiter.Limiter) limiter.Limiter {
			if err := l.(*sqlite.Limiter).Close(); err != nil {
				t.Error(err)
			}
			return at(t, paths[l])
		},
		Tolerance: time.Millisecond,
	})
}

// One file for all cases, opened by each anew while others have it open.
func TestContractInOneFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "limits.db")
	open(t, path)
	limitertest.Run(t, limitertest.Harness{
		Open:      func(t *testing.T) limiter.Limiter { return open(t, path) },
		Tolerance: time.Millisecond,
	})
}
