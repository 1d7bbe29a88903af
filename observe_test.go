package paceline_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/stub"
)

// Observing sends everything at once and notes what enforcing would have come
// to: each start counts when it would have been, not when it was. Its record
// says whether the provider refused it.
func TestObserve(t *testing.T) {
	limits := paceline.Limits{MaxPerMinute: 4, Pacing: paceline.Burst, WindowSlack: -1}
	waits := func(mode paceline.Mode) (observed, waited []time.Duration, refused int) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, stub.Config{Meters: []stub.Meter{{Kind: stub.Rolling, Limit: 4, Per: time.Minute}}}, paceline.Provider{Limits: limits, Mode: mode})
			for range 10 {
				go r.chat(t.Context())
				synctest.Wait()
			}
			time.Sleep(30 * sec)
			go r.chat(t.Context())
			time.Sleep(10 * time.Minute)
			for _, rec := range r.logged() {
				if mode == paceline.Observe {
					if rec.Observed == nil || rec.Queued != 0 || rec.Attempt != 1 {
						t.Fatalf("logged as %+v", rec)
					}
					observed = append(observed, rec.Observed.Wait)
					if late := rec.Observed.Wait > 0; late != (rec.Observed.Why == "at most 4 start in 1m0s") {
						t.Errorf("%v because %q", rec.Observed.Wait, rec.Observed.Why)
					}
				}
				if rec.Status == 429 {
					refused++
				}
				waited = append(waited, rec.Queued)
			}
		})
		slices.Sort(observed) // those of one instant end in any order
		slices.Sort(waited)
		return observed, waited, refused
	}
	_, enforced, none := waits(paceline.Enforce)
	observed, _, refused := waits(paceline.Observe)
	if secs(observed) != secs(enforced) || none != 0 || refused != 7 {
		t.Errorf("observed %s and %d refused, enforced %s and %d refused", secs(observed), refused, secs(enforced), none)
	}
}

// What observing counted binds from the moment enforcing begins, and who waits
// when it ends is sent.
func TestModeChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := perMinute(2)
		p.Name, p.BaseURL, p.Mode = "test", base, paceline.Observe
		r := newRig(t, stub.Config{}, p)
		start := time.Now()
		mode := func(m paceline.Mode) {
			p.Mode = m
			if err := r.SetProviders([]paceline.Provider{p}); err != nil {
				t.Fatal(err)
			}
		}
		r.together(3)
		mode(paceline.Enforce)
		go r.chat(t.Context())
		go r.chat(t.Context())
		go r.chat(t.Context())
		time.Sleep(100 * sec) // two at a minute
		mode(paceline.Off)
		synctest.Wait()
		wantInstants(t, r.sent(start), 0, 0, 0, 60*sec, 60*sec, 100*sec)
	})
}

// Off sends everything at once and learns from nothing, but records it.
func TestOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := perMinute(1)
		p.Mode = paceline.Off
		r := newRig(t, stub.Config{Script: []stub.Step{told(time.Hour)}}, p)
		start := time.Now()
		r.chat(t.Context()).want(t, 429)
		for _, a := range r.together(3) {
			a.want(t, 200)
		}
		wantInstants(t, r.sent(start), 0, 0, 0, 0)
		for _, rec := range r.logged() {
			if rec.Observed != nil {
				t.Errorf("observed %+v", rec.Observed)
			}
		}
	})
}

// A pause and places that would have been waited for are noted, too.
func TestObservePausesAndPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Service: sec, Script: []stub.Step{told(30 * sec)}}, paceline.Provider{
			Limits: paceline.Limits{MaxConcurrent: 1}, Mode: paceline.Observe})
		r.chat(t.Context()).want(t, 429)
		time.Sleep(10 * sec)
		r.chat(t.Context()).want(t, 200)
		if o := r.logged()[1].Observed; o.Wait != 20*sec || !strings.Contains(o.Why, "rate_limit (told)") {
			t.Errorf("into a pause: %+v", o)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Service: sec}, paceline.Provider{Limits: paceline.Limits{MaxConcurrent: 1}, Mode: paceline.Observe})
		r.together(2)
		if a, b := r.logged()[0].Observed, r.logged()[1].Observed; a.Wait+b.Wait != 0 || a.Why+b.Why != "at most 1 run at once" {
			t.Errorf("beyond the places: %+v and %+v", a, b)
		}
	})
}

// What was observed is in the log's row.
func TestObservedInJSON(t *testing.T) {
	b, err := json.Marshal(paceline.Record{Observed: &paceline.Observed{Wait: 1500 * time.Millisecond, Why: "w"}})
	var r paceline.Record
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil || !strings.Contains(string(b), `"observed_ms":1500,"observed_why":"w"`) || r.Observed == nil || r.Observed.Wait != 1500*time.Millisecond {
		t.Errorf("%s, %v, %+v", b, err, r.Observed)
	}
}

// Who waits for a pause that the provider has told is sent, too, when enforcing
// ends: a line of them, at once.
func TestModeChangesInAToldPause(t *testing.T) {
	for _, mode := range []paceline.Mode{paceline.Observe, paceline.Off} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := paceline.Provider{Name: "test", BaseURL: base, Limits: paceline.Limits{MaxPerMinute: 1}}
				r := newRig(t, stub.Config{Script: []stub.Step{{Status: 429, Wait: 5 * time.Minute}}}, p)
				start := time.Now()
				for range 4 {
					go r.chat(t.Context())
					synctest.Wait()
				}
				time.Sleep(100 * sec)
				p.Mode = mode
				if err := r.SetProviders([]paceline.Provider{p}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				wantInstants(t, r.sent(start), 0, 100*sec, 100*sec, 100*sec, 100*sec)
			})
		})
	}
}
