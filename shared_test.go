package paceline_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/stub"
)

// A far limiter is one that several hosts share: what it is asked and told takes
// a while.
type far struct {
	*memory.Limiter
	trip     time.Duration
	released atomic.Int32
}

func (f *far) AcquireBatch(ctx context.Context, rs []limiter.Request) ([]limiter.Decision, error) {
	time.Sleep(f.trip)
	return limiter.AcquireBatch(ctx, f.Limiter, rs)
}

func (f *far) Release(ctx context.Context, permit string) error {
	time.Sleep(f.trip)
	f.released.Add(1)
	return f.Limiter.Release(ctx, permit)
}

func (f *far) Settle(ctx context.Context, permit string, costs []limiter.Cost) error {
	time.Sleep(f.trip)
	return f.Limiter.Settle(ctx, permit, costs)
}

// An answer is not held up for what a shared limiter is told of it, and a
// program that ends waits until it has been told.
func TestAnswersWaitForNoSharedLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Service: sec}, paceline.Provider{Limits: paceline.Limits{MaxConcurrent: 4, MaxTokensPerMinute: 100_000}})
		l := &far{Limiter: memory.New(), trip: 3 * sec}
		r.Limiter = l
		for _, a := range r.together(4) {
			a.want(t, 200)
			if a.took > 7*sec { // at most two calls to be let through
				t.Errorf("answered after %v", a.took)
			}
		}
		start := time.Now()
		r.Flush(t.Context())
		if took := time.Since(start); took < 6*sec || took > 9*sec { // a cost or two, and a release
			t.Errorf("told after %v", took)
		}
		r.Flush(t.Context())
		if n := l.released.Load(); n != 4 {
			t.Errorf("%d of 4 places are free again", n)
		}
	})
}

// X-Paceline-Max-Wait bounds the wait for a turn, and not the time that a shared
// limiter takes to say that there is none.
func TestMaxWaitOverASharedLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 2, Pacing: paceline.Burst}})
		r.Limiter = &far{Limiter: memory.New(), trip: 10 * time.Millisecond}
		for _, status := range []int{200, 200, 429} {
			r.chat(t.Context(), "X-Paceline-Max-Wait", "0s").want(t, status)
		}
	})
}

// What other hosts have used up of a shared limiter, or have been told of it, is
// not free here, though this process has counted none of it.
func TestStatusOverASharedLimiter(t *testing.T) {
	for name, tt := range map[string]struct {
		limits paceline.Limits
		stub   stub.Config
		calls  int           // of the other host
		next   time.Duration // since then, 0 for unknown
		again  time.Duration // since then
	}{
		"a window":      {paceline.Limits{MaxPerMinute: 3, WindowSlack: -1, Pacing: paceline.Burst}, stub.Config{}, 2, 0, time.Minute},
		"places":        {paceline.Limits{MaxConcurrent: 2}, stub.Config{Service: 20 * sec}, 2, 0, 21 * sec},
		"a stated wait": {paceline.Limits{MaxPerMinute: 600}, stub.Config{Script: []stub.Step{{}, told(30 * sec)}}, 1, 30 * sec, 31 * sec},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one := newRig(t, tt.stub, paceline.Provider{Limits: tt.limits, Retry: paceline.Retry{MaxWait: -1}})
				store := memory.New()
				one.Limiter = &far{Limiter: store, trip: time.Millisecond}
				other := newRig(t, stub.Config{}, paceline.Provider{Limits: tt.limits, Retry: paceline.Retry{MaxWait: -1}})
				other.Base, other.Limiter = one.Base, &far{Limiter: store, trip: time.Millisecond}
				free := func(want bool) paceline.CallerStatus {
					t.Helper()
					s := one.Status()
					if len(s) != 1 || s[0].Free != want {
						t.Fatalf("free should be %v: %+v", want, s)
					}
					return s[0]
				}
				one.chat(t.Context()).want(t, 200)
				time.Sleep(sec)
				free(true)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				start := time.Now()
				for range tt.calls {
					go other.chat(ctx)
				}
				time.Sleep(sec)
				next := free(false).NextStart
				if tt.next == 0 && !next.IsZero() || tt.next > 0 && next.Sub(start).Round(sec) != tt.next {
					t.Errorf("next start at %v", next)
				}
				time.Sleep(tt.again)
				free(true)
				cancel()
				other.Drain()
				one.Drain()
			})
		})
	}
}

// slow is a shared limiter that does not say what it holds in time.
type slow struct{ far }

func (s *slow) Peek(ctx context.Context, _ string, _ []limiter.Limit) (limiter.View, error) {
	<-ctx.Done()
	return limiter.View{}, ctx.Err()
}

// A status does not wait long for a shared limiter.
func TestStatusOverASlowLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 60, Pacing: paceline.Burst}})
		r.Limiter = &slow{far{Limiter: memory.New()}}
		r.chat(t.Context()).want(t, 200)
		start := time.Now()
		if s := r.Status(); len(s) != 1 || !s[0].Free || time.Since(start) > sec {
			t.Errorf("after %v: %+v", time.Since(start), s)
		}
	})
}
