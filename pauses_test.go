package paceline_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/stub"
)

// P-76, P-77, P-84: every 429 pauses the key, also the last one of a request,
// and nothing of that key is sent meanwhile.
func TestPauseBindsEveryone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{told(30 * sec)}}, paceline.Provider{Retry: paceline.Retry{Max: -1}})
		start := time.Now()
		r.chat(t.Context()).want(t, 429)
		for _, a := range r.together(3) {
			a.want(t, 200)
		}
		for _, at := range r.sent(start)[1:] {
			if at < 30*sec {
				t.Errorf("sent at %v into a pause of 30 s", at)
			}
		}
	})
}

// P-78, P-79, P-81: a wait is honoured in full in each form, also where it is
// longer than the worked-out ones may be.
func TestStatedWaitInEachForm(t *testing.T) {
	for _, form := range []stub.RetryAfter{stub.RetryAfterSeconds, stub.RetryAfterMS, stub.RetryAfterDate} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, stub.Config{Script: []stub.Step{{Status: 429, Wait: 400 * sec, RetryAfter: form}}}, paceline.Provider{})
			start := time.Now()
			r.chat(t.Context()).want(t, 200)
			wantInstants(t, r.sent(start), 0, 400*sec)
			if c := r.stub.Counts(); c.Early > 0 {
				t.Errorf("%s: %d sent into the stated wait", form, c.Early)
			}
		})
	}
}

// P-82: a wait beyond retry.maxWaitMs hands the refusal back after one
// attempt, whole and with its own headers; later callers get it at once, with
// what is left of the wait, and nothing is sent.
func TestWaitBeyondPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := told(700 * sec)
		step.Header = http.Header{"X-Request-Id": {"r1"}}
		r := newRig(t, stub.Config{Script: []stub.Step{step}}, paceline.Provider{})
		start := time.Now()
		a := r.chat(t.Context())
		a.want(t, 429)
		if a.took != 0 || a.header.Get("Retry-After") != "700" || a.header.Get("X-Request-Id") != "r1" || a.header.Get("X-Should-Retry") != "false" {
			t.Errorf("after %v the refusal came with %v", a.took, a.header)
		}
		time.Sleep(50 * sec)
		b := r.chat(t.Context())
		b.want(t, 429)
		if b.took != 0 || b.header.Get("Retry-After") != "650" || b.header.Get("X-Paceline-Attempts") != "0" ||
			b.header.Get("X-Paceline-Refused") != "pause" || b.body != a.body {
			t.Errorf("a later caller got %v after %v: %s", b.header, b.took, b.body)
		}
		time.Sleep(51 * sec) // the rest is within patience now
		r.chat(t.Context()).want(t, 200)
		wantInstants(t, r.sent(start), 0, 700*sec)
	})
}

// What comes during a pause and did not make it is nobody else's answer.
func TestHeldRefusalIsTheOneThatPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{told(700 * sec), {Status: 404}}}, paceline.Provider{})
		r.Base = r.far(sec)
		r.together(2)
		if a := r.chat(t.Context()); a.status != 429 || a.header.Get("X-Paceline-Refused") != "pause" {
			t.Errorf("a later caller got %d %v", a.status, a.header)
		}
	})
}

// A wait that nobody means, of a year, closes the key for no longer than one
// that was not stated.
func TestAbsurdWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{told(365 * 24 * time.Hour)}}, paceline.Provider{})
		if a := r.chat(t.Context()); a.status != 429 || a.took != 0 {
			t.Errorf("came to %d after %v", a.status, a.took)
		}
		if a := r.chat(t.Context()); a.status != 200 || a.took > 3*sec {
			t.Errorf("the next came to %d after %v", a.status, a.took)
		}
	})
}

// P-85: who waits for capacity waits out any pause, and its refusals are not
// counted.
func TestWaitForCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var script []stub.Step
		for range 10 {
			script = append(script, told(700*sec))
		}
		r := newRig(t, stub.Config{Script: script}, paceline.Provider{})
		a := r.chat(t.Context(), "X-Paceline-Wait-For-Capacity", "1")
		a.want(t, 200)
		if a.took != 7000*sec {
			t.Errorf("took %v, want ten waits of 700 s", a.took)
		}
	})
}

// A patient caller at the head does not hold an impatient one behind it.
func TestImpatientBehindPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{told(700 * sec)}}, paceline.Provider{})
		var wg sync.WaitGroup
		wg.Go(func() { r.chat(t.Context(), "X-Paceline-Wait-For-Capacity", "1").want(t, 200) })
		synctest.Wait()
		if a := r.chat(t.Context()); a.status != 429 || a.took != 0 {
			t.Errorf("came to %d after %v; want the refusal at once", a.status, a.took)
		}
		wg.Wait()
	})
}

// P-87: a later refusal with a smaller wait does not shorten a pause.
func TestPauseIsNeverShortened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{told(60 * sec), told(5 * sec)}}, paceline.Provider{})
		r.Base = r.far(sec / 10) // both are sent before either is refused
		start := time.Now()
		for _, a := range r.together(2) {
			a.want(t, 200)
		}
		at := r.sent(start)
		if len(at) != 4 || at[1] != 0 || at[2] < 60*sec {
			t.Errorf("sent at %s; want two at once and nothing more before 60 s", secs(at))
		}
	})
}

// P-88, P-89: at the end of a pause one probe goes, and the others follow
// spaced, under burst pacing too.
func TestNoHerdAfterAPause(t *testing.T) {
	for _, pacing := range []string{"even", "burst"} {
		synctest.Test(t, func(t *testing.T) {
			limits := paceline.Limits{MaxPerMinute: 30, WindowSlack: -1, Adaptive: paceline.Adaptive{Off: true}}
			if pacing == "burst" {
				limits.Pacing = paceline.Burst
			}
			r := newRig(t, stub.Config{Script: []stub.Step{told(10 * sec)}}, paceline.Provider{Limits: limits})
			start := time.Now()
			go r.chat(t.Context())
			synctest.Wait()
			for _, a := range r.together(4) {
				a.want(t, 200)
			}
			synctest.Wait()
			wantInstants(t, r.sent(start), 0, 10*sec, 12*sec, 14*sec, 16*sec, 18*sec)
		})
	}
}

// While a probe is unanswered nobody else goes; after two seconds without a
// refusal it counts as admitted.
func TestOneProbeAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{told(10 * sec)}, Service: 60 * sec},
			paceline.Provider{Limits: paceline.Limits{MaxPerSecond: 10, Pacing: paceline.Burst, Adaptive: paceline.Adaptive{Off: true}}})
		start := time.Now()
		go r.chat(t.Context())
		synctest.Wait()
		r.together(3)
		synctest.Wait()
		sent := r.sent(start)
		wantInstants(t, sent, 0, 10*sec, 12*sec, 12100*time.Millisecond, 12200*time.Millisecond)
	})
}

// P-92: refused attempts count in the windows.
func TestRefusedAttemptsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{told(sec)}},
			paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 2, Pacing: paceline.Burst, WindowSlack: -1, Adaptive: paceline.Adaptive{Off: true}}})
		start := time.Now()
		r.chat(t.Context()).want(t, 200)
		r.chat(t.Context()).want(t, 200)
		wantInstants(t, r.sent(start), 0, sec, time.Minute)
	})
}

// A deadline that cannot be met is refused at once, in the shape of the API,
// saying what stands in the way and until when.
func TestDeadlineThatCannotBeMet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 1, WindowSlack: -1}})
		r.chat(t.Context()).want(t, 200)
		a := r.chat(t.Context(), "X-Paceline-Max-Wait", "20s")
		a.want(t, 429)
		if a.took != 0 || a.header.Get("X-Paceline-Refused") != "deadline" || a.header.Get("Retry-After") != "59" ||
			a.header.Get("Retry-After-Ms") != "60000" || a.header.Get("X-Should-Retry") != "false" {
			t.Errorf("after %v: %v\n%s", a.took, a.header, a.body)
		}
		// Behind one that waits, too.
		go r.chat(t.Context())
		synctest.Wait()
		if b := r.chat(t.Context(), "X-Paceline-Max-Wait", "20s"); b.took != 0 || b.status != 429 {
			t.Errorf("behind another: %d after %v", b.status, b.took)
		}
		// Its place in line tells as well: the first can start at 60 s, the
		// second at 120 s.
		if b := r.chat(t.Context(), "X-Paceline-Max-Wait", "90s"); b.took != 0 || b.status != 429 ||
			!strings.Contains(b.body, "1 wait before it, and at most 1 start in 1m0s") || b.header.Get("Retry-After-Ms") != "120000" {
			t.Errorf("the second in line: %d after %v, %v\n%s", b.status, b.took, b.header, b.body)
		}
		go r.chat(t.Context(), "X-Paceline-Max-Wait", "130s")
		synctest.Wait()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := len(r.sent(time.Now())); n != 3 {
			t.Errorf("%d started, want all three that could be in time", n)
		}
	})
}

// One that was refused because too many ran goes when one of ours has ended,
// without waiting its backoff out.
func TestRefusedForAPlaceGoesWhenOneEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Concurrent: 1, Service: sec / 2, RetryAfter: stub.RetryAfterNone}, paceline.Provider{})
		start := time.Now()
		for _, a := range r.together(2) {
			a.want(t, 200)
		}
		wantInstants(t, r.sent(start), 0, 0, sec/2)
		if recs := r.logged(); len(recs) != 3 {
			t.Errorf("%d attempts, want one refused and two answered", len(recs))
		}
	})
}

// A refusal of a limit on how many run at once is repeated when one of ours
// ends, and its key learns how many go together.
func TestConcurrencyIsLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Concurrent: 3, Service: 10 * sec, RetryAfter: stub.RetryAfterNone}, paceline.Provider{})
		for _, a := range r.together(12) {
			a.want(t, 200)
		}
		c := r.stub.Counts()
		if c.PeakLive > 3 || c.Refused > 9 {
			t.Errorf("%d live, %d refused; the first burst should teach", c.PeakLive, c.Refused)
		}
		r.together(12)
		if again := r.stub.Counts(); again.Refused > c.Refused {
			t.Errorf("%d more refused once it is known", again.Refused-c.Refused)
		}
	})
}
