package memory_test

import (
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
