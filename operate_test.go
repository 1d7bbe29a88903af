package paceline_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/stub"
)

// An operator's pause closes every caller key of the provider, one that was not
// seen before too, and no other's; resume ends it for those who wait.
func TestOperatorPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 6000, Pacing: paceline.Burst, WindowSlack: -1}})
		r.Providers = append(r.Providers, paceline.Provider{Name: "other", BaseURL: "http://other.test"})
		start := time.Now()
		r.chat(t.Context()).want(t, 200)
		if err := r.Pause("test", start.Add(time.Minute), "the bill\nis checked"); err != nil {
			t.Fatal(err)
		}
		go r.chat(t.Context())                                      // seen
		go r.chat(t.Context(), "Authorization", "Bearer sk-unseen") // not seen
		synctest.Wait()
		for _, s := range r.Status() {
			if s.PausedSource != "operator" || s.PausedWhy != "the bill is checked" || !s.PausedUntil.Equal(start.Add(time.Minute)) || s.Binding.What != paceline.BindsPause {
				t.Errorf("status %+v", s)
			}
		}
		a := r.chat(t.Context(), "X-Paceline-Max-Wait", "5s")
		if a.status != 429 || a.took != 0 || !strings.Contains(a.body, "the bill is checked (operator)") {
			t.Errorf("one in a hurry came to %d after %v: %s", a.status, a.took, a.body)
		}
		res, err := r.RoundTrip(request(t.Context(), "POST", "http://other.test/v1/chat/completions", "{}"))
		if err != nil || time.Since(start) != 0 {
			t.Errorf("the other provider came to %v after %v", err, time.Since(start))
		} else {
			res.Body.Close()
		}
		time.Sleep(20 * sec)
		if err := r.Pause("test", start.Add(30*sec), ""); err == nil || !strings.Contains(err.Error(), "resume it first") {
			t.Errorf("a shorter pause: %v", err)
		}
		if err := r.Resume("test"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		var at []time.Duration
		for _, rec := range r.logged() {
			if rec.Provider == "test" && !rec.NotSent {
				at = append(at, rec.Sent.Sub(start))
			}
		}
		wantInstants(t, at, 0, 20*sec, 20*sec)
		if rest := r.Status()[0].PausedUntil; !rest.IsZero() {
			t.Errorf("still paused until %v", rest)
		}
	})
}

// The end of an operator's pause lets one request look, and no herd.
func TestOperatorPauseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 60, Pacing: paceline.Burst, WindowSlack: -1}})
		start := time.Now()
		if err := r.Pause("test", start.Add(10*sec), ""); err != nil {
			t.Fatal(err)
		}
		r.together(3)
		wantInstants(t, r.sent(start), 10*sec, 11*sec, 12*sec)
	})
}

// However long the pause, requests wait for whoever made it to end it.
func TestOperatorPauseIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Retry: paceline.Retry{MaxWait: sec}})
		start := time.Now()
		if err := r.Pause("test", time.Time{}, ""); err != nil {
			t.Fatal(err)
		}
		wait := r.later(nil)
		time.Sleep(time.Hour)
		if err := r.Resume("test"); err != nil {
			t.Fatal(err)
		}
		wait()
		wantInstants(t, r.sent(start), time.Hour)
	})
}

// With a store a pause outlives the process that made it, and binds one that
// runs already; so does its end.
func TestOperatorPauseLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mapStore{}
		process := func() *rig {
			r := newRig(t, stub.Config{}, paceline.Provider{})
			r.Store = store
			return r
		}
		a, b := process(), process()
		start := time.Now()
		a.chat(t.Context()).want(t, 200)
		b.chat(t.Context()).want(t, 200)
		if err := a.Pause("test", start.Add(time.Hour), "nightly"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(sec)
		c := process()
		for _, r := range []*rig{a, b, c} {
			if got := r.chat(t.Context(), "X-Paceline-Max-Wait", "1s"); got.status != 429 || !strings.Contains(got.body, "nightly (operator)") {
				t.Errorf("came to %d %s", got.status, got.body)
			}
		}
		if err := c.Resume("test"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(sec)
		d := process()
		for _, r := range []*rig{a, b, c, d} {
			if got := r.chat(t.Context()); got.status != 200 || got.took > sec {
				t.Errorf("after resume: %d after %v", got.status, got.took)
			}
			time.Sleep(sec)
		}
	})
}

// Resume ends a wait that the provider stated, in the limiter too, for those
// who wait and for a key that this process has not seen yet; and what the
// provider states afterwards binds again.
func TestResumeEndsAStatedWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := []stub.Step{told(time.Hour), {}, told(30 * sec), {}}
		r := newRig(t, stub.Config{Script: script}, paceline.Provider{Retry: paceline.Retry{MaxWait: 2 * time.Hour}})
		start := time.Now()
		go r.chat(t.Context())
		time.Sleep(time.Minute)
		if err := r.Resume("test"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantInstants(t, r.sent(start), 0, time.Minute)
		r.chat(t.Context()).want(t, 200)
		at := r.sent(start)
		if len(at) != 4 || at[3]-at[2] < 30*sec {
			t.Errorf("sent at %s; want the second wait to be kept", secs(at))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		// The store and the limiter outlive the process; what it knew does not.
		store, l := &mapStore{}, memory.New()
		provider := paceline.Provider{Retry: paceline.Retry{MaxWait: time.Minute}}
		a := newRig(t, stub.Config{Script: []stub.Step{told(time.Hour)}}, provider)
		a.Store, a.Limiter = store, l
		a.chat(t.Context()).want(t, 429)
		b := newRig(t, stub.Config{}, provider)
		b.Store, b.Limiter = &struct{ *mapStore }{store}, l
		b.chat(t.Context()).want(t, 429)
		c := newRig(t, stub.Config{}, provider)
		c.Store, c.Limiter = &struct{ *mapStore }{store}, l
		if err := c.Resume("test"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(sec)
		start := time.Now()
		c.chat(t.Context()).want(t, 200)
		if time.Since(start) != 0 {
			t.Errorf("waited for %v", time.Since(start))
		}
	})
}

// What cannot be ordered says why, and changes nothing.
func TestOperatorMistakes(t *testing.T) {
	r := newRig(t, stub.Config{}, paceline.Provider{})
	for want, err := range map[string]error{
		`"nobody" is not declared`: r.Pause("nobody", time.Time{}, ""),
		"none of openai":           r.Resume("nobody"),
		"over already":             r.Pause("test", time.Now().Add(-sec), ""),
		"35 days is the most":      r.Pause("test", time.Now().AddDate(1, 0, 0), ""),
		`"everything"`:             r.Clear("test", "everything"),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	r.chat(t.Context()).want(t, 200)
}

// Clear forgets what was learned and told, here and in the store.
func TestClear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mapStore{}
		head := http.Header{"X-Ratelimit-Limit-Tokens": {"60"}, "X-Ratelimit-Remaining-Tokens": {"5"}}
		process := func(script ...stub.Step) *rig {
			r := newRig(t, stub.Config{Script: script}, paceline.Provider{Dialect: "openai", Limits: paceline.Limits{MaxPerMinute: 60, WindowSlack: -1}})
			r.Store = store
			return r
		}
		a := process(told(sec), stub.Step{Status: 200, Header: head, Body: "{}"})
		a.chat(t.Context()).want(t, 200)
		a.Drain() // which writes what there was no time for
		b, c := process(), process()
		b.chat(t.Context()).want(t, 200)
		c.chat(t.Context()).want(t, 200)
		if s := b.Status()[0]; s.Effective.Factor != 0.7 || len(s.Buckets) == 0 {
			t.Fatalf("the second process knows %+v", s)
		}
		time.Sleep(sec)
		if err := b.Clear("test", paceline.ClearLearned); err != nil {
			t.Fatal(err)
		}
		if s := b.Status()[0]; s.Effective.Factor != 1 || len(s.Buckets) == 0 {
			t.Errorf("after clearing what was learned: %+v", s)
		}
		if err := b.Clear("test", paceline.ClearBudget); err != nil {
			t.Fatal(err)
		}
		time.Sleep(sec)
		for name, r := range map[string]*rig{"the one that cleared": b, "another": c, "a later one": process()} {
			r.chat(t.Context()).want(t, 200)
			if s := r.Status()[0]; s.Effective.Factor != 1 || len(s.Buckets) != 0 {
				t.Errorf("%s knows %+v", name, s)
			}
		}
	})
}

// P-106, P-110: the factor survives a restart, and its recovery goes on from
// its last change, not from the restart.
func TestFactorSurvivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mapStore{}
		process := func(script ...stub.Step) *rig {
			r := newRig(t, stub.Config{Script: script}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 100, Pacing: paceline.Burst, WindowSlack: -1}})
			r.Store = store
			return r
		}
		process(told(sec)).chat(t.Context()).want(t, 200)
		time.Sleep(time.Minute)
		if n := rate(process(), 150); n != 70 {
			t.Errorf("%d within a minute after a restart, want 70", n)
		}
		time.Sleep(3 * time.Minute) // over five since the refusal, not since the restart
		if n := rate(process(), 150); n != 80 {
			t.Errorf("%d within a minute, want 80: recovery goes on from the refusal", n)
		}
	})
}

// P-46: while a balance is known to be spent, a request is refused before
// sending and its record says so. P-163: it has one, like every attempt.
func TestSpentBalanceIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{{Status: 402, Body: `{"error":{"code":"insufficient_quota","message":"no money"}}`}}}, paceline.Provider{Dialect: "openai"})
		r.chat(t.Context()).want(t, 402)
		if a := r.chat(t.Context(), "X-Paceline-Max-Wait", "10m"); a.status != 402 || a.took != 0 {
			t.Errorf("the next came to %d after %v", a.status, a.took)
		}
		all := r.logged()
		if len(all) != 2 || all[0].NotSent || !all[1].NotSent || !all[1].Sent.IsZero() || all[1].Attempt != 0 {
			t.Errorf("records %+v", all)
		}
	})
}

// P-171, P-172: refusals that traffic outside the process causes come under the
// limit and lower the rate, of their provider only.
func TestTrafficOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{told(sec)}}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 60}})
		r.Providers = append(r.Providers, paceline.Provider{Name: "other", BaseURL: "http://other.test/v1", Limits: paceline.Limits{MaxPerMinute: 60}})
		res, err := r.RoundTrip(request(t.Context(), "POST", "http://other.test/v1/chat/completions", "{}"))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		r.chat(t.Context()).want(t, 200)
		for _, rec := range r.logged() {
			if rec.Status == 429 && (rec.Evidence == nil || !rec.Evidence.UnderLimit || !rec.Evidence.Adapted) {
				t.Errorf("the refusal says %+v", rec.Evidence)
			}
		}
		factors := map[string]float64{}
		for _, s := range r.Status() {
			factors[s.Provider] = s.Effective.Factor
		}
		if factors["test"] != 1 && factors["other"] != 1 || factors["test"] == factors["other"] {
			t.Errorf("factors %v; want one lowered", factors)
		}
	})
}
