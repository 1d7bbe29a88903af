package paceline_test

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/stub"
)

// P-58: with even pacing starts are 60 s ÷ maxPerMinute apart.
func TestEvenPacingSpacesStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 15, WindowSlack: -1}})
		start := time.Now()
		for _, a := range r.together(5) {
			a.want(t, 200)
		}
		wantInstants(t, r.sent(start), 0, 4*sec, 8*sec, 12*sec, 16*sec)
	})
}

// P-59, P-160: a bucket of 3 refilled every 4 s never refuses an even load.
// P-159, P-161: under burst pacing it does, and every refusal is under limit.
func TestBucketSmallerThanTheMinute(t *testing.T) {
	bucket := stub.Config{Meters: []stub.Meter{{Kind: stub.Bucket, Limit: 15, Per: time.Minute, Burst: 3}}}
	for _, pacing := range []string{"even", "burst"} {
		t.Run(pacing, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limits := paceline.Limits{MaxPerMinute: 15}
				if pacing == "burst" {
					limits.Pacing = paceline.Burst
				}
				r := newRig(t, bucket, paceline.Provider{Limits: limits})
				for _, a := range r.together(30) {
					a.want(t, 200)
				}
				refused := refusals(r.logged(), dialect.RateLimited)
				if pacing == "even" && refused > 0 {
					t.Errorf("%d refusals under even pacing, want none", refused)
				}
				if pacing == "burst" && refused == 0 {
					t.Error("no refusal under burst pacing: the test shows nothing")
				}
				for _, rec := range r.logged() {
					if rec.Class == dialect.RateLimited && (rec.Evidence == nil || !rec.Evidence.UnderLimit) {
						t.Errorf("a refusal is not under limit: %+v", rec.Evidence)
					}
				}
				if c := r.stub.Counts(); c.Early > 0 {
					t.Errorf("%d requests were sent into a stated wait", c.Early)
				}
			})
		})
	}
}

// windowCase is a declared limit and when n calls asked for at once start.
func startsUnder(t *testing.T, limits paceline.Limits, n int) []time.Duration {
	t.Helper()
	var at []time.Duration
	synctest.Test(t, func(t *testing.T) {
		if limits.WindowSlack == 0 {
			limits.WindowSlack = -1
		}
		r := newRig(t, stub.Config{}, paceline.Provider{Limits: limits})
		start := time.Now()
		for _, a := range r.together(n) {
			a.want(t, 200)
		}
		at = r.sent(start)
	})
	return at
}

// mostWithin is the most starts in any span of a length.
func mostWithin(at []time.Duration, per time.Duration) int {
	most := 0
	for i := range at {
		n := 0
		for _, b := range at[i:] {
			if b-at[i] < per {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// P-51, P-52, P-54, P-61: each window bounds the starts of any span of its
// length, and under burst pacing starts go as fast as the others allow.
func TestWindows(t *testing.T) {
	burst := paceline.Burst
	wantInstants(t, startsUnder(t, paceline.Limits{MaxPerMinute: 3, Pacing: burst}, 7), 0, 0, 0, 60*sec, 60*sec, 60*sec, 120*sec)
	wantInstants(t, startsUnder(t, paceline.Limits{MaxPerSecond: 2, Pacing: burst}, 5), 0, 0, sec, sec, 2*sec)
	wantInstants(t, startsUnder(t, paceline.Limits{MaxPerHour: 2, Pacing: burst}, 3), 0, 0, time.Hour)
	wantInstants(t, startsUnder(t, paceline.Limits{MaxPerDay: 1, Pacing: burst}, 2), 0, 24*time.Hour)
	at := startsUnder(t, paceline.Limits{MaxPerSecond: 2, MaxPerMinute: 5, Pacing: burst}, 12)
	wantInstants(t, at, 0, 0, sec, sec, 2*sec, 60*sec, 60*sec, 61*sec, 61*sec, 62*sec, 120*sec, 120*sec)
	if n := mostWithin(at, time.Minute); n != 5 {
		t.Errorf("%d starts within a minute, want 5", n)
	}
	at = startsUnder(t, paceline.Limits{Windows: []paceline.Window{{Calls: 2, Per: 15 * sec}}, Pacing: burst}, 5)
	wantInstants(t, at, 0, 0, 15*sec, 15*sec, 30*sec)
}

// P-62, P-63, P-64, P-65: the margin is a part of every rate left unused; it
// lengthens even spacing, is held at 0.9, and never stops a key altogether.
func TestSafetyMargin(t *testing.T) {
	within := func(l paceline.Limits, n int, per time.Duration) int {
		t.Helper()
		l.Pacing = paceline.Burst
		return mostWithin(startsUnder(t, l, n), per)
	}
	if n := within(paceline.Limits{MaxPerMinute: 15, SafetyMargin: 0.2}, 30, time.Minute); n != 12 {
		t.Errorf("15 a minute with a margin of 0.2 sent %d, want 12", n)
	}
	if n := within(paceline.Limits{MaxPerSecond: 10, SafetyMargin: 0.5}, 20, time.Second); n != 5 {
		t.Errorf("10 a second with a margin of 0.5 sent %d, want 5", n)
	}
	if n := within(paceline.Limits{MaxPerHour: 10, SafetyMargin: 0.3}, 20, time.Hour); n != 7 {
		t.Errorf("10 an hour with a margin of 0.3 sent %d, want 7", n)
	}
	wantInstants(t, startsUnder(t, paceline.Limits{MaxPerMinute: 15, SafetyMargin: 0.2}, 3), 0, 5*sec, 10*sec)
	wantInstants(t, startsUnder(t, paceline.Limits{MaxPerMinute: 1, SafetyMargin: 5, Pacing: paceline.Burst}, 2), 0, 600*sec)
}

// P-66, P-67, P-71: slack lengthens the minute and the hour, not the second.
func TestSlack(t *testing.T) {
	slack := 1500 * time.Millisecond
	wantInstants(t, startsUnder(t, paceline.Limits{MaxPerMinute: 1, WindowSlack: slack, Pacing: paceline.Burst}, 2), 0, time.Minute+slack)
	wantInstants(t, startsUnder(t, paceline.Limits{MaxPerHour: 1, WindowSlack: slack, Pacing: paceline.Burst}, 2), 0, time.Hour+slack)
	wantInstants(t, startsUnder(t, paceline.Limits{MaxPerSecond: 1, WindowSlack: slack, Pacing: paceline.Burst}, 2), 0, time.Second)
	ten := []paceline.Window{{Calls: 1, Per: 10 * sec}}
	wantInstants(t, startsUnder(t, paceline.Limits{Windows: ten, WindowSlack: slack, Pacing: paceline.Burst}, 2), 0, 10200*time.Millisecond)
}

// P-70: with slack, the attempts of any minute by arrival stay within the
// limit although transit varies by as much.
func TestSlackCoversTransit(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, stub.Config{
				Meters: []stub.Meter{{Kind: stub.Rolling, Limit: 15}}, Jitter: 1500 * time.Millisecond, Seed: seed,
			}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 15, Pacing: paceline.Burst, WindowSlack: 1500 * time.Millisecond}})
			r.together(100)
			if c := r.stub.Counts(); c.Refused > 0 || c.PeakWindow > 15 {
				t.Errorf("seed %d: %d refused, %d arrived within a minute", seed, c.Refused, c.PeakWindow)
			}
		})
	}
}

// P-53: at most maxConcurrent attempts are in flight.
func TestConcurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Service: 3 * sec}, paceline.Provider{Limits: paceline.Limits{MaxConcurrent: 2}})
		start := time.Now()
		for _, a := range r.together(5) {
			a.want(t, 200)
		}
		wantInstants(t, r.sent(start), 0, 0, 3*sec, 3*sec, 6*sec)
		if c := r.stub.Counts(); c.PeakLive != 2 {
			t.Errorf("%d in service at once, want 2", c.PeakLive)
		}
	})
}

// P-55: two providers do not share a count. P-56: nor do two entries over one
// base URL, told apart by Route.
func TestProvidersCountApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Name: "large", Limits: paceline.Limits{MaxPerMinute: 1, WindowSlack: -1}})
		r.Providers = append(r.Providers,
			paceline.Provider{Name: "small", BaseURL: base, Limits: paceline.Limits{MaxPerMinute: 2, Pacing: paceline.Burst, WindowSlack: -1}},
			paceline.Provider{Name: "elsewhere", BaseURL: "http://elsewhere.test", Limits: paceline.Limits{MaxPerMinute: 1}})
		r.Route = func(req *http.Request) ([]paceline.Route, error) {
			return []paceline.Route{{Provider: req.Header.Get("Entry")}}, nil
		}
		start := time.Now()
		for _, entry := range []string{"large", "small", "small", "elsewhere"} {
			r.chat(t.Context(), "Entry", entry).want(t, 200)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("four calls within their limits took %v", took)
		}
		if a := r.chat(t.Context(), "Entry", "small"); a.took != time.Minute {
			t.Errorf("the third call of an entry with two a minute took %v", a.took)
		}
	})
}

// P-57, P-60, P-68, P-69, P-72: the defaults that ship.
func TestDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Name: "openference"})
		start := time.Now()
		for _, a := range r.together(16) {
			a.want(t, 200)
		}
		at := r.sent(start)
		if at[1] != 4*sec || at[15] != 61500*time.Millisecond {
			t.Errorf("openference sent at %s; want 4 s apart, the 16th after the minute and its slack", secs(at))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 1, Pacing: paceline.Burst}})
		start := time.Now()
		r.together(2)
		wantInstants(t, r.sent(start), 0, 61*sec) // a second of slack
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{})
		start := time.Now()
		r.together(1000)
		if took := time.Since(start); took != 0 {
			t.Errorf("a thousand calls without any declared limit took %v", took)
		}
	})
	bad := &paceline.Transport{Providers: []paceline.Provider{{Name: "x", BaseURL: base, Limits: paceline.Limits{Pacing: "jerky"}}}}
	if _, err := bad.RoundTrip(chatRequest(t.Context())); err == nil || !strings.Contains(err.Error(), `"even" or "burst"`) {
		t.Errorf("pacing jerky: error %v", err)
	}
}

// P-75: nothing queued is dropped, however long it waits.
func TestNothingIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 1, WindowSlack: -1}})
		for _, a := range r.together(600) {
			a.want(t, 200)
		}
	})
}

// Starts of one instant go in the order of arrival.
func TestLineIsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 60, WindowSlack: -1}})
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() { r.chat(t.Context(), "X-Paceline-Run", strconv.Itoa(i)) })
			synctest.Wait()
		}
		wg.Wait()
		for i, rec := range r.logged() {
			if rec.Run != strconv.Itoa(i) {
				t.Fatalf("start %d was of request %s", i, rec.Run)
			}
		}
	})
}
