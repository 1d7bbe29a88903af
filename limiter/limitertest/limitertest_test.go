package limitertest_test

import (
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/limitertest"
	"github.com/paceline-proxy/paceline/limiter/memory"
)

func open(*testing.T) limiter.Limiter { return memory.New() }

func TestMemoryInBubble(t *testing.T) {
	limitertest.Run(t, limitertest.Harness{Open: open, Bubble: true})
}

func TestMemoryInRealTime(t *testing.T) {
	limitertest.Run(t, limitertest.Harness{Open: open, Unit: 20 * time.Millisecond})
}
