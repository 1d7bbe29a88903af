package dialect

import (
	"net/http"
	"testing"
	"time"
)

// answerTo builds a head that arrived at noon; headers come in pairs.
func answerTo(status int, headers ...string) Head {
	h := Head{Status: status, Header: make(http.Header), Received: noon}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Header[headers[i]] = append(h.Header[headers[i]], headers[i+1])
	}
	return h
}

const unsaid = time.Duration(-1)

// What the golden cases do not show: how statements outrank each other, and the
// flags that are not in their schema.
func TestReading(t *testing.T) {
	type flags struct{ tooLarge, concurrent, named bool }
	for _, c := range []struct {
		name  string
		d     *Dialect
		head  Head
		body  string
		class Class
		wait  time.Duration
		flags
	}{
		{name: "no answer at all", d: Generic, head: answerTo(0), class: Unavailable, wait: unsaid},
		{name: "not modified", d: Generic, head: answerTo(304, "Retry-After", "5"), class: OK, wait: unsaid},
		{name: "S-18 a date", d: Generic, head: answerTo(429, "Retry-After", "Sun, 04 Oct 2026 12:00:30 GMT"), class: RateLimited, wait: 30 * time.Second},
		{name: "S-18 a malformed date", d: Generic, head: answerTo(429, "Retry-After", "Sun, 04 Oct"), class: RateLimited, wait: unsaid},
		{name: "P-90 zero is told", d: Generic, head: answerTo(429, "Retry-After", "0"), class: RateLimited, wait: 0},
		{name: "P-90 negative is not said", d: Generic, head: answerTo(429, "Retry-After", "-1"), class: RateLimited, wait: unsaid},
		{name: "P-90 past is not said", d: Generic, head: answerTo(429, "Retry-After", "Sun, 04 Oct 2026 11:00:00 GMT"), class: RateLimited, wait: unsaid},
		{name: "P-91 fractions", d: Generic, head: answerTo(429, "Retry-After", "0.0001"), class: RateLimited, wait: time.Millisecond},
		{name: "L-90 seconds", d: Generic, head: answerTo(429, "retry-after", "7"), class: RateLimited, wait: 7 * time.Second},
		{name: "L-92 RetryInfo", d: Generic, head: answerTo(429), body: `{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"45.837906927s"}]}}`, class: RateLimited, wait: 45838 * time.Millisecond},
		{name: "R-49 malformed values are passed over", d: OpenAI, head: answerTo(429, "X-Ratelimit-Limit-Requests", "NaN", "X-Ratelimit-Remaining-Requests", "1e9", "X-Ratelimit-Reset-Requests", "PT5S", "Retry-After", "3"), class: RateLimited, wait: 3 * time.Second},

		{name: "name with a stray space", d: Generic, head: answerTo(429, "Retry-After ", "9"), class: RateLimited, wait: 9 * time.Second},
		{name: "longest line", d: Generic, head: answerTo(429, "Retry-After", "9", "Retry-After", "30"), class: RateLimited, wait: 30 * time.Second},
		{name: "finer header first", d: OpenAI, head: answerTo(429, "Retry-After", "1", "Retry-After-Ms", "180"), class: RateLimited, wait: 180 * time.Millisecond},
		{name: "vendor's finer header", d: Generic, head: answerTo(503, "X-Ms-Retry-After-Ms", "2500"), class: Unavailable, wait: 2500 * time.Millisecond},
		{name: "zero milliseconds alone", d: Generic, head: answerTo(429, "Retry-After-Ms", "0"), class: RateLimited, wait: 0},
		{name: "negative milliseconds", d: Generic, head: answerTo(429, "Retry-After-Ms", "-5", "Retry-After", "2"), class: RateLimited, wait: 2 * time.Second},
		{name: "an hour asked for", d: Generic, head: answerTo(429, "Retry-After", "3600"), class: QuotaExhausted, wait: time.Hour},
		{name: "just under an hour", d: Generic, head: answerTo(429, "Retry-After", "3599"), class: RateLimited, wait: 3599 * time.Second},
		{name: "a lone reset", d: Generic, head: answerTo(429, "X-Ratelimit-Reset", "55"), class: RateLimited, wait: 55 * time.Second},
		{name: "a reset beside what is left", d: Generic, head: answerTo(429, "X-Ratelimit-Reset", "55", "X-Ratelimit-Remaining", "4"), class: RateLimited, wait: unsaid},
		{name: "latest of the empty buckets", d: OpenAI, head: answerTo(429,
			"X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "12s",
			"X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "20s"), class: RateLimited, wait: 20 * time.Second, flags: flags{named: true}},
		{name: "an empty bucket is no cause of overload", d: OpenAI, head: answerTo(529, "X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "12s"), class: Overloaded, wait: unsaid},

		{name: "spend cap", d: Anthropic, head: answerTo(429), body: `{"type":"error","error":{"type":"rate_limit_error","message":"x","details":{"error_code":"enforced_spend_limit_reached"}}}`, class: QuotaExhausted, wait: unsaid},
		{name: "usage limits until a date", d: Anthropic, head: answerTo(400), body: `{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-10-05 at 00:00 UTC."}}`, class: QuotaExhausted, wait: 12 * time.Hour},
		{name: "too large a body is a wrong request", d: Anthropic, head: answerTo(413), body: `{"type":"error","error":{"type":"request_too_large"}}`, class: Rejected, wait: unsaid},
		{name: "both rejected windows must open", d: Anthropic, head: answerTo(429, "Retry-After", "60",
			"Anthropic-Ratelimit-Unified-Status", "rejected",
			"Anthropic-Ratelimit-Unified-5h-Status", "rejected", "Anthropic-Ratelimit-Unified-5h-Reset", "1791118800",
			"Anthropic-Ratelimit-Unified-7d-Status", "rejected", "Anthropic-Ratelimit-Unified-7d-Reset", "1791201600"), class: QuotaExhausted, wait: 24 * time.Hour, flags: flags{named: true}},
		{name: "overage off is no rejection", d: Anthropic, head: answerTo(429, "Anthropic-Ratelimit-Unified-Status", "allowed", "Anthropic-Ratelimit-Unified-Overage-Status", "rejected"), class: RateLimited, wait: unsaid},
		{name: "organization's minute", d: Anthropic, head: answerTo(429), body: `{"error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 30,000 input tokens per minute"}}`, class: RateLimited, wait: unsaid, flags: flags{named: true}},

		{name: "no money in the sentence only", d: OpenAI, head: answerTo(429), body: `{"error":{"message":"You exceeded your current quota, please check your plan and billing details."}}`, class: RateLimited, wait: unsaid},
		{name: "day in prose", d: OpenAI, head: answerTo(429, "Retry-After", "2"), body: `{"error":{"message":"Rate limit reached for m in organization o on requests per day (RPD): Limit 200, Used 200, Requested 1. Please try again in 7m12s.","type":"requests","code":"rate_limit_exceeded"}}`, class: QuotaExhausted, wait: 432 * time.Second, flags: flags{named: true}},
		{name: "larger than the window under 429", d: OpenAI, head: answerTo(429, "Retry-After", "2"), body: `{"error":{"message":"Request too large for m on tokens per min (TPM): Limit 30000, Requested 41234.","type":"tokens","code":"rate_limit_exceeded"}}`, class: RateLimited, wait: unsaid, flags: flags{tooLarge: true, named: true}},
		{name: "slow down as overload", d: OpenAI, head: answerTo(503), body: `{"error":{"code":"slow_down","message":"Slow Down"}}`, class: Overloaded, wait: unsaid},
		{name: "overload under 400", d: OpenAI, head: answerTo(400), body: `{"error":{"code":"server_is_overloaded"}}`, class: Overloaded, wait: unsaid},
		{name: "plan with seconds", d: OpenAI, head: answerTo(429), body: `{"error":{"type":"usage_limit_reached","resets_at":1791201600,"resets_in_seconds":7200}}`, class: QuotaExhausted, wait: 2 * time.Hour},
		{name: "failed response as an event", d: OpenAI, head: answerTo(200, "Content-Type", "text/event-stream"), body: "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"rate_limit_exceeded\",\"message\":\"Please try again in 3s.\"}}}\n\n", class: RateLimited, wait: 3 * time.Second},
		{name: "a ping before the error", d: Anthropic, head: answerTo(200), body: ": ping\n\nevent: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\"}}\n\n", class: Unavailable, wait: unsaid},
		{name: "null error in an answer", d: OpenAI, head: answerTo(200), body: `{"error":null,"output":[{"text":"error code 429"}]}`, class: OK, wait: unsaid},
		{name: "first event of an answer", d: Anthropic, head: answerTo(200), body: "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"content\":\"overloaded_error\"}}\n\n", class: OK, wait: unsaid},

		{name: "concurrency in prose", d: Generic, head: answerTo(429), body: `{"error":{"message":"Online prediction concurrent requests quota exceeded"}}`, class: RateLimited, wait: unsaid, flags: flags{concurrent: true}},
		{name: "payment before concurrency", d: Generic, head: answerTo(402), body: `{"error":{"code":"concurrency_limit","message":"too many concurrent requests"}}`, class: Billing, wait: unsaid},
		{name: "forbidden", d: Generic, head: answerTo(403), body: `{"error":{"message":"no access to this model"}}`, class: Rejected, wait: unsaid},
		{name: "forbidden for a rate", d: Generic, head: answerTo(403), body: `{"message":"You have exceeded a secondary rate limit."}`, class: RateLimited, wait: unsaid},
		{name: "forbidden with HTML about rates", d: Generic, head: answerTo(403), body: `<p>rate limit</p>`, class: Rejected, wait: unsaid},
		{name: "document inside a sentence", d: Generic, head: answerTo(500), body: `{"error":{"message":"{\"error\":{\"code\":\"insufficient_quota\"}}"}}`, class: Billing, wait: unsaid},
		{name: "quota delay without RetryInfo", d: Generic, head: answerTo(429), body: `{"error":{"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"RATE_LIMIT_EXCEEDED","metadata":{"quotaResetDelay":"373.801628ms"}}]}}`, class: RateLimited, wait: 374 * time.Millisecond},
		{name: "violated day beside a short delay", d: Generic, head: answerTo(429), body: `{"error":{"details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier","quotaValue":"50"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"7s"}]}}`, class: QuotaExhausted, wait: 7 * time.Second, flags: flags{named: true}},
		{name: "a concurrent change is no limit", d: Generic, head: answerTo(409), body: `{"code":"ConcurrentModificationException"}`, class: Rejected, wait: unsaid},
		{name: "a wait beyond belief is reported as said", d: Generic, head: answerTo(429, "Retry-After", "99999999"), class: QuotaExhausted, wait: 99999999 * time.Second},
		{name: "cut in the code", d: Generic, head: answerTo(429), body: `{"error":{"code":"insufficient_quota"`, class: RateLimited, wait: unsaid},
		{name: "a stale copy says nothing", d: Generic, head: answerTo(429, "Age", "5", "Ratelimit", `"a";r=0;t=50`), class: RateLimited, wait: unsaid},
		{name: "busy server", d: Generic, head: answerTo(503), body: `{"error":"server busy, please try again.  maximum pending requests exceeded"}`, class: Overloaded, wait: unsaid},

		{name: "Retry-After before t", d: Generic, head: answerTo(429, "Ratelimit", `"a";r=0;t=50`, "Retry-After", "5"), class: RateLimited, wait: 5 * time.Second, flags: flags{named: true}},
		{name: "policy of concurrency", d: Generic, head: answerTo(429, "Ratelimit", `"a";r=0`, "Ratelimit-Policy", `"a";q=4;qu="concurrent-requests"`), class: RateLimited, wait: unsaid, flags: flags{concurrent: true}},
		{name: "violated policy by name", d: Generic, head: answerTo(429, "Ratelimit-Policy", `"daily";q=9;w=86400`), body: `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","violated-policies":["daily"]}`, class: QuotaExhausted, wait: unsaid, flags: flags{named: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := c.d.ReadHead(c.head, []byte(c.body))
			wait := unsaid
			if r.Told {
				wait = r.Wait
			}
			if r.Class != c.class || wait != c.wait {
				t.Errorf("class %s wait %v, want %s %v (%s)", r.Class, wait, c.class, c.wait, r.Why)
			}
			if got := (flags{r.TooLarge, r.Concurrent, r.Named}); got != c.flags {
				t.Errorf("flags %+v, want %+v", got, c.flags)
			}
		})
	}
}

// Absolute instants are measured from the provider's clock, and land on ours.
func TestDateTurnsInstantsIntoDurations(t *testing.T) {
	h := answerTo(429, "X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", "2026-10-04T13:00:20Z")
	h.Date = noon.Add(time.Hour)
	r := Generic.ReadHead(h, nil)
	if r.Wait != 20*time.Second {
		t.Errorf("wait %v", r.Wait)
	}
	if at := r.Buckets[0].Recovery.At; !at.Equal(noon.Add(20 * time.Second)) {
		t.Errorf("reset at %v", at)
	}
}

// A bucket of one request in 7m12s is one of 200 a day.
func TestOpenAIRequestsMayBeADay(t *testing.T) {
	for _, c := range []struct{ limit, remaining, reset, window string }{
		{"200", "199", "7m12s", Day},
		{"200", "0", "23h59m", Day},
		{"5000", "4999", "12ms", Minute},
		{"60", "0", "60s", Minute},
		{"60", "60", "0s", Minute},
	} {
		r := OpenAI.ReadHead(answerTo(200, "X-Ratelimit-Limit-Requests", c.limit,
			"X-Ratelimit-Remaining-Requests", c.remaining, "X-Ratelimit-Reset-Requests", c.reset), nil)
		if got := r.Buckets[0]; got.Window != c.window || got.Recovery.Kind != FullAt {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// Anthropic rounds to thousands; a remainder that is no round number was not.
func TestAnthropicRounding(t *testing.T) {
	for remaining, want := range map[string]int64{"29000": 1000, "0": 1000, "29873": 0} {
		r := Anthropic.ReadHead(answerTo(200, "Anthropic-Ratelimit-Tokens-Remaining", remaining, "Anthropic-Workspace-Id", "w1"), nil)
		if b := r.Buckets[0]; b.Rounding != want || b.Scope != "w1" {
			t.Errorf("%s: %+v", remaining, b)
		}
	}
}
