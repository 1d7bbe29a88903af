package goodput

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// The two client-side counters people reach for first. Both know the
// provider's main limit and its cap on concurrency, start requests as fast as
// they come until the count is used up, and wait for the next period then. A
// refusal is final: neither repeats anything.
var (
	// Bottleneck refills its reservoir at fixed intervals from its own start,
	// as the library of that name does with reservoirRefreshInterval.
	Bottleneck = System{"bottleneck", false, func(s Scenario, provider http.RoundTripper, _ *rand.Rand) http.RoundTripper {
		start := time.Now()
		return newCounting(s, provider, func(now time.Time, per time.Duration) time.Time {
			return start.Add(now.Sub(start).Truncate(per))
		})
	}}
	// Calendar counts by whole minutes (or whatever the window is) of the
	// client's wall clock.
	Calendar = System{"calendar", false, func(s Scenario, provider http.RoundTripper, _ *rand.Rand) http.RoundTripper {
		return newCounting(s, provider, func(now time.Time, per time.Duration) time.Time { return now.Truncate(per) })
	}}
)

// counting is a count that starts again with every period.
type counting struct {
	base  http.RoundTripper
	limit int
	per   time.Duration
	// begin is when the period of an instant began.
	begin  func(now time.Time, per time.Duration) time.Time
	places chan struct{} // nil is no cap

	mu     sync.Mutex
	period time.Time
	used   int
}

func newCounting(s Scenario, provider http.RoundTripper, begin func(time.Time, time.Duration) time.Time) *counting {
	c := &counting{base: provider, begin: begin}
	if m, counts := s.main(); counts {
		c.limit, c.per = m.Limit, m.Per
	}
	if n := s.places(); n > 0 {
		c.places = make(chan struct{}, n)
	}
	return c
}

func (c *counting) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if c.places != nil {
		select {
		case c.places <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	for wait := c.take(); wait > 0; wait = c.take() {
		if err := sleep(ctx, wait); err != nil {
			c.leave()
			return nil, err
		}
	}
	res, err := c.base.RoundTrip(req)
	if err != nil {
		c.leave()
		return nil, err
	}
	res.Body = &leaving{ReadCloser: res.Body, leave: sync.OnceFunc(c.leave)}
	return res, nil
}

// take counts a request, or says how long it is to the next period.
func (c *counting) take() time.Duration {
	if c.limit == 0 {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if p := c.begin(now, c.per); !p.Equal(c.period) {
		c.period, c.used = p, 0
	}
	if c.used < c.limit {
		c.used++
		return 0
	}
	return c.period.Add(c.per).Sub(now)
}

func (c *counting) leave() {
	if c.places != nil {
		<-c.places
	}
}

// leaving gives a place back when the answer is closed.
type leaving struct {
	io.ReadCloser
	leave func()
}

func (l *leaving) Close() error {
	defer l.leave()
	return l.ReadCloser.Close()
}
