package stub_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/stub"
)

func TestRetryAfterForms(t *testing.T) {
	// The one token is back 90.5 s after the first request, which is at 00:00:00.25.
	for _, test := range []struct {
		form        stub.RetryAfter
		seconds, ms string
		until       time.Duration // from the refusal, as told
	}{
		{"", "91", "", 91 * time.Second},
		{stub.RetryAfterSeconds, "91", "", 91 * time.Second},
		{stub.RetryAfterMS, "", "90501", 90501 * time.Millisecond},
		{stub.RetryAfterDate, "Sat, 01 Jan 2000 00:01:31 GMT", "", 90*time.Second + 750*time.Millisecond},
		{stub.RetryAfterZero, "0", "", 0},
		{stub.RetryAfterNone, "", "", 0},
	} {
		t.Run(string(test.form), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(250 * time.Millisecond)
				s := mustStub(t, stub.Config{
					Meters:     []stub.Meter{{Kind: stub.Rolling, Limit: 1, Per: 90*time.Second + 500*time.Millisecond + 1}},
					RetryAfter: test.form,
				})
				expect(t, s, "200")
				resp, _ := post(t, s, chat, `{}`)
				if got := resp.Header.Get("Retry-After"); got != test.seconds {
					t.Errorf("Retry-After %q, want %q", got, test.seconds)
				}
				if got := resp.Header.Get("Retry-After-Ms"); got != test.ms {
					t.Errorf("Retry-After-Ms %q, want %q", got, test.ms)
				}
				if got, want := resp.Header.Get("Date"), "Sat, 01 Jan 2000 00:00:00 GMT"; got != want {
					t.Errorf("Date %q, want %q", got, want)
				}
				if test.until == 0 {
					time.Sleep(1)
					status(t, s)
					counts(t, s, stub.Counts{Admitted: 1, Refused: 2, PeakLive: 1, PeakWindow: 1})
					return
				}
				// Early is what comes before the told end, and not at it.
				time.Sleep(test.until - 1)
				status(t, s)
				time.Sleep(1)
				status(t, s)
				if got := s.Counts().Early; got != 1 {
					t.Errorf("%d early, want 1", got)
				}
			})
		})
	}
}

func TestRequestsUnderWayAreNotEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustStub(t, stub.Config{
			Meters: []stub.Meter{{Kind: stub.Rolling, Limit: 1}},
			Jitter: time.Second,
		})
		for range 50 {
			go post(t, s, chat, `{}`)
		}
		time.Sleep(time.Second)
		counts(t, s, stub.Counts{Admitted: 1, Refused: 49, PeakLive: 1, PeakWindow: 1})
		status(t, s)
		if got := s.Counts().Early; got != 1 {
			t.Errorf("%d early, want 1", got)
		}
	})
}

func TestErrorShapes(t *testing.T) {
	type shape struct {
		Type  string
		Error struct{ Type, Code, Message string }
	}
	for _, test := range []struct {
		method, url string
		step        stub.Step
		status      int
		want        shape
	}{
		{"POST", chat, stub.Step{Status: 429}, 429, shape{"", struct{ Type, Code, Message string }{"requests", "rate_limit_exceeded", "Too Many Requests"}}},
		{"POST", messages, stub.Step{Status: 429}, 429, shape{"error", struct{ Type, Code, Message string }{"rate_limit_error", "", "Too Many Requests"}}},
		{"POST", "http://stub.test/messages", stub.Step{Status: 529}, 529, shape{"error", struct{ Type, Code, Message string }{"overloaded_error", "", "Overloaded"}}},
		{"POST", "http://stub.test/chat/completions", stub.Step{Status: 503}, 503, shape{"", struct{ Type, Code, Message string }{"server_error", "", "Service Unavailable"}}},
		{"POST", messages, stub.Step{Status: 500}, 500, shape{"error", struct{ Type, Code, Message string }{"api_error", "", "Internal Server Error"}}},
		{"POST", "http://stub.test/v1/nothing", stub.Step{}, 404, shape{"", struct{ Type, Code, Message string }{"invalid_request_error", "not_found", "there is nothing at /v1/nothing"}}},
		{"GET", messages, stub.Step{}, 405, shape{"error", struct{ Type, Code, Message string }{"invalid_request_error", "", "/v1/messages takes POST"}}},
	} {
		s := mustStub(t, stub.Config{Script: []stub.Step{test.step}})
		r := request(t.Context(), test.url, `{}`)
		r.Method = test.method
		resp, err := s.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		var got shape
		if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
			t.Errorf("%s %d: %v", test.url, test.status, err)
		}
		if resp.StatusCode != test.status || got != test.want {
			t.Errorf("%s %s: got %d %+v, want %d %+v", test.method, test.url, resp.StatusCode, got, test.status, test.want)
		}
		if got := resp.Header.Get("Content-Type"); got != "application/json" {
			t.Errorf("Content-Type %q", got)
		}
	}
}

func TestRefusalSaysNoWaitInProse(t *testing.T) {
	// Under "none" a client must find no wait anywhere.
	s := mustStub(t, stub.Config{Meters: []stub.Meter{{Kind: stub.Rolling, Limit: 1}}, RetryAfter: stub.RetryAfterNone})
	status(t, s)
	resp, text := post(t, s, chat, `{}`)
	want := `{"error":{"code":"rate_limit_exceeded","message":"Rate limit reached for requests","param":null,"type":"requests"}}`
	if resp.StatusCode != 429 || text != want {
		t.Errorf("got %d %s", resp.StatusCode, text)
	}
}

func TestBudgetHeaders(t *testing.T) {
	bucket := []stub.Meter{{Kind: stub.Bucket, Limit: 10, Per: 10 * time.Second}, {Kind: stub.Rolling, Limit: 2, Per: time.Second}}
	for _, test := range []struct {
		headers stub.Headers
		at      stub.HeadersAt
		prefix  string
		want    [3]string // limit, remaining, reset
	}{
		{stub.HeadersOpenAI, "", "X-Ratelimit-", [3]string{"10", "9", "1s"}},
		{stub.HeadersOpenAI, stub.AtHead, "X-Ratelimit-", [3]string{"10", "8", "1.5s"}},
		{stub.HeadersAnthropic, stub.AtAdmission, "Anthropic-Ratelimit-", [3]string{"10", "9", "2000-01-01T00:00:01Z"}},
		{stub.HeadersAnthropic, stub.AtHead, "Anthropic-Ratelimit-", [3]string{"10", "8", "2000-01-01T00:00:02Z"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := mustStub(t, stub.Config{Meters: bucket, Headers: test.headers, HeadersAt: test.at, Service: 500 * time.Millisecond})
			done := make(chan *http.Response)
			go func() {
				resp, _ := post(t, s, chat, `{}`)
				done <- resp
			}()
			// Another one is admitted before the first head is written.
			time.Sleep(250 * time.Millisecond)
			go post(t, s, chat, `{}`)
			h := (<-done).Header
			names := [3]string{"Limit-Requests", "Remaining-Requests", "Reset-Requests"}
			if test.headers == stub.HeadersAnthropic {
				names = [3]string{"Requests-Limit", "Requests-Remaining", "Requests-Reset"}
			}
			for i, name := range names {
				if got := h.Get(test.prefix + name); got != test.want[i] {
					t.Errorf("%s at %q: %s is %q, want %q", test.headers, test.at, name, got, test.want[i])
				}
			}
			// The hidden short window refuses with most of the budget left.
			resp, _ := post(t, s, chat, `{}`)
			if got := h.Get("Retry-After"); got != "" {
				t.Errorf("an answer told a wait of %s", got)
			}
			if resp.StatusCode != 429 || resp.Header.Get(test.prefix+names[0]) != "10" || resp.Header.Get(test.prefix+names[1]) != "8" {
				t.Errorf("refusal: %d %v", resp.StatusCode, resp.Header)
			}
			time.Sleep(time.Second)
		})
	}
}

func TestBudgetOfWindows(t *testing.T) {
	for _, test := range []struct {
		kind stub.MeterKind
		want []string
	}{
		{stub.Rolling, []string{"2 1m0s", "1 1m0s", "0 1m0s", "0 50s", "0 40s", "2 1m0s"}},
		{stub.Fixed, []string{"2 40s", "1 30s", "0 20s", "0 10s", "2 1m0s", "2 20s"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := mustStub(t, stub.Config{Meters: []stub.Meter{{Kind: test.kind, Limit: 3}}, Headers: stub.HeadersOpenAI})
			time.Sleep(20 * time.Second)
			for i, pause := range []time.Duration{10, 10, 10, 10, 100, 0} {
				resp, _ := post(t, s, chat, `{}`)
				got := resp.Header.Get("X-Ratelimit-Remaining-Requests") + " " + resp.Header.Get("X-Ratelimit-Reset-Requests")
				if i < len(test.want) && got != test.want[i] {
					t.Errorf("%s, request %d at %v: %q, want %q", test.kind, i+1, time.Now().UTC().Format("15:04:05"), got, test.want[i])
				}
				time.Sleep(pause * time.Second)
			}
		})
	}
}

func TestNoBudgetHeadersUnlessAsked(t *testing.T) {
	for _, c := range []stub.Config{
		{Meters: []stub.Meter{{Kind: stub.Rolling, Limit: 5}}},
		{Meters: []stub.Meter{{Kind: stub.Rolling, Limit: 5}}, Headers: stub.HeadersNone},
		{Concurrent: 3, Headers: stub.HeadersOpenAI},
	} {
		resp, _ := post(t, mustStub(t, c), chat, `{}`)
		if _, some := resp.Header["X-Ratelimit-Limit-Requests"]; some {
			t.Errorf("%+v: %v", c, resp.Header)
		}
	}
}

func TestPenaltiesLeaveNothingBelowZero(t *testing.T) {
	for _, kind := range []stub.MeterKind{stub.Rolling, stub.Fixed, stub.Bucket} {
		synctest.Test(t, func(t *testing.T) {
			s := mustStub(t, stub.Config{Meters: []stub.Meter{{Kind: kind, Limit: 1}}, Penalise: true, Headers: stub.HeadersOpenAI})
			for range 4 {
				resp, _ := post(t, s, chat, `{}`)
				if got := resp.Header.Get("X-Ratelimit-Remaining-Requests"); got != "0" {
					t.Errorf("%s: %s remaining", kind, got)
				}
			}
		})
	}
}
