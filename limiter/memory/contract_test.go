package memory_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/promises"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/limitertest"
	"github.com/paceline-proxy/paceline/limiter/memory"
)

// L-113, L-115: the limiter that is there without any choice, in virtual time and
// in real time (L-118).
func TestContractInBubble(t *testing.T) {
	limitertest.Run(t, limitertest.Harness{
		Open:    func(*testing.T) limiter.Limiter { return new(memory.Limiter) }, // the zero value is usable
		Bubble:  true,
		Outcome: promises.Of(t, "memory"),
	})
}

func TestContractInRealTime(t *testing.T) {
	// One for all cases, as a process has one.
	l := memory.New()
	limitertest.Run(t, limitertest.Harness{
		Open:    func(*testing.T) limiter.Limiter { return l },
		Unit:    20 * time.Millisecond,
		Outcome: promises.Of(t, "memory"),
	})
}

// journaled opens limiters with journals and finds them again.
type journaled struct {
	paths map[limiter.Limiter]string
}

func (j *journaled) open(t *testing.T, path string) limiter.Limiter {
	l, err := memory.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	j.paths[l] = path
	return l
}

func (j *journaled) reopen(t *testing.T, l limiter.Limiter) limiter.Limiter {
	if err := l.(*memory.Limiter).Close(); err != nil {
		t.Error(err)
	}
	path := j.paths[l]
	return j.open(t, path)
}

func TestContractWithJournal(t *testing.T) {
	j := journaled{paths: map[limiter.Limiter]string{}}
	open := func(t *testing.T) limiter.Limiter { return j.open(t, filepath.Join(t.TempDir(), "journal")) }
	t.Run("bubble", func(t *testing.T) {
		limitertest.Run(t, limitertest.Harness{Open: open, Reopen: j.reopen, Bubble: true, Outcome: promises.Of(t, "memory with journal")})
	})
	t.Run("real", func(t *testing.T) {
		// An instant of another process is known to the clocks' readings.
		limitertest.Run(t, limitertest.Harness{Open: open, Reopen: j.reopen, Unit: 20 * time.Millisecond, Tolerance: time.Millisecond,
			Outcome: promises.Of(t, "memory with journal")})
	})
}
