package slothttp_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/limitertest"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/limiter/slothttp"
)

// overTCP serves a handler at a port of its own.
func overTCP(t testing.TB, h http.Handler) (url string) {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// overUnix serves a handler at a socket.
func overUnix(t testing.TB, h http.Handler) (url string) {
	path := filepath.Join(t.TempDir(), "slot.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	s.Start()
	t.Cleanup(s.Close)
	return "unix:" + path
}

func dial(t *testing.T, url string, o slothttp.Options) *slothttp.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c, err := slothttp.Dial(ctx, url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// L-06, L-112, L-120: a limiter behind the wire keeps the same contract, call by
// call and with calls at once. Its instants are whole milliseconds.
func TestContract(t *testing.T) {
	for name, serve := range map[string]func(testing.TB, http.Handler) string{"tcp": overTCP, "unix": overUnix} {
		for how, o := range map[string]slothttp.Options{"in turn": {Secret: "s3cret"}, "at once": {Secret: "s3cret", Concurrent: true}} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				c := dial(t, serve(t, &slothttp.Handler{Limiter: memory.New(), Secret: "s3cret"}), o)
				limitertest.Run(t, limitertest.Harness{
					Open:      func(*testing.T) limiter.Limiter { return c },
					Tolerance: 2 * time.Millisecond,
				})
			})
		}
	}
}

// A limiter that has no more than the three methods keeps the contract, too,
// and is not taken for more.
func TestContractOfTheThree(t *testing.T) {
	t.Parallel()
	type three struct{ limiter.Limiter }
	c := dial(t, overTCP(t, &slothttp.Handler{Limiter: three{memory.New()}}), slothttp.Options{})
	limitertest.Run(t, limitertest.Harness{
		Open:      func(*testing.T) limiter.Limiter { return c.Limiter() },
		Tolerance: 2 * time.Millisecond,
	})
}
