package redis_test

import (
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/promises"
	"github.com/paceline-proxy/paceline/internal/servertest"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/limitertest"
	"github.com/paceline-proxy/paceline/limiter/redis"
)

func open(t testing.TB, url string, o redis.Options) *redis.Limiter {
	t.Helper()
	l, err := redis.Open(t.Context(), url, o)
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

// L-27, L-28, L-116, CC-26, CC-27, CC-28: all cases, each with a tag of its own.
func TestContract(t *testing.T) {
	url := servertest.Redis(t)
	beside := func(t *testing.T, l limiter.Limiter) limiter.Limiter {
		return open(t, url, redis.Options{Tag: t.Name()})
	}
	limitertest.Run(t, limitertest.Harness{
		Outcome: promises.Of(t, "redis"),
		Open:    func(t *testing.T) limiter.Limiter { return beside(t, nil) },
		Reopen: func(t *testing.T, l limiter.Limiter) limiter.Limiter {
			if err := l.(*redis.Limiter).Close(); err != nil {
				t.Error(err)
			}
			return beside(t, l)
		},
		Host:      beside,
		Unit:      40 * time.Millisecond,
		Tolerance: 5 * time.Millisecond, // a throttle may be on its way for so long
	})
}

// CC-25: processes that ask at once never overshoot.
func TestRace(t *testing.T) {
	limitertest.Race(t, limitertest.RaceHarness{
		Store: func(t *testing.T) string { return servertest.Redis(t) },
		Open: func(t *testing.T, url string) limiter.Limiter {
			return open(t, url, redis.Options{Tag: t.Name()})
		},
		Tolerance: time.Microsecond, // an instant is of that precision
		Late:      1. / 64,
	})
	promises.Of(t, "redis")(promises.Together, nil)
}
