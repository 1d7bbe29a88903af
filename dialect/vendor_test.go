package dialect_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/memory"
)

// answered is a head with headers given as name and value in turn.
func answered(status int, headers ...string) dialect.Head {
	h := dialect.Head{Status: status, Header: make(http.Header), Received: time.Date(2026, 10, 4, 12, 0, 0, 0, time.UTC)}
	for i := 0; i < len(headers); i += 2 {
		h.Header.Set(headers[i], headers[i+1])
	}
	return h
}

func TestVendorWait(t *testing.T) {
	const throttleAfter = 7 * time.Second
	for _, tt := range []struct {
		what string
		head dialect.Head
		body string
		want time.Duration
	}{
		{"L-90: Retry-After in seconds", answered(429, "Retry-After", "20"), "", 20 * time.Second},
		{"L-91: Retry-After as a date", answered(429, "Retry-After", "Sun, 04 Oct 2026 12:00:33 GMT"), "", 33 * time.Second},
		{"L-92: RetryInfo", answered(429), `{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"39.5s"}]}}`, 39500 * time.Millisecond},
		{"L-93: at least a second", answered(429, "Retry-After-Ms", "180"), "", time.Second},
		{"L-93: at least a second, where zero was said", answered(429, "Retry-After", "0"), "", time.Second},
		{"L-94: at most two minutes", answered(429, "Retry-After", "3600"), "", 2 * time.Minute},
		{"L-95: nothing said", answered(429), "", throttleAfter},
		{"L-95: nothing readable said", answered(429, "Retry-After", "soon"), "", throttleAfter},
	} {
		if got := dialect.VendorWait(dialect.Generic.ReadHead(tt.head, []byte(tt.body)), throttleAfter); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.what, got, tt.want)
		}
	}
}

func TestVendorBudget(t *testing.T) {
	for _, tt := range []struct {
		what    string
		d       *dialect.Dialect
		headers []string
		want    time.Duration
	}{
		{"L-97, L-101, L-106: Anthropic's requests", dialect.Anthropic, []string{"anthropic-ratelimit-requests-remaining", "0", "anthropic-ratelimit-requests-reset", "2026-10-04T12:00:10Z"}, 10 * time.Second},
		{"L-98, L-108: Anthropic's tokens", dialect.Anthropic, []string{"anthropic-ratelimit-requests-remaining", "9", "anthropic-ratelimit-requests-reset", "2026-10-04T12:00:50Z",
			"anthropic-ratelimit-tokens-remaining", "0", "anthropic-ratelimit-tokens-reset", "2026-10-04T12:00:30Z"}, 30 * time.Second},
		{"L-99, L-102: requests, a duration", dialect.OpenAI, []string{"x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "1m30s"}, 90 * time.Second},
		{"L-100, L-103: tokens, seconds", dialect.Generic, []string{"x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens", "12"}, 12 * time.Second},
		{"L-104: of several, the one that binds", dialect.Generic, []string{"x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "5",
			"x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens", "45"}, 45 * time.Second},
		{"L-102, L-105: at most two minutes", dialect.OpenAI, []string{"x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "6m0s"}, 2 * time.Minute},
		{"L-107: something left", dialect.Generic, []string{"x-ratelimit-limit-requests", "60", "x-ratelimit-remaining-requests", "1", "x-ratelimit-reset-requests", "59"}, 0},
		{"L-111: no reset", dialect.Generic, []string{"x-ratelimit-remaining-requests", "0"}, 0},
		{"L-111: no readable reset", dialect.Generic, []string{"x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "later"}, 0},
		{"L-111: a reset that has passed", dialect.Anthropic, []string{"anthropic-ratelimit-requests-remaining", "0", "anthropic-ratelimit-requests-reset", "2026-10-04T11:00:00Z"}, 0},
		{"nothing", dialect.Anthropic, nil, 0},
	} {
		h := answered(200, tt.headers...)
		if got := dialect.VendorBudget(tt.d.ReadHead(h, nil), h.Received); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.what, got, tt.want)
		}
	}
}

// A host is a small client of a limiter's: it asks before each call, and tells
// the limiter what the vendor says.
type host struct {
	limiter limiter.Limiter
	dialect *dialect.Dialect
	key     string
	vendor  func() dialect.Head
}

// call makes one call. It does not wait: refused is until when to.
func (h host) call(ctx context.Context) (refused time.Time, err error) {
	d, err := h.limiter.Acquire(ctx, limiter.Request{Key: h.key, Hold: time.Minute, Limits: []limiter.Limit{{Key: h.key, Calls: 100, Per: time.Minute, Concurrent: 1}}})
	if err != nil || !d.Granted {
		return d.RetryAt, err
	}
	defer h.limiter.Release(ctx, d.Permit)
	head := h.vendor()
	head.Received = time.Now()
	r := h.dialect.ReadHead(head, nil)
	closed := dialect.VendorBudget(r, head.Received)
	if head.Status == http.StatusTooManyRequests {
		closed = dialect.VendorWait(r, 5*time.Second)
	}
	if closed > 0 {
		return time.Time{}, h.limiter.Throttle(ctx, h.key, head.Received.Add(closed))
	}
	return time.Time{}, nil
}

// L-88, L-89, L-96, L-109, L-110: whatever module makes the calls, a 429 and a
// success that leaves nothing close its key by the same throttle, for as long as
// the vendor says, and the permit is handed back meanwhile.
func TestVendorThrottles(t *testing.T) {
	for _, tt := range []struct {
		module string
		d      *dialect.Dialect
		head   dialect.Head
		want   time.Duration
	}{
		{"anthropic", dialect.Anthropic, answered(429, "Retry-After", "30"), 30 * time.Second},
		{"affinity", dialect.Generic, answered(429, "X-Ratelimit-Limit-User-Remaining", "0"), 5 * time.Second},
		{"web", dialect.Generic, answered(429), 5 * time.Second},
		{"anthropic, on success", dialect.Anthropic, answered(200, "anthropic-ratelimit-tokens-remaining", "0", "anthropic-ratelimit-tokens-reset", "2000-01-01T00:00:40Z"), 40 * time.Second},
		{"anthropic, with something left", dialect.Anthropic, answered(200, "anthropic-ratelimit-tokens-remaining", "1000", "anthropic-ratelimit-tokens-reset", "2000-01-01T00:00:40Z"), 0},
	} {
		synctest.Test(t, func(t *testing.T) { // which begins at midnight, 2000-01-01
			h := host{memory.New(), tt.d, tt.module, func() dialect.Head { return tt.head }}
			if _, err := h.call(t.Context()); err != nil {
				t.Fatal(err)
			}
			d, err := h.limiter.Acquire(t.Context(), limiter.Request{Key: tt.module})
			if err != nil || d.Granted != (tt.want == 0) {
				t.Fatalf("%s: %+v, %v", tt.module, d, err)
			}
			if !d.Granted && (d.RetryAt.Sub(d.Now) != tt.want || d.Refused[0].Cause != limiter.Throttle) {
				t.Errorf("%s: %+v, want closed for %v", tt.module, d, tt.want)
			}
			time.Sleep(tt.want)
			// Its only place was handed back, or this would be refused.
			if refused, err := h.call(t.Context()); err != nil || !refused.IsZero() {
				t.Errorf("%s: refused until %v, %v", tt.module, refused, err)
			}
		})
	}
}

// A host that keeps its own limits tells its limiter what the vendor says, after
// refusals and after successes.
func ExampleVendorWait() {
	lim := memory.New()
	res := dialect.Head{Status: 429, Header: http.Header{"Retry-After": {"20"}}, Received: time.Now()}

	reading := dialect.Anthropic.ReadHead(res, nil)
	closed := dialect.VendorBudget(reading, res.Received)
	if res.Status == http.StatusTooManyRequests {
		closed = dialect.VendorWait(reading, 5*time.Second)
	}
	if closed > 0 {
		lim.Throttle(context.Background(), "anthropic", res.Received.Add(closed))
	}
	fmt.Println(closed)
	// Output: 20s
}
