package paceline_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/stub"
)

// refusalsThen scripts n refusals that say nothing of a wait.
func silent(status, n int) []stub.Step {
	steps := make([]stub.Step, n)
	for i := range steps {
		steps[i] = stub.Step{Status: status}
	}
	return steps
}

func told(wait time.Duration) stub.Step { return stub.Step{Status: 429, Wait: wait} }

// P-30, P-31, P-44: every attempt passes the limiter, is counted when it is
// sent, and has its send time in the log. S-09: one 429 does not end a task.
func TestRetriesAreCountedWhenSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{told(7 * sec), told(sec)}},
			paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 3, Pacing: paceline.Burst, WindowSlack: -1, Adaptive: paceline.Adaptive{Off: true}}})
		start := time.Now()
		r.chat(t.Context()).want(t, 200)
		r.chat(t.Context()).want(t, 200)
		// Two refused attempts and the first answer fill the minute.
		wantInstants(t, r.sent(start), 0, 7*sec, 8*sec, 60*sec)
		for i, rec := range r.logged() {
			if rec.Sent.IsZero() || rec.Done.Before(rec.Sent) {
				t.Errorf("record %d has no send time: %+v", i, rec)
			}
		}
	})
}

// P-32: a 5xx retry enters the limiter again and is counted.
func TestServerErrorRetryIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: silent(500, 1)},
			paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 2, Pacing: paceline.Burst, WindowSlack: -1}})
		start := time.Now()
		r.chat(t.Context()).want(t, 200)
		r.chat(t.Context()).want(t, 200)
		at := r.sent(start)
		if len(at) != 3 || at[2] != time.Minute {
			t.Errorf("sent at %s; the failed attempt and its retry should fill the minute", secs(at))
		}
	})
}

// P-33, S-01, S-03, S-04, S-07: 429s have their own budget of six retries; the
// seventh in a row is the error, with status 429.
func TestRateLimitBudget(t *testing.T) {
	for _, tt := range []struct {
		refusals, status, attempts int
	}{{5, 200, 6}, {6, 200, 7}, {7, 429, 7}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, stub.Config{Script: silent(429, tt.refusals)}, paceline.Provider{})
			a := r.chat(t.Context())
			a.want(t, tt.status)
			if n := len(r.logged()); n != tt.attempts {
				t.Errorf("%d refusals: %d attempts, want %d", tt.refusals, n, tt.attempts)
			}
			if gaveUp := a.header.Get("X-Should-Retry") == "false"; gaveUp != (tt.status == 429) {
				t.Errorf("%d refusals: x-should-retry is %q", tt.refusals, a.header.Get("X-Should-Retry"))
			}
		})
	}
}

// P-34, S-05, S-06: server errors and lost connections share a budget: three
// attempts in all.
func TestErrorBudget(t *testing.T) {
	reset := stub.Step{Fault: stub.FaultReset}
	for name, tt := range map[string]struct {
		script []stub.Step
		status int
	}{
		"persistent 5xx": {silent(500, 9), 500},
		"two, then well": {silent(502, 2), 200},
		"mixed":          {[]stub.Step{{Status: 500}, reset, {Status: 503}}, 503},
		"lost":           {[]stub.Step{reset, reset}, 200},
		"lost for good":  {[]stub.Step{reset, reset, reset}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, stub.Config{Script: tt.script}, paceline.Provider{})
				a := r.chat(t.Context())
				if tt.status == 0 {
					if !errors.Is(a.err, stub.ErrReset) {
						t.Errorf("the error is %v; want the lost connection", a.err)
					}
				} else {
					a.want(t, tt.status)
				}
				if n := len(r.logged()); n != 3 {
					t.Errorf("%d attempts, want 3", n)
				}
			})
		})
	}
}

// S-02, S-08: each kind spends only its own budget.
func TestBudgetsAreSeparate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var script []stub.Step
		for range 2 {
			script = append(script, silent(429, 3)...)
			script = append(script, stub.Step{Status: 500})
		}
		r := newRig(t, stub.Config{Script: script}, paceline.Provider{})
		r.chat(t.Context()).want(t, 200)
		if n := len(r.logged()); n != 9 {
			t.Errorf("%d attempts, want 9", n)
		}
	})
}

// P-48: a request cancelled while queued takes no start and no place.
func TestCancelledWhileQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Service: 10 * sec},
			paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 2, MaxConcurrent: 1, Pacing: paceline.Burst, WindowSlack: -1}})
		start := time.Now()
		go r.chat(t.Context())
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan reply)
		go func() { gone <- r.chat(ctx) }()
		time.Sleep(sec)
		cancel()
		if a := <-gone; !errors.Is(a.err, context.Canceled) || a.took != sec {
			t.Errorf("the cancelled call came to %v after %v", a.err, a.took)
		}
		r.chat(t.Context()).want(t, 200) // the second start of the minute
		wantInstants(t, r.sent(start), 0, 10*sec)
		unsent := 0
		for _, rec := range r.logged() {
			if rec.NotSent && rec.Aborted {
				unsent++
			}
		}
		if unsent != 1 {
			t.Errorf("%d records of a request that left unsent, want 1", unsent)
		}
	})
}

// S-10, S-12, S-13, S-14, P-80, P-90: a stated wait is waited in full; what
// is not stated, or stated as zero, doubles from two seconds up to a minute,
// plus up to a quarter.
func TestWaits(t *testing.T) {
	t.Run("told", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, stub.Config{Script: []stub.Step{told(3 * sec), told(90 * sec)}}, paceline.Provider{})
			start := time.Now()
			r.chat(t.Context()).want(t, 200)
			wantInstants(t, r.sent(start), 0, 3*sec, 93*sec)
		})
	})
	t.Run("S-13: Retry-After before the reset family", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			step := told(3 * sec)
			step.Header = http.Header{"X-Ratelimit-Reset-Requests": {"20s"}, "X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Limit-Requests": {"60"}}
			r := newRig(t, stub.Config{Script: []stub.Step{step}}, paceline.Provider{})
			start := time.Now()
			r.chat(t.Context()).want(t, 200)
			wantInstants(t, r.sent(start), 0, 3*sec)
		})
	})
	t.Run("S-11: the reset family alone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			step := stub.Step{Status: 429, Header: http.Header{"X-Ratelimit-Reset-Requests": {"20s"}, "X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Limit-Requests": {"60"}}}
			r := newRig(t, stub.Config{Script: []stub.Step{step}}, paceline.Provider{})
			start := time.Now()
			r.chat(t.Context()).want(t, 200)
			wantInstants(t, r.sent(start), 0, 20*sec)
		})
	})
	for name, step := range map[string]stub.Step{
		"untold": {Status: 429},
		"zero":   {Status: 429, RetryAfter: stub.RetryAfterZero},
		"past":   {Status: 429, Header: http.Header{"Retry-After": {"Fri, 31 Dec 1999 23:59:59 GMT"}}},
		"minus":  {Status: 429, Header: http.Header{"Retry-After": {"-11"}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, stub.Config{Script: []stub.Step{step, step, step, step, step, step}}, paceline.Provider{})
				start := time.Now()
				r.chat(t.Context()).want(t, 200)
				at := r.sent(start)
				for i, base := range []time.Duration{2, 4, 8, 16, 32, 60} {
					wait := at[i+1] - at[i]
					if base *= sec; wait < base || wait > base+base/4 {
						t.Errorf("wait %d is %v; want %v and up to a quarter more", i+1, wait, base)
					}
				}
			})
		})
	}
}

// S-18: a malformed date counts as nothing said; P-91: fractions of
// seconds are read.
func TestOddWaits(t *testing.T) {
	for value, want := range map[string]time.Duration{"1.5": 1500 * time.Millisecond, "Sometime, 99 Foo": 2 * sec, "soon": 2 * sec} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, stub.Config{Script: []stub.Step{{Status: 429, Header: http.Header{"Retry-After": {value}}}}}, paceline.Provider{})
			r.chat(t.Context()).want(t, 200)
			recs := r.logged()
			wait := recs[1].Sent.Sub(recs[0].Sent)
			if wait < want || wait > want+want/4 {
				t.Errorf("Retry-After %q: waited %v, want %v", value, wait, want)
			}
		})
	}
}

// A request that may have an effect of its own is not sent twice.
func TestOnlyGenerationsAreRepeated(t *testing.T) {
	for name, tt := range map[string]struct {
		method, path string
		header       []string
		attempts     int
	}{
		"a generation":         {"POST", "/chat/completions", nil, 3},
		"a file":               {"POST", "/files", nil, 1},
		"a file, idempotently": {"POST", "/files", []string{"Idempotency-Key", "k"}, 3},
		"a look":               {"GET", "/batches/b1", nil, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, stub.Config{}, paceline.Provider{})
				r.Base = answers(func(*http.Request) (*http.Response, error) { return answer(500, nil, "{}"), nil })
				res, err := r.RoundTrip(request(t.Context(), tt.method, base+tt.path, "{}", tt.header...))
				if err != nil || res.StatusCode != 500 {
					t.Fatalf("status %v, error %v", res, err)
				}
				res.Body.Close()
				if n := len(r.logged()); n != tt.attempts {
					t.Errorf("%d attempts, want %d", n, tt.attempts)
				}
			})
		})
	}
}

// Where no connection came about nothing was sent, so anything may be tried
// again.
func TestUnconnectedIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int32
		r := newRig(t, stub.Config{}, paceline.Provider{})
		r.Base = &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			if dials.Add(1) == 2 {
				time.Sleep(time.Minute) // later than anybody waits
			}
			return nil, errors.New("nobody listens")
		}}
		start := time.Now()
		_, err := r.RoundTrip(request(t.Context(), "POST", base+"/files", "{}"))
		if err == nil || !strings.Contains(err.Error(), "nobody listens") || dials.Load() != 3 {
			t.Errorf("after %d dials: %v", dials.Load(), err)
		}
		if took := time.Since(start); took < 16*sec || took > 18*sec {
			t.Errorf("took %v; want two backoffs and the ten seconds of a dial", took)
		}
		time.Sleep(time.Minute) // for the dial nobody waits for
	})
}

// P-11, P-12, P-13: a catalogue is only sent: outside the limiter, uncounted
// and without a row; everything else has one.
func TestCatalogIsOnlySent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 1, WindowSlack: -1}})
		start := time.Now()
		for range 5 {
			res, err := r.RoundTrip(request(t.Context(), "GET", base+"/models", ""))
			if err != nil || res.StatusCode != 200 {
				t.Fatalf("the catalogue came to %v, %v", res, err)
			}
			res.Body.Close()
		}
		if n := len(r.logged()); n != 0 || time.Since(start) != 0 {
			t.Errorf("%d records after %v, want none at once", n, time.Since(start))
		}
		r.chat(t.Context()).want(t, 200)
		if at := r.sent(start); len(at) != 1 || at[0] != 0 {
			t.Errorf("the first generation was sent at %s: the catalogue was counted", secs(at))
		}
	})
}

// An overloaded provider is tried for two minutes, by backoff of the request
// alone; a stated wait pauses the key.
func TestOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: silent(529, 100)}, paceline.Provider{})
		a := r.chat(t.Context())
		a.want(t, 529)
		if a.took < 60*sec || a.took > 120*sec {
			t.Errorf("tried for %v, want about two minutes and not more", a.took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{{Status: 529, Wait: 10 * sec}}}, paceline.Provider{})
		start := time.Now()
		go r.chat(t.Context())
		synctest.Wait()
		r.chat(t.Context()).want(t, 200)
		at := r.sent(start)
		if len(at) < 2 || at[1] != 10*sec {
			t.Errorf("sent at %s; a stated wait pauses the key", secs(at))
		}
	})
}

// A refusal because of the request's own size is handed back at once.
func TestTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := `{"error":{"message":"Request too large on tokens per minute (TPM): Limit 6000, Requested 6791","type":"tokens","code":"rate_limit_exceeded"}}`
		r := newRig(t, stub.Config{Script: []stub.Step{{Status: 413, Wait: 9 * sec, Body: body}}}, paceline.Provider{})
		start := time.Now()
		a := r.chat(t.Context())
		a.want(t, 413)
		if a.body != body {
			t.Errorf("the refusal was changed: %s", a.body)
		}
		r.chat(t.Context()).want(t, 200)
		wantInstants(t, r.sent(start), 0, 0)
		if n := refusals(r.logged(), dialect.RateLimited); n != 1 {
			t.Errorf("%d refusals, want 1", n)
		}
	})
}

// Billing is not retried, and asked about once a minute.
func TestBilling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := `{"error":{"message":"no money","type":"insufficient_quota","code":"insufficient_quota"}}`
		broke := stub.Step{Status: 429, Body: body}
		r := newRig(t, stub.Config{Script: []stub.Step{broke}}, paceline.Provider{})
		start := time.Now()
		for range 3 {
			if a := r.chat(t.Context()); a.status != 429 || a.body != body || a.took != 0 {
				t.Errorf("came to %d %q after %v; want the provider's refusal at once", a.status, a.body, a.took)
			}
		}
		time.Sleep(time.Minute)
		r.chat(t.Context()).want(t, 200)
		wantInstants(t, r.sent(start), 0, time.Minute)
	})
}

// answers is a RoundTripper made of a function.
type answers func(*http.Request) (*http.Response, error)

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body.Close()
	}
	return f(r)
}
