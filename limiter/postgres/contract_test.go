package postgres_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/limitertest"
	"github.com/paceline-proxy/paceline/limiter/postgres"
)

func open(t *testing.T, url string) *postgres.Limiter {
	l, err := postgres.Open(context.Background(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestContract(t *testing.T) {
	url := os.Getenv("PACELINE_TEST_POSTGRES")
	l := open(t, url)
	limitertest.Run(t, limitertest.Harness{
		Open: func(t *testing.T) limiter.Limiter { return l },
		Unit: 40 * time.Millisecond, Tolerance: 2 * time.Millisecond,
		Reopen: func(t *testing.T, l limiter.Limiter) limiter.Limiter { return open(t, url) },
	})
}
