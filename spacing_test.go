package paceline_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/stub"
)

// inTurn makes n calls, one after the other, and returns their starts.
func (r *rig) inTurn(t *testing.T, n int) []time.Duration {
	t.Helper()
	start := time.Now()
	for range n {
		r.chat(t.Context()).want(t, 200)
	}
	return r.sent(start)
}

// S-19, S-20, S-21, S-22, S-26: after a told wait the following calls are
// spaced by it, half as much with each success, until it is forgotten; the
// retried call itself is not delayed twice.
func TestSpacingAfterARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{told(8 * sec)}}, paceline.Provider{})
		wantInstants(t, r.inTurn(t, 9), 0, 8*sec, 16*sec, 20*sec, 22*sec, 23*sec, 23500*time.Millisecond, 23750*time.Millisecond, 23750*time.Millisecond, 23750*time.Millisecond)
	})
}

// S-21: a success shortens the spacing for those who wait already.
func TestSuccessWakesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{told(8 * sec)}, Service: 3 * sec}, paceline.Provider{})
		start := time.Now()
		go r.chat(t.Context())
		synctest.Wait()
		r.together(3)
		// The probe goes at 8 s and counts as admitted at 10 s; the answer at
		// 19 s halves the spacing, the one at 23 s halves it again.
		wantInstants(t, r.sent(start), 0, 8*sec, 16*sec, 20*sec, 23*sec)
	})
}

// S-24: where nothing is told, spacing starts at two seconds and doubles with
// each refusal, up to thirty.
func TestSilentSpacing(t *testing.T) {
	for refusals, want := range map[int]time.Duration{1: 2 * sec, 2: 4 * sec, 3: 8 * sec, 5: 30 * sec, 6: 30 * sec} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, stub.Config{Script: silent(429, refusals)}, paceline.Provider{})
			at := r.inTurn(t, 2)
			if got := at[len(at)-1] - at[len(at)-2]; got != want {
				t.Errorf("after %d refusals the next start is %v later, want %v", refusals, got, want)
			}
		})
	}
}

// S-25: a told spacing is at least a quarter of a second and at most thirty.
func TestToldSpacingIsClamped(t *testing.T) {
	for wait, want := range map[time.Duration]time.Duration{100 * time.Millisecond: 250 * time.Millisecond, 90 * sec: 30 * sec} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, stub.Config{Script: []stub.Step{{Status: 429, Wait: wait, RetryAfter: stub.RetryAfterMS}}}, paceline.Provider{})
			at := r.inTurn(t, 2)
			if got := at[2] - at[1]; got != want {
				t.Errorf("after a told %v the next start is %v later, want %v", wait, got, want)
			}
		})
	}
}

// S-23: an endpoint that never refuses is never paced.
func TestNoRefusalNoPacing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{})
		if at := r.inTurn(t, 500); at[499] != 0 {
			t.Errorf("500 calls took %v, want no sleep at all", at[499])
		}
	})
}

// S-27, S-28: spacing belongs to a caller key: another key is not slowed.
func TestSpacingIsTheKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{told(8 * sec)}}, paceline.Provider{})
		r.chat(t.Context()).want(t, 200)
		if a := r.chat(t.Context(), "Authorization", "Bearer sk-other"); a.took != 0 {
			t.Errorf("a call with another key took %v", a.took)
		}
		if a := r.chat(t.Context()); a.took != 8*sec {
			t.Errorf("the next call of the key took %v, want 8 s", a.took)
		}
	})
}

// L-82: where no rate is declared a model has a line of its own, whatever the
// date or case of its name.
func TestModelsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{told(8 * sec)}}, paceline.Provider{})
		took := func(model string) time.Duration {
			start := time.Now()
			res, err := r.RoundTrip(request(t.Context(), "POST", base+"/chat/completions", `{"model":"`+model+`"}`, "X-Paceline-Max-Wait", "1s"))
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != 200 {
				return -1
			}
			return time.Since(start)
		}
		if d := took("large-2026-01-31"); d != -1 {
			t.Fatalf("the refused one took %v", d)
		}
		for model, want := range map[string]time.Duration{
			"Large": -1, "large-20250514": -1, "large@20250514": -1, "small": 0, "large-2": 0, "": 0,
		} {
			if d := took(model); d != want {
				t.Errorf("%q took %v while large is paused, want %v", model, d, want)
			}
		}
	})
}

// S-15, S-16, S-17: a caller is not held beyond its ceiling, here of 120 s,
// whatever it is asked to wait; up to it the wait is waited out.
func TestCallerIsNotHeldForever(t *testing.T) {
	for wait, want := range map[time.Duration]struct {
		status int
		took   time.Duration
	}{120 * sec: {200, 120 * sec}, 121 * sec: {429, 0}, 24 * time.Hour: {429, 0}, 365 * 24 * time.Hour: {429, 0}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, stub.Config{Script: []stub.Step{told(wait)}}, paceline.Provider{Retry: paceline.Retry{MaxWait: 120 * sec}})
			if a := r.chat(t.Context()); a.status != want.status || a.took != want.took {
				t.Errorf("told %v: %d after %v; want %d after %v", wait, a.status, a.took, want.status, want.took)
			}
		})
	}
}
