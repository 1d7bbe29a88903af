package goodput

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// SDK is the retry rule that the SDKs of model providers ship with: two
// retries, each request by itself, half a second doubling to eight less up to
// a quarter, and a told wait instead where it is under a minute.
var SDK = System{"sdk", false, func(_ Scenario, provider http.RoundTripper, chance *rand.Rand) http.RoundTripper {
	return &retrying{base: provider, chance: chance}
}}

const (
	sdkRetries = 2
	sdkFirst   = 500 * time.Millisecond
	sdkLongest = 8 * time.Second
	sdkObeys   = time.Minute
)

type retrying struct {
	base http.RoundTripper

	mu     sync.Mutex
	chance *rand.Rand
}

func (r *retrying) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	for n := 0; ; n++ {
		again := req.Clone(req.Context())
		again.Body = io.NopCloser(bytes.NewReader(body))
		res, err := r.base.RoundTrip(again)
		if err != nil || res.StatusCode != http.StatusTooManyRequests || n == sdkRetries {
			return res, err
		}
		wait := r.wait(res.Header, n)
		res.Body.Close()
		if err := sleep(req.Context(), wait); err != nil {
			return nil, err
		}
	}
}

func (r *retrying) wait(h http.Header, n int) time.Duration {
	if told := toldWait(h); told > 0 && told < sdkObeys {
		return told
	}
	d := min(sdkFirst<<n, sdkLongest)
	r.mu.Lock()
	defer r.mu.Unlock()
	return d - time.Duration(r.chance.Int64N(int64(d/4)+1))
}

// toldWait reads the two relative forms, which are all these trials use.
func toldWait(h http.Header) time.Duration {
	if ms, err := strconv.Atoi(h.Get("Retry-After-Ms")); err == nil {
		return time.Duration(ms) * time.Millisecond
	}
	if s, err := strconv.Atoi(h.Get("Retry-After")); err == nil {
		return time.Duration(s) * time.Second
	}
	return 0
}

// sleep waits for d, or for the end of ctx, which is an error.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
