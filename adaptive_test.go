package paceline_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/stub"
)

// factors lists rate_factor and rate_adapted of the refusals so far.
func factors(r *rig) (fs []float64, adapted int) {
	for _, rec := range r.logged() {
		if rec.Evidence != nil {
			fs = append(fs, rec.Evidence.Factor)
			if rec.Evidence.Adapted {
				adapted++
			}
		}
	}
	return fs, adapted
}

// rate measures how many of n calls asked for at once start within a minute.
func rate(r *rig, n int) int {
	start := time.Now()
	from := len(r.sent(start))
	r.together(n)
	return mostWithin(r.sent(start)[from:], time.Minute)
}

// P-93, P-95, P-104, P-105, P-109: an unexplained refusal scales the declared
// rates by 0.7, and even spacing with them.
func TestRefusalLowersTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{told(sec)}}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 14, WindowSlack: -1}})
		start := time.Now()
		r.chat(t.Context()).want(t, 200)
		if fs, adapted := factors(r); len(fs) != 1 || fs[0] != 0.7 || adapted != 1 {
			t.Fatalf("factors %v, %d adapted; want 0.7 once", fs, adapted)
		}
		for range 2 {
			r.chat(t.Context()).want(t, 200)
		}
		at := r.sent(start)
		// 14 × 0.7 = 9.8 a minute.
		for i := 2; i < len(at); i++ {
			if d := at[i] - at[i-1]; d < 6122*time.Millisecond || d > 6124*time.Millisecond {
				t.Errorf("starts %v apart, want 60 s ÷ 9.8", d)
			}
		}
	})
}

// P-94: the same factor scales the places.
func TestRefusalLowersThePlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{told(sec)}, Service: 10 * sec},
			paceline.Provider{Limits: paceline.Limits{MaxConcurrent: 10, MaxPerSecond: 100, Pacing: paceline.Burst}})
		r.chat(t.Context()).want(t, 200)
		r.together(30)
		if c := r.stub.Counts(); c.PeakLive != 7 {
			t.Errorf("%d at once, want 10 × 0.7", c.PeakLive)
		}
	})
}

// P-96: a burst of refusals lowers once, and so do refusals of requests sent
// before the rate was lowered, however late they come.
func TestBurstLowersOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var script []stub.Step
		for range 20 {
			script = append(script, told(sec))
		}
		r := newRig(t, stub.Config{Script: script}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 1000, Pacing: paceline.Burst}})
		// The refusals come when all twenty have been sent.
		r.Base = r.far(sec / 10)
		r.together(20)
		if fs, adapted := factors(r); len(fs) != 20 || adapted != 1 || fs[19] != 0.7 {
			t.Errorf("%d refusals, factors %v, %d adapted; want one decrease", len(fs), fs, adapted)
		}
	})
}

// P-97, P-98: the factor never goes below min.
func TestFactorHasAFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var script []stub.Step
		for range 10 {
			script = append(script, told(6*sec))
		}
		r := newRig(t, stub.Config{Script: script}, paceline.Provider{
			Limits: paceline.Limits{MaxPerMinute: 1000}, Retry: paceline.Retry{Max: 20}})
		r.chat(t.Context()).want(t, 200)
		fs, _ := factors(r)
		if last := fs[len(fs)-1]; last != 0.2 {
			t.Errorf("after ten refusals the factor is %v, want 0.2 (all: %v)", last, fs)
		}
	})
}

// P-99, P-100, P-101, P-102, P-103: five minutes without a refusal give back
// 0.1, up to the whole; a refusal meanwhile starts the five minutes again.
func TestRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{told(sec)}}, paceline.Provider{
			Limits: paceline.Limits{MaxPerMinute: 100, Pacing: paceline.Burst, WindowSlack: -1}})
		r.chat(t.Context()).want(t, 200)
		for _, want := range []int{70, 80, 90, 100, 100} {
			// Each round leaves the minute full; the next begins after it.
			if n := rate(r, 150); n != want {
				t.Errorf("%d within a minute, want %d", n, want)
			}
			time.Sleep(5 * time.Minute)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		script := []stub.Step{told(sec), {}, told(sec), {}}
		r := newRig(t, stub.Config{Script: script}, paceline.Provider{
			Limits: paceline.Limits{MaxPerMinute: 100, Pacing: paceline.Burst, WindowSlack: -1, Adaptive: paceline.Adaptive{Min: 0.7}}})
		r.chat(t.Context()).want(t, 200) // refused once, then well
		time.Sleep(4 * time.Minute)
		r.chat(t.Context()).want(t, 200) // refused again at the floor
		time.Sleep(3 * time.Minute)      // seven minutes after the first
		if n := rate(r, 150); n != 70 {
			t.Errorf("%d within a minute, want still 70", n)
		}
	})
}

// P-107: adaptive off leaves the rate alone.
func TestAdaptiveOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{told(6 * sec), told(6 * sec)}}, paceline.Provider{
			Limits: paceline.Limits{MaxPerMinute: 10, Pacing: paceline.Burst, WindowSlack: -1, Adaptive: paceline.Adaptive{Off: true}}})
		r.chat(t.Context()).want(t, 200)
		if fs, adapted := factors(r); adapted != 0 || fs[0] != 1 || fs[1] != 1 {
			t.Errorf("factors %v, %d adapted", fs, adapted)
		}
		time.Sleep(2 * time.Minute)
		if n := rate(r, 20); n != 10 {
			t.Errorf("%d within a minute, want 10", n)
		}
	})
}

// P-108: the factor is the caller key's, which with scope provider is the
// provider and credential: a refusal of one model lowers the others' rate.
func TestFactorIsTheProviders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{told(sec)}}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 100, Pacing: paceline.Burst, WindowSlack: -1}})
		res, err := r.RoundTrip(request(t.Context(), "POST", base+"/chat/completions", `{"model":"other"}`))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		time.Sleep(2 * time.Minute)
		if n := rate(r, 150); n != 70 {
			t.Errorf("%d within a minute, want 70", n)
		}
	})
}

// A refusal that explains itself does not adapt: the told wait is all.
func TestExplainedRefusalDoesNotAdapt(t *testing.T) {
	for name, step := range map[string]stub.Step{
		"names its bucket": {Status: 429, Wait: sec, Body: `{"error":{"message":"Rate limit reached for m on tokens per min (TPM): Limit 6000, Used 5990, Requested 100. Please try again in 1s.","type":"tokens","code":"rate_limit_exceeded"}}`},
		"an empty bucket":  {Status: 429, Wait: sec, Header: http.Header{"X-Ratelimit-Limit-Tokens": {"6000"}, "X-Ratelimit-Remaining-Tokens": {"0"}, "X-Ratelimit-Reset-Tokens": {"1s"}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, stub.Config{Script: []stub.Step{step}}, paceline.Provider{Dialect: "openai", Limits: paceline.Limits{MaxPerMinute: 100}})
				r.chat(t.Context()).want(t, 200)
				if fs, adapted := factors(r); len(fs) != 1 || adapted != 0 {
					t.Errorf("factors %v, %d adapted; want none", fs, adapted)
				}
			})
		})
	}
}

// P-111, P-112, P-114, P-115, P-116: a refusal carries what our own sending
// was, the refused attempt included.
func TestEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := make([]stub.Step, 5)
		script[4] = stub.Step{Status: 429, Wait: sec}
		r := newRig(t, stub.Config{Script: script}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 30, MaxPerSecond: 2, Pacing: paceline.Burst}})
		for range 5 {
			r.chat(t.Context())
		}
		var e *paceline.Evidence
		for _, rec := range r.logged() {
			if rec.Class == dialect.RateLimited {
				e = rec.Evidence
			} else if rec.Evidence != nil {
				t.Error("a success carries evidence")
			}
		}
		if e == nil || !e.UnderLimit || e.Sent60s != 5 || e.Sent1s != 1 {
			t.Errorf("evidence %+v; want under limit, 5 in the minute, 1 in the second", e)
		}
	})
}

// P-116: a refusal that comes later than the span counts back holds the refused
// attempt all the same.
func TestLateRefusalCountsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{told(sec)}}, paceline.Provider{Retry: paceline.Retry{Max: -1}})
		r.Base = r.far(90 * sec)
		r.chat(t.Context()).want(t, 429)
		if e := r.logged()[0].Evidence; e == nil || e.Sent60s != 1 || e.Sent1s != 1 {
			t.Errorf("evidence %+v; want the refused attempt itself", e)
		}
	})
}

// P-113, P-117: under_limit compares with the configured rates, not the
// adapted ones, and is false where one was exceeded.
func TestUnderLimitIsByConfiguredRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A second Transport on the same key declares more than the first and
		// uses it up: the first one's numbers are exceeded by our own sending.
		r := newRig(t, stub.Config{Script: append(make([]stub.Step, 8), told(sec))}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 5, Pacing: paceline.Burst, WindowSlack: -1}})
		loose := &paceline.Transport{Base: r.stub, Limiter: r.Limiter, Providers: []paceline.Provider{{
			Name: "test", BaseURL: base, Limits: paceline.Limits{MaxPerMinute: 20, Pacing: paceline.Burst}}}}
		for range 8 {
			res, err := loose.RoundTrip(chatRequest(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
		}
		time.Sleep(59 * sec)
		tight := &paceline.Transport{Base: r.stub, Limiter: r.Limiter, Log: r.log, Providers: []paceline.Provider{{
			Name: "test", BaseURL: base, Limits: paceline.Limits{MaxPerSecond: 50, MaxPerMinute: 9, Pacing: paceline.Burst, WindowSlack: -1}}}}
		res, err := tight.RoundTrip(chatRequest(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if e := r.logged()[0].Evidence; e == nil || !e.UnderLimit || e.Sent60s != 9 {
			t.Errorf("9 starts under a configured 9: %+v", e)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		// The refusal comes so late that more were sent meanwhile than one
		// Transport's own numbers allow.
		r := newRig(t, stub.Config{Script: []stub.Step{{}, {}, told(sec)}}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 2, Pacing: paceline.Burst, WindowSlack: -1}})
		loose := &paceline.Transport{Base: r.stub, Limiter: r.Limiter, Providers: []paceline.Provider{{
			Name: "test", BaseURL: base, Limits: paceline.Limits{MaxPerMinute: 20, Pacing: paceline.Burst}}}}
		slow := &paceline.Transport{Base: answers(func(req *http.Request) (*http.Response, error) {
			for range 2 {
				res, err := loose.RoundTrip(chatRequest(req.Context()))
				if err != nil {
					return nil, err
				}
				res.Body.Close()
			}
			return r.stub.RoundTrip(req)
		}), Limiter: r.Limiter, Log: r.log, Providers: r.Providers, Route: r.Route}
		res, err := slow.RoundTrip(chatRequest(t.Context(), "X-Paceline-Max-Wait", "0s"))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if e := r.logged()[0].Evidence; e == nil || e.UnderLimit || e.Sent60s != 3 {
			t.Errorf("3 starts where 2 are configured: %+v", e)
		}
	})
}
