package memory_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/limitertest"
	"github.com/paceline-proxy/paceline/limiter/memory"
)

func TestContractInBubble(t *testing.T) {
	limitertest.Run(t, limitertest.Harness{
		Open:   func(*testing.T) limiter.Limiter { return new(memory.Limiter) }, // the zero value is usable
		Bubble: true,
	})
}

func TestContractInRealTime(t *testing.T) {
	// One for all cases, as a process has one.
	l := memory.New()
	limitertest.Run(t, limitertest.Harness{
		Open: func(*testing.T) limiter.Limiter { return l },
		Unit: 20 * time.Millisecond,
	})
}

func withJournal(t *testing.T) limiter.Limiter {
	l, err := memory.Open(filepath.Join(t.TempDir(), "journal"))
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

func TestContractWithJournalInBubble(t *testing.T) {
	limitertest.Run(t, limitertest.Harness{Open: withJournal, Bubble: true})
}

func TestContractWithJournalInRealTime(t *testing.T) {
	l := withJournal(t)
	limitertest.Run(t, limitertest.Harness{
		Open: func(*testing.T) limiter.Limiter { return l },
		Unit: 20 * time.Millisecond,
	})
}
