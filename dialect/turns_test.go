package dialect

import (
	"net/http"
	"testing"
	"time"
)

// How long a spent window runs yet by the provider's calendar, and the least
// wait by its rules, where a refusal says no wait.
func TestWorkedOut(t *testing.T) {
	received := time.Date(2026, 11, 29, 18, 30, 0, 0, time.UTC)
	perDay := `{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel","quotaValue":"50"}]}]}}`
	for name, tt := range map[string]struct {
		d            *Dialect
		status       int
		header       http.Header
		body         string
		turns, least time.Duration
	}{
		"a day of Gemini's": {Gemini, 429, nil, perDay, 13*time.Hour + 30*time.Minute, 0},
		"any other day":     {Generic, 429, nil, perDay, 5*time.Hour + 30*time.Minute, 0},
		"by its own clock":  {Generic, 429, http.Header{"Date": {"Sun, 29 Nov 2026 18:00:00 GMT"}}, perDay, 6 * time.Hour, 0},
		"a day with a wait": {Generic, 429, http.Header{"Retry-After": {"7200"}}, perDay, 0, 0},
		"what is spent in a month": {Anthropic, 429, nil,
			`{"type":"error","error":{"type":"rate_limit_error","message":"x","details":{"error_code":"enforced_spend_limit_reached"}}}`, 29*time.Hour + 30*time.Minute, 0},
		"Mistral's month":         {Mistral, 429, http.Header{"X-Ratelimit-Remaining-Tokens-Month": {"0"}}, "", 29*time.Hour + 30*time.Minute, 0},
		"a quota of no window":    {Generic, 429, nil, `{"error":{"code":"quota_exhausted"}}`, 0, 0},
		"a hidden limit":          {GitHub, 403, nil, `{"message":"You have exceeded a secondary rate limit."}`, 0, time.Minute},
		"a hidden limit, told":    {GitHub, 403, http.Header{"Retry-After": {"5"}}, `{"message":"You have exceeded a secondary rate limit."}`, 0, 0},
		"a plain limit":           {GitHub, 429, nil, `{"message":"Too many requests"}`, 0, 0},
		"elsewhere, in the words": {Generic, 403, nil, `{"message":"You have exceeded a secondary rate limit."}`, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := Head{Status: tt.status, Header: tt.header, Received: received}
			h.Date, _ = http.ParseTime(tt.header.Get("Date"))
			if r := tt.d.Read(h, []byte(tt.body)); r.Turns != tt.turns || r.Least != tt.least {
				t.Errorf("turns in %v, at least %v, want %v and %v: %+v", r.Turns, r.Least, tt.turns, tt.least, r)
			}
		})
	}
}

// A window that turns with the wall clock and tells no reset turns with the
// provider's, and one that tells it does not.
func TestWallClock(t *testing.T) {
	received := time.Date(2026, 11, 29, 18, 30, 20, 0, time.UTC)
	for date, turns := range map[string]time.Duration{"": 40 * time.Second, "Sun, 29 Nov 2026 18:30:55 GMT": 5 * time.Second} {
		h := Head{Status: 200, Received: received, Header: http.Header{
			"X-Ratelimit-Remaining-Req-Minute": {"3"}, "X-Ratelimit-Remaining-Tokens-Month": {"9"},
		}}
		h.Date, _ = http.ParseTime(date)
		for _, b := range Mistral.Read(h, nil).Buckets {
			want := Recovery{}
			if b.Window == Minute {
				want = Recovery{Kind: StepAt, Turns: received.Add(turns)}
			}
			if b.Recovery != want {
				t.Errorf("per %s: %+v, want %+v", b.Window, b.Recovery, want)
			}
		}
	}
	h := Head{Status: 200, Received: received, Header: http.Header{"X-Ratelimit-Remaining-Requests": {"3"}, "X-Ratelimit-Reset-Requests": {"7s"}}}
	if b := Mistral.Read(h, nil).Buckets[0]; !b.Recovery.Turns.IsZero() || !b.Recovery.At.Equal(received.Add(7*time.Second)) {
		t.Errorf("%+v", b.Recovery)
	}
}
