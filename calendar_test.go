package paceline_test

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/stub"
)

// Windows that turn with the wall clock's minute and tell no reset are planned
// for: Mistral's.
func TestWallClockMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(20 * sec)
		c := stub.Config{Meters: []stub.Meter{{Kind: stub.Fixed, Limit: 5}}, Headers: stub.HeadersMistral}
		r := newRig(t, c, paceline.Provider{Dialect: "mistral"})
		start := time.Now()
		for range 11 {
			r.chat(t.Context()).want(t, 200)
		}
		at := r.sent(start)
		// 40 s are left of the first minute; what is left of it is spread.
		if n := r.stub.Counts().Refused; n > 0 || at[4] >= 40*sec || at[5] < 40*sec || at[5] > 42*sec || at[10] > 102*sec {
			t.Errorf("%d refused, sent at %s; want five in each minute", n, secs(at))
		}
	})
	// What others took is refused without a wait: nobody asks again before the
	// minute has turned.
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(20 * sec)
		r := newRig(t, stub.Config{Meters: []stub.Meter{{Kind: stub.Fixed, Limit: 5}}, Headers: stub.HeadersMistral}, paceline.Provider{Dialect: "mistral"})
		for range 5 {
			if _, err := r.stub.RoundTrip(chatRequest(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		for _, a := range r.together(3) {
			a.want(t, 200)
		}
		at := r.sent(start)
		if i := slices.IndexFunc(at, func(d time.Duration) bool { return d > 0 }); at[i].Round(sec) != 41*sec || r.stub.Counts().Refused != i {
			t.Errorf("sent at %s; want nothing between the refusals and a second after the minute", secs(at))
		}
	})
}

// The hidden limits of GitHub say no wait, and forbid to come again within a
// minute; then it doubles.
func TestLeastWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hidden := stub.Step{Status: 403, Body: `{"message":"You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}`}
		r := newRig(t, stub.Config{Script: slices.Repeat([]stub.Step{hidden}, 5)}, paceline.Provider{Dialect: "github"})
		start := time.Now()
		r.chat(t.Context()).want(t, 200)
		at := r.sent(start)
		for i, least := range []time.Duration{1, 2, 4, 8, 8} {
			least *= time.Minute
			if wait := at[i+1] - at[i]; wait < least || wait > least+least/4 {
				t.Errorf("wait %d is %v, want %v and up to a quarter", i+1, wait, least)
			}
		}
	})
}

// A day is spent, and its refusals do not say until when: it turns at midnight
// in the provider's zone. One request looks every ten minutes whether that is
// right; who does not wait for quotas is told at once.
func TestSpentDay(t *testing.T) {
	spent := `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure",` +
		`"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier","quotaValue":"50"}]}]}}`
	for name, opens := range map[string]time.Duration{"sooner": 25 * time.Minute, "at midnight": 8 * time.Hour} {
		for _, processes := range []int{1, 3} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { // it is four in the afternoon
					store, start := &mapStore{}, time.Now()
					var mu sync.Mutex
					var came []time.Duration
					var rigs []*rig
					for range processes {
						r := newRig(t, stub.Config{}, paceline.Provider{Dialect: "gemini"})
						if processes > 1 {
							r.Store = store
						}
						r.Base = answers(func(*http.Request) (*http.Response, error) {
							at := time.Since(start)
							mu.Lock()
							came = append(came, at)
							mu.Unlock()
							time.Sleep(sec / 10)
							if at < opens {
								return answer(429, nil, spent), nil
							}
							return answer(200, nil, "{}"), nil
						})
						rigs = append(rigs, r)
					}
					var all sync.WaitGroup
					for i := range 6 {
						all.Go(func() { rigs[i%processes].chat(t.Context(), said("Quota", "wait")...).want(t, 200) })
						time.Sleep(sec)
					}
					time.Sleep(14 * sec) // between two looks
					if a := rigs[0].chat(t.Context()); a.status != 429 || a.took != 0 || a.header.Get("X-Paceline-Attempts") != "0" {
						t.Errorf("who does not wait came to %d after %v: %v", a.status, a.took, a.header)
					}
					if p := rigs[0].Status()[0]; !p.PausedUntil.Equal(start.Add(8*time.Hour)) || p.PausedSource != "learned" {
						t.Errorf("paused until %v (%s)", p.PausedUntil, p.PausedSource)
					}
					all.Wait()
					want := []time.Duration{0}
					for at := 10*time.Minute + sec/10; at < min(8*time.Hour, opens+10*time.Minute); {
						want = append(want, at)
						at += 10 * time.Minute
					}
					for i, at := range want {
						if got := came[i]; got < at || got > at+time.Duration(i+1)*sec/5 {
							t.Fatalf("look %d came at %v, want %v", i, got, at)
						}
					}
					if rest := came[len(want):]; name == "sooner" && len(rest) != 5 || name != "sooner" && (len(rest) != 6 || rest[0] != opens) {
						t.Errorf("after %d looks came %s", len(want), secs(rest))
					}
				})
			})
		}
	}
}

// Limits that are told in refusals alone hold like declared ones: Gemini's. Of
// others that spend from them nothing is told, so a rate is learned as well.
func TestLimitsToldInRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := stub.Config{Meters: []stub.Meter{{Kind: stub.Rolling, Limit: 5}}, Headers: stub.HeadersGemini}
		r := newRig(t, c, paceline.Provider{Dialect: "gemini"})
		start := time.Now()
		for range 40 {
			r.chat(t.Context()).want(t, 200)
		}
		// The first to be refused, and those of the minute in which it was.
		if took, n := time.Since(start), r.stub.Counts().Refused; n > 2 || took > 9*time.Minute {
			t.Errorf("40 at 5 a minute took %v, with %d refusals", took, n)
		}
	})
}

// Windows that are known to roll and tell no reset give back what they have
// taken: Cohere's, whose refusals tell nothing at all.
func TestRollingWindowWithoutAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := stub.Config{Meters: []stub.Meter{{Kind: stub.Rolling, Limit: 5}}, Headers: stub.HeadersCohere}
		r := newRig(t, c, paceline.Provider{Dialect: "cohere"})
		start := time.Now()
		for range 40 {
			r.chat(t.Context()).want(t, 200)
		}
		if took, n := time.Since(start), r.stub.Counts().Refused; n > 0 || took > 7*62*sec {
			t.Errorf("40 at 5 a minute took %v, with %d refusals", took, n)
		}
	})
}

// What a provider states is never looked into.
func TestStatedWaitIsNotLookedInto(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := told(3 * time.Hour)
		r := newRig(t, stub.Config{Script: []stub.Step{step}}, paceline.Provider{})
		start := time.Now()
		r.chat(t.Context(), said("Quota", "wait")...).want(t, 200)
		wantInstants(t, r.sent(start), 0, 3*time.Hour)
		if r.logged()[0].Class != dialect.QuotaExhausted {
			t.Error("the test shows nothing of quotas")
		}
	})
}
