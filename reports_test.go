package paceline_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/stub"
)

// BerriAI/litellm#20940: each wait is that of the answer just received, and a
// lost connection has none.
func TestEachAnswerHasItsOwnWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := stub.Config{Script: []stub.Step{told(5 * sec), told(60 * sec), {Fault: stub.FaultReset}, told(2 * sec)}}
		r := newRig(t, c, paceline.Provider{Limits: paceline.Limits{MaxPerSecond: 10}})
		start := time.Now()
		r.chat(t.Context()).want(t, 200)
		at := r.sent(start)
		if len(at) != 5 || at[1] != 5*sec || at[2] != 65*sec || at[3] < 67*sec || at[3] > 67500*time.Millisecond || at[4] != at[3]+2*sec {
			t.Errorf("sent at %s; want after 5 s, 60 s, a backoff of 2 s and up to a quarter, and 2 s", secs(at))
		}
	})
}

// BerriAI/litellm#40130: the end of a pause only moves later, whatever the
// answers say that come after the one that made it.
func TestThePauseOnlyMovesLater(t *testing.T) {
	silent := stub.Step{Status: 429}
	for name, tt := range map[string]struct {
		script []stub.Step
		// until is when nothing may have been sent before, but the first.
		until time.Duration
	}{
		"a short wait, then none":           {[]stub.Step{told(sec), silent, silent, silent}, sec},
		"a long wait, then none":            {[]stub.Step{told(300 * sec), silent}, 300 * sec},
		"a long wait, then a short one":     {[]stub.Step{told(300 * sec), told(sec)}, 300 * sec},
		"a short wait, then a long one":     {[]stub.Step{told(sec), told(300 * sec)}, 300 * sec},
		"none, then a wait, and none again": {[]stub.Step{silent, told(40 * sec), silent}, 40 * sec},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, stub.Config{Script: tt.script}, paceline.Provider{})
				var n atomic.Int32
				r.Base = sink(func(req *http.Request) (*http.Response, error) {
					res, err := r.stub.RoundTrip(req)
					if i := n.Add(1); i > 1 && int(i) <= len(tt.script) {
						time.Sleep(250 * time.Millisecond)
					}
					return res, err
				})
				start := time.Now()
				for _, a := range r.together(len(tt.script)) {
					a.want(t, 200)
				}
				for i, at := range r.sent(start) {
					if i >= len(tt.script) && at < tt.until {
						t.Errorf("sent at %v, want nothing before %v", at, tt.until)
					}
				}
			})
		})
	}
}

// github/copilot-cli#3679: a client that tries five times in an instant has
// five requests in line, and the provider sees none of them before it said.
func TestQuickRetriesOfAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := stub.Config{Meters: []stub.Meter{{Kind: stub.Bucket, Limit: 6, Per: time.Minute, Burst: 1}}, Headers: stub.HeadersAzure}
		r := newRig(t, c, paceline.Provider{Dialect: "azure"})
		r.chat(t.Context()).want(t, 200)
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() { r.chat(t.Context()).want(t, 200) })
			time.Sleep(30 * time.Millisecond)
		}
		all.Wait()
		if c := r.stub.Counts(); c.Refused > 1 || c.Early > 0 {
			t.Errorf("%d were refused, %d of them before they should have come", c.Refused, c.Early)
		}
	})
}

// hcipengm/cogneva#59: what is drawn to spread retries is spread over the whole
// of what is promised, a backoff and up to a quarter.
func TestJitterIsSpread(t *testing.T) {
	const tenths = 10
	var seen [tenths]int
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, stub.Config{Script: silent(429, 1)}, paceline.Provider{})
			start := time.Now()
			r.chat(t.Context()).want(t, 200)
			more := r.sent(start)[1] - 2*sec
			seen[min(tenths-1, int(more*tenths/(sec/2)))]++
		})
	}
	for i, n := range seen {
		if n < 4 || n > 50 { // of 20: nothing that chance would do once in ten thousand runs
			t.Errorf("%d of 200 waits fall into tenth %d of a quarter: %v", n, i, seen)
		}
	}
}

// crewAIInc/crewAI#494: a limit of tokens holds beside one of requests, and says
// itself how long to wait.
func TestRequestsAndTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var spent []time.Duration // when 4251 tokens were
		start := time.Now()
		r, _ := tokenRig(t, paceline.Provider{Dialect: "groq", Limits: paceline.Limits{MaxPerMinute: 30, MaxTokensPerMinute: 5000}}, nil)
		r.Base = answers(func(*http.Request) (*http.Response, error) {
			at := time.Since(start)
			spent = slices.DeleteFunc(spent, func(s time.Duration) bool { return at-s >= time.Minute })
			if len(spent) > 0 {
				wait := time.Minute - (at - spent[0])
				return answer(429, http.Header{"Retry-After": {fmt.Sprint(wait.Seconds())}}, "{}"), nil
			}
			spent = append(spent, at)
			return usage(4000, 0, 251), nil
		})
		for range 4 {
			r.ask(t.Context(), promptOf(16000, 251, false)).want(t, 200)
		}
		wantInstants(t, r.sent(start), 0, time.Minute, 2*time.Minute, 3*time.Minute)
	})
}

// BerriAI/litellm#18730: what requests may cost is reserved before they are
// sent, so that those of one instant do not all pass a limit that each alone is
// within; and the sum of what they have cost waits for it.
func TestTokensOfOneInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		costs := []int{58, 80, 175, 175, 175}
		var mu sync.Mutex
		var n int
		r, _ := tokenRig(t, paceline.Provider{Limits: paceline.Limits{MaxTokensPerMinute: 100}}, func(*http.Request) (*http.Response, error) {
			mu.Lock()
			cost := costs[n]
			n++
			mu.Unlock()
			time.Sleep(sec)
			return usage(cost-10, 0, 10), nil
		})
		start := time.Now()
		for _, a := range r.together(5) {
			a.want(t, 200)
		}
		// Two that are within the limit together came to more, and what alone is
		// more than it goes by itself.
		at := r.sent(start)
		slices.Sort(at)
		for i := 1; i < len(at); i++ {
			if at[i]-at[i-1] < time.Minute {
				t.Errorf("sent at %s; want a minute apart, as no two fit", secs(at))
			}
		}
	})
}

// UKGovernmentBEIS/inspect_ai#3820: how many a provider runs at once is found
// out by the first who come, all at one instant, and used from then on with
// hardly a refusal.
func TestPlacesAreFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := stub.Config{Concurrent: 35, Service: 20 * sec, RetryAfter: stub.RetryAfterNone}
		r := newRig(t, c, paceline.Provider{})
		r.Base = r.far(50 * time.Millisecond) // nobody is warned by the first refusal
		var before stub.Counts
		for round, most := range []int{190, 3} {
			start := time.Now()
			for _, a := range r.together(200) {
				a.want(t, 200)
			}
			got := r.stub.Counts()
			// 200 in rounds of 35 that take 20 s.
			if took, n := time.Since(start), got.Refused-before.Refused; n > most || took > 160*sec || got.PeakLive != 35 {
				t.Errorf("round %d took %v with %d refusals, %d at once", round+1, took, n, got.PeakLive)
			}
			before = got
		}
	})
}

// huggingface/lighteval#608: 200 long questions against 30,000 tokens and 500
// requests a minute, which the provider tells, are all answered, in about the
// time that so many tokens take.
func TestManyLongJobsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := stub.Config{Meters: []stub.Meter{
			{Kind: stub.Bucket, Unit: stub.Tokens, Limit: 30_000},
			{Kind: stub.Bucket, Limit: 500},
		}, Headers: stub.HeadersOpenAI, Service: 2 * sec}
		r := newRig(t, c, paceline.Provider{Dialect: "openai"})
		body := promptOf(4000, 100, false) // 1012 tokens with its answer
		start := time.Now()
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() { r.ask(t.Context(), body).want(t, 200) })
		}
		all.Wait()
		least := time.Duration(200*1012-30_000) * time.Minute / 30_000
		if took, n := time.Since(start), r.stub.Counts().Refused; took > least*103/100 || n > 0 {
			t.Errorf("took %v of at least %v, with %d refusals", took, least, n)
		}
	})
}

// can1357/oh-my-pi#5207: five places, three processes with four calls each. One
// of them is killed while it holds two: there are never more than five at once,
// and its places come back when nobody has renewed them for a minute.
func TestPlacesOfAKilledProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, start := memory.New(), time.Now()
		var rigs []*rig
		for range 3 {
			r := newRig(t, stub.Config{Concurrent: 5, Service: 10 * sec, StopsWithClient: true}, paceline.Provider{Limits: paceline.Limits{MaxConcurrent: 5}})
			r.Limiter = &mortal{Limiter: shared}
			if len(rigs) > 0 {
				r.Base = rigs[0].stub
			}
			rigs = append(rigs, r)
		}
		var all sync.WaitGroup
		victim, killed := context.WithCancel(t.Context())
		for range 2 {
			all.Go(func() { rigs[0].chat(victim) })
		}
		synctest.Wait()
		four := func(r *rig) {
			for range 4 {
				all.Go(func() { r.chat(t.Context()).want(t, 200) })
			}
		}
		four(rigs[1])
		four(rigs[2])
		time.Sleep(5 * sec)
		for range 2 { // these die in line
			all.Go(func() { rigs[0].chat(victim) })
		}
		synctest.Wait()
		rigs[0].Limiter.(*mortal).dead.Store(true)
		killed()
		all.Wait()
		time.Sleep(time.Until(start.Add(58 * sec)))
		four(rigs[1])
		all.Wait()
		at := append(rigs[1].sent(start), rigs[2].sent(start)...)
		slices.Sort(at)
		for i := range at {
			at[i] = at[i].Round(sec)
		}
		wantInstants(t, at, 0, 0, 0, 10*sec, 10*sec, 10*sec, 20*sec, 20*sec, 58*sec, 58*sec, 58*sec, time.Minute)
		if c := rigs[0].stub.Counts(); c.PeakLive > 5 || c.Refused > 0 {
			t.Errorf("%d at once, %d refused", c.PeakLive, c.Refused)
		}
	})
}

// mortal is a process's way to a limiter that others use as well, and says so
// as such do: a place may be free a moment later. Once it is dead nothing is
// given back any more.
type mortal struct {
	*memory.Limiter
	dead atomic.Bool
}

func (m *mortal) Acquire(ctx context.Context, r limiter.Request) (limiter.Decision, error) {
	d, err := m.Limiter.Acquire(ctx, r)
	for i := range d.Refused {
		if soon := d.Now.Add(100 * time.Millisecond); d.Refused[i].RetryAt.After(soon) {
			d.Refused[i].RetryAt = soon
		}
	}
	return d, err
}

func (m *mortal) Release(ctx context.Context, permit string) error {
	if m.dead.Load() {
		return nil
	}
	return m.Limiter.Release(ctx, permit)
}

func (m *mortal) Renew(ctx context.Context, permits []string, hold time.Duration) error {
	if m.dead.Load() {
		return nil
	}
	return m.Limiter.Renew(ctx, permits, hold)
}
