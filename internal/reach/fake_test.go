package reach

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/memory"
)

// A server is a shared limiter that can be made to fail and to hang.
type server struct {
	mu    sync.Mutex
	count *memory.Limiter
	blobs map[string][]byte
	fails error
	hangs bool
	slow  time.Duration
	after int  // calls that are answered before it fails
	mute  bool // it does what it is asked, and its answers are lost
	calls int
}

func newServer() *server { return &server{count: memory.New(), blobs: make(map[string][]byte)} }

func (s *server) set(change func(*server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *server) down() { s.set(func(s *server) { s.fails = errors.New("fake: connection refused") }) }
func (s *server) up()   { s.set(func(s *server) { s.fails, s.hangs, s.after = nil, false, 0 }) }
func (s *server) hang() { s.set(func(s *server) { s.hangs = true }) }

// lose forgets everything, as a server without a disk does.
func (s *server) lose() {
	s.set(func(s *server) { s.count, s.blobs = memory.New(), make(map[string][]byte) })
}

func (s *server) enter(ctx context.Context) (*memory.Limiter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.after > 0 {
		if s.after--; s.after == 0 {
			s.fails = errors.New("fake: connection reset")
		}
	}
	slow, hangs, err := s.slow, s.hangs, s.fails
	if hangs || slow > 0 && err == nil {
		s.mu.Unlock()
		if hangs {
			<-ctx.Done()
		} else {
			select {
			case <-time.After(slow):
			case <-ctx.Done():
			}
		}
		s.mu.Lock()
		if err = context.Cause(ctx); err != nil {
			return nil, err
		}
	}
	return s.count, err
}

func (s *server) Acquire(ctx context.Context, r limiter.Request) (limiter.Decision, error) {
	l, err := s.enter(ctx)
	if err != nil {
		return limiter.Decision{}, err
	}
	d, err := l.Acquire(ctx, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mute {
		return limiter.Decision{}, errors.New("fake: connection reset")
	}
	return d, err
}

func (s *server) AcquireBatch(ctx context.Context, rs []limiter.Request) ([]limiter.Decision, error) {
	l, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	return limiter.AcquireBatch(ctx, l, rs)
}

func (s *server) Release(ctx context.Context, permit string) error {
	l, err := s.enter(ctx)
	if err != nil {
		return err
	}
	return l.Release(ctx, permit)
}

func (s *server) Throttle(ctx context.Context, key string, until time.Time) error {
	l, err := s.enter(ctx)
	if err != nil {
		return err
	}
	return l.Throttle(ctx, key, until)
}

func (s *server) Open(ctx context.Context, key string) error {
	l, err := s.enter(ctx)
	if err != nil {
		return err
	}
	return l.Open(ctx, key)
}

func (s *server) Renew(ctx context.Context, permits []string, hold time.Duration) error {
	l, err := s.enter(ctx)
	if err != nil {
		return err
	}
	return l.Renew(ctx, permits, hold)
}

func (s *server) Settle(ctx context.Context, permit string, costs []limiter.Cost) error {
	l, err := s.enter(ctx)
	if err != nil {
		return err
	}
	return l.Settle(ctx, permit, costs)
}

func (s *server) Seed(ctx context.Context, limits []limiter.Limit, at time.Time) error {
	l, err := s.enter(ctx)
	if err != nil {
		return err
	}
	return l.Seed(ctx, limits, at)
}

func (s *server) Peek(ctx context.Context, key string, limits []limiter.Limit) (limiter.View, error) {
	l, err := s.enter(ctx)
	if err != nil {
		return limiter.View{}, err
	}
	return l.Peek(ctx, key, limits)
}

func (s *server) Get(ctx context.Context, key string) ([]byte, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.blobs[key]), nil
}

func (s *server) Update(ctx context.Context, key string, f func([]byte) []byte) error {
	if _, err := s.enter(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blobs[key] = f(slices.Clone(s.blobs[key]))
	return nil
}

func (s *server) Warnings() []string { return []string{"The fake forgets."} }

// bare is a shared limiter of the three methods alone.
type bare struct{ limiter.Limiter }

// hosts are so many limiters over one server, which all have seen each other.
func hosts(t *testing.T, n int, s limiter.Limiter, o Options) []*Limiter {
	t.Helper()
	all := make([]*Limiter, n)
	for i := range all {
		own := o
		own.Host = string(rune('a' + i))
		own.Open = func(ctx context.Context) (limiter.Limiter, error) { return s, ctx.Err() }
		own.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
		all[i] = New(t.Context(), own)
		t.Cleanup(func() { all[i].Close() })
	}
	for _, l := range all {
		l.greet()
	}
	return all
}

func acquire(t *testing.T, l limiter.Limiter, r limiter.Request) limiter.Decision {
	t.Helper()
	d, err := l.Acquire(t.Context(), r)
	if err != nil {
		t.Fatalf("acquiring: %v", err)
	}
	return d
}

// drive asks until the shared limiter counts as out of reach.
func drive(t *testing.T, all ...*Limiter) {
	t.Helper()
	for _, l := range all {
		for range mostFailures {
			acquire(t, l, limiter.Request{Key: "drive"})
		}
		if !l.Status().Away {
			t.Fatalf("not away after %d failures", mostFailures)
		}
	}
}

// back waits until the shared limiter is back.
func back(t *testing.T, all ...*Limiter) {
	t.Helper()
	for _, l := range all {
		for began := time.Now(); l.Status().Away; time.Sleep(10 * time.Millisecond) {
			if time.Since(began) > 2*lastRetry {
				t.Fatalf("not back after %v: %v", time.Since(began), l.Status().Why)
			}
		}
	}
}

// granted is how many of many asks are granted.
func granted(t *testing.T, l limiter.Limiter, r limiter.Request) (n int) {
	t.Helper()
	for range 100 {
		if acquire(t, l, r).Granted {
			n++
		}
	}
	return n
}
