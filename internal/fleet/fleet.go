// Package fleet runs several daemons of this process as hosts of their own, each
// with a home, in front of one stand-in provider: for tests and measurements of
// limiters that hosts share.
package fleet

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/daemon"
	"github.com/paceline-proxy/paceline/internal/home"
	"github.com/paceline-proxy/paceline/stub"
)

// A Fleet is hosts in front of one provider, which they call p.
type Fleet struct {
	Provider *stub.Stub
	Hosts    int

	at    []home.Server
	homes []home.Home
	files []string // of their configurations
	stop  []func()
}

// Start starts so many hosts, until the test ends. limiter and limits are what
// their configurations say of the limiter and of the provider's limits.
func Start(t testing.TB, hosts int, limiter string, s stub.Config, limits string) *Fleet {
	t.Helper()
	provider, err := stub.New(s)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(provider)
	t.Cleanup(server.Close)
	f := &Fleet{Provider: provider, Hosts: hosts}
	for i := range hosts {
		h := home.Home{Dir: t.TempDir()}
		file := filepath.Join(h.Dir, "paceline.yaml")
		text := fmt.Sprintf("limiter: %s\nproviders:\n  p: {baseURL: %s/v1, limits: %s, retry: {maxWaitMs: 1m}}\n", limiter, server.URL, limits)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		at, stop := start(t, h, file, i)
		f.at, f.homes, f.files, f.stop = append(f.at, at), append(f.homes, h), append(f.files, file), append(f.stop, stop)
	}
	return f
}

// start runs a daemon until it is stopped, or the test ends.
func start(t testing.TB, h home.Home, file string, i int) (at home.Server, stop func()) {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	ready, ended := make(chan home.Server, 1), make(chan error, 1)
	log := io.Discard
	if testing.Verbose() {
		log = t.Output()
	}
	go func() {
		ended <- daemon.Run(ctx, daemon.Options{
			Home: h, ConfigFile: file, Listen: []string{"127.0.0.1:0"}, Version: "test",
			Ready:  func(s home.Server) { ready <- s },
			Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})).With("host", i),
		})
	}()
	stop = sync.OnceFunc(func() {
		end()
		if err := <-ended; err != nil {
			t.Errorf("host %d: %v", i, err)
		}
	})
	t.Cleanup(stop)
	select {
	case at = <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatalf("host %d does not start: %v", i, err)
	}
	return at, stop
}

// Restart ends a host and starts it again in its home.
func (f *Fleet) Restart(t testing.TB, host int) {
	t.Helper()
	f.stop[host]()
	f.at[host], f.stop[host] = start(t, f.homes[host], f.files[host], host)
}

// Home is that of a host.
func (f *Fleet) Home(host int) home.Home { return f.homes[host] }

var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// Ask sends one request through a host and returns its answer.
func (f *Fleet) Ask(ctx context.Context, host int) (status int, said string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.at[host].URL()+"/p/v1/chat/completions", strings.NewReader(`{"model":"m","messages":[]}`))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Authorization", "Bearer own-key-of-the-client")
	r.Header.Set("Content-Type", "application/json")
	res, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

// Load has clients ask every host without a break, until ctx ends, and leave
// then. Each answer that is no 200 fails the test.
func (f *Fleet) Load(ctx context.Context, t testing.TB, clients int) {
	var all sync.WaitGroup
	for i := range f.Hosts {
		for range clients {
			all.Go(func() {
				for ctx.Err() == nil {
					status, said, err := f.Ask(ctx, i)
					switch {
					case ctx.Err() != nil:
					case err != nil:
						t.Errorf("host %d: %v", i, err)
						return
					case status != http.StatusOK:
						t.Errorf("host %d: %d %s", i, status, said)
					}
				}
			})
		}
	}
	all.Wait()
}

// Status is what a host says of itself.
func (f *Fleet) Status(t testing.TB, host int) (s daemon.Status) {
	t.Helper()
	if err := f.homes[host].ClientOf(f.at[host]).Status(t.Context(), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// Busiest is how many of the instants lie in the fullest window that ends in
// from..to.
func Busiest(at []time.Time, per time.Duration, from, to time.Time) (most int) {
	slices.SortFunc(at, time.Time.Compare)
	oldest := 0
	for i, a := range at {
		for a.Sub(at[oldest]) >= per {
			oldest++
		}
		if !a.Before(from) && !a.After(to) {
			most = max(most, i-oldest+1)
		}
	}
	return most
}

// Arrivals are when requests came to the provider.
func (f *Fleet) Arrivals() (at []time.Time) {
	for _, a := range f.Provider.Arrivals() {
		at = append(at, a.At)
	}
	return at
}

// Await waits until something is so, and fails the test where it is not in time.
func Await(t testing.TB, most time.Duration, ready func() bool) {
	t.Helper()
	for began := time.Now(); !ready(); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > most {
			t.Fatalf("not after %v", most)
		}
	}
}
