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
