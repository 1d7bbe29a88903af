package redis_test

import (
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/contract"
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

func TestContract(t *testing.T) {
	url := servertest.Redis(t)
	limitertest.Run(t, limitertest.Harness{
		Open: func(t *testing.T) limiter.Limiter { return open(t, url, redis.Options{Tag: t.Name()}) },
		Reopen: func(t *testing.T, l limiter.Limiter) limiter.Limiter {
			l.(*redis.Limiter).Close()
			return open(t, url, redis.Options{Tag: t.Name()})
		},
		Host: func(t *testing.T, _ limiter.Limiter) limiter.Limiter {
			return open(t, url, redis.Options{Tag: t.Name()})
		},
		Unit:      40 * time.Millisecond,
		Tolerance: 5 * time.Millisecond, // a throttle is on its way that long
		Outcome:   contract.Of(t, "redis"),
	})
}
