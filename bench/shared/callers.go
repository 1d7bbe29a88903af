package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// plenty is more than is ever asked for.
const plenty = 1 << 40

// windows is a request over three windows of one bucket, as a provider's entry
// makes it.
func windows(key string) limiter.Request {
	requests := key + "/requests"
	return limiter.Request{Key: key, Hold: time.Minute, Limits: []limiter.Limit{
		{Key: requests, Calls: plenty, Per: time.Second},
		{Key: requests, Calls: plenty, Per: time.Minute},
		{Key: requests, Calls: plenty, Per: 24 * time.Hour},
	}}
}

// window is a request over one window.
func window(key string) limiter.Request {
	r := windows(key)
	r.Limits = r.Limits[:1]
	return r
}

// placed is a request over three windows and a place, which lapses soon where nobody releases it.
func placed(key string) limiter.Request {
	r := windows(key)
	r.Limits = append(r.Limits, limiter.Limit{Key: key + "/places", Concurrent: 1 << 20})
	r.Hold = 20 * time.Millisecond
	return r
}

// requests are of so many callers over so many keys.
func requests(callers, keys int, make func(string) limiter.Request) []limiter.Request {
	var rs []limiter.Request
	for i := range callers {
		rs = append(rs, make(fmt.Sprintf("openai/%08x/", i%keys)))
	}
	return rs
}

// crowd has callers act again and again for a span.
func crowd(ctx context.Context, callers int, span time.Duration, act func(ctx context.Context, i int) (calls int, err error)) (perSecond float64, err error) {
	var all atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, callers)
	start := time.Now()
	for i := range callers {
		wg.Go(func() {
			for time.Since(start) < span && errs[i] == nil {
				var calls int
				calls, errs[i] = act(ctx, i)
				all.Add(int64(calls))
			}
		})
	}
	wg.Wait()
	return float64(all.Load()) / time.Since(start).Seconds(), errors.Join(errs...)
}

// one asks call by call, and releases what it holds where it is to.
func one(l limiter.Limiter, rs []limiter.Request, release bool) system {
	return func(ctx context.Context, span time.Duration) (float64, error) {
		return crowd(ctx, len(rs), span, func(ctx context.Context, i int) (int, error) {
			d, err := l.Acquire(ctx, rs[i])
			if err = granted(d, err); err == nil && release {
				err = l.Release(ctx, d.Permit)
			}
			return 1, err
		})
	}
}

func granted(d limiter.Decision, err error) error {
	if err == nil && !d.Granted {
		return fmt.Errorf("refused, though there is room: %v", d.Refused)
	}
	return err
}

// together has callers travel in batches, as the gate does: those that ask while
// a batch is under way go with the next one.
func together(l limiter.Limiter, rs []limiter.Request) system {
	type ask struct {
		limiter.Request
		answer chan error
	}
	return func(ctx context.Context, span time.Duration) (float64, error) {
		asks := make(chan ask, len(rs))
		go func() {
			for first := range asks {
				batch := []ask{first}
				for len(batch) < 64 && len(asks) > 0 {
					batch = append(batch, <-asks)
				}
				var together []limiter.Request
				for _, a := range batch {
					together = append(together, a.Request)
				}
				ds, err := limiter.AcquireBatch(ctx, l, together)
				for i, a := range batch {
					if err != nil {
						a.answer <- err
					} else {
						a.answer <- granted(ds[i], nil)
					}
				}
			}
		}()
		defer close(asks)
		return crowd(ctx, len(rs), span, func(_ context.Context, i int) (int, error) {
			a := ask{rs[i], make(chan error, 1)}
			asks <- a
			return 1, <-a.answer
		})
	}
}

// batches asks for so many at once.
func batches(l limiter.Limiter, rs []limiter.Request, size int) system {
	return func(ctx context.Context, span time.Duration) (float64, error) {
		return crowd(ctx, len(rs), span, func(ctx context.Context, i int) (int, error) {
			batch := make([]limiter.Request, size)
			for n := range batch {
				batch[n] = rs[i]
			}
			ds, err := limiter.AcquireBatch(ctx, l, batch)
			for _, d := range ds {
				err = errors.Join(err, granted(d, nil))
			}
			return size, err
		})
	}
}
