package paceline_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/stub"
)

// While nothing is known of a key of a provider that tells budgets, eight are in
// flight until the first answer comes, or three seconds have passed.
func TestColdStart(t *testing.T) {
	for name, tt := range map[string]struct {
		service time.Duration
		want    time.Duration // when the ninth is sent
	}{
		"a quick answer": {time.Second, time.Second},
		"a slow answer":  {10 * time.Second, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := stub.Config{Meters: []stub.Meter{{Kind: stub.Bucket, Limit: 1000}}, Headers: stub.HeadersOpenAI, Service: tt.service}
				r := newRig(t, c, paceline.Provider{Dialect: "openai"})
				start := time.Now()
				for _, a := range r.together(20) {
					a.want(t, 200)
				}
				at := r.sent(start)
				slices.Sort(at)
				if len(at) != 20 || at[7] != 0 || at[8] != tt.want {
					t.Errorf("sent at %s; want eight at once and the rest after %v", secs(at), tt.want)
				}
			})
		})
	}
	// A provider that tells nothing is not waited for.
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Service: time.Second}, paceline.Provider{Dialect: "ollama"})
		start := time.Now()
		r.together(20)
		if at := r.sent(start); len(at) != 20 || at[19] != 0 {
			t.Errorf("sent at %s, want all at once", secs(at))
		}
	})
}

// S-36, S-44: who is told what is left is not refused in steady use, and is
// spaced one after another where little is left: here a bucket of three, which
// says that three are its limit, is used at its true rate.
func TestBucketOfThree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := stub.Config{Meters: []stub.Meter{{Kind: stub.Bucket, Limit: 60, Per: time.Minute, Burst: 3}}, Headers: stub.HeadersOpenAI, Service: 100 * time.Millisecond}
		r := newRig(t, c, paceline.Provider{Dialect: "openai"})
		r.chat(t.Context()).want(t, 200)
		start := time.Now()
		for _, a := range r.together(40) {
			a.want(t, 200)
		}
		if took := time.Since(start); took > 45*time.Second {
			t.Errorf("40 took %v at one a second", took)
		}
		if n := r.stub.Counts().Refused; n > 1 {
			t.Errorf("%d were refused", n)
		}
	})
}

// where the provider charges by a rule that nobody knows, the floor still
// adapts: it is learned from what readings fall short of.
func TestUnknownCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left, at := 60.0, time.Now()
		var mu sync.Mutex
		r := newRig(t, stub.Config{}, paceline.Provider{Dialect: "openai"})
		refused := 0
		r.Base = answers(func(*http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			now := time.Now()
			left, at = min(60, left+now.Sub(at).Seconds()), now
			h := http.Header{"X-Ratelimit-Limit-Requests": {"60"}}
			status := 200
			if left >= 4 {
				left -= 4 // whatever it is
			} else {
				status = 429
				refused++
				h.Set("Retry-After-Ms", fmt.Sprint(int((4-left)*1000)+1))
			}
			h.Set("X-Ratelimit-Remaining-Requests", fmt.Sprint(int(left)))
			h.Set("X-Ratelimit-Reset-Requests", fmt.Sprintf("%.3fs", 60-left))
			return answer(status, h, "{}"), nil
		})
		var sent int
		for range 100 {
			if r.chat(t.Context()).status == 200 {
				sent++
			}
		}
		if b := r.Status()[0].Buckets; len(b) != 1 || b[0].Floor == nil || *b[0].Floor < 4 {
			t.Errorf("buckets %+v, want a floor of what a request takes", b)
		}
		if sent != 100 || refused > 8 {
			t.Errorf("%d of 100 came through, with %d refusals", sent, refused)
		}
	})
}

// what is known of budgets comes from answers alone: nothing
// but the clients' own requests is ever sent.
func TestOnlyAnswersTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := stub.Config{Meters: []stub.Meter{{Kind: stub.Bucket, Limit: 60}}, Headers: stub.HeadersAnthropic}
		r := newRig(t, c, paceline.Provider{Dialect: "anthropic"})
		var paths []string
		r.Base = sink(func(req *http.Request) (*http.Response, error) {
			paths = append(paths, req.Method+" "+req.URL.Path)
			return r.stub.RoundTrip(req)
		})
		for range 3 {
			r.chat(t.Context()).want(t, 200)
		}
		if len(paths) != 3 || slices.ContainsFunc(paths, func(p string) bool { return p != "POST /v1/chat/completions" }) {
			t.Errorf("sent %v", paths)
		}
	})
}

// NousResearch/hermes-agent#109234: many that are told one wait do not come
// back together: one looks, the others follow one by one, none before its time.
// nor do sessions of several processes over one store.
func TestNoHerdAfterAToldWait(t *testing.T) {
	for _, processes := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			store := &mapStore{}
			var rigs []*rig
			start := time.Now()
			var mu sync.Mutex
			var came []time.Duration
			for range processes {
				r := newRig(t, stub.Config{}, paceline.Provider{})
				r.Store = store
				r.Base = answers(func(*http.Request) (*http.Response, error) {
					at := time.Since(start)
					mu.Lock()
					came = append(came, at)
					mu.Unlock()
					if at < 2*time.Second {
						return answer(429, http.Header{"Retry-After": {"2"}}, "{}"), nil
					}
					time.Sleep(10 * time.Millisecond)
					return answer(200, nil, "{}"), nil
				})
				rigs = append(rigs, r)
			}
			var all sync.WaitGroup
			for i := range 32 {
				all.Go(func() { rigs[i%processes].chat(t.Context()).want(t, 200) })
			}
			all.Wait()
			first := slices.IndexFunc(came, func(at time.Duration) bool { return at >= 2*time.Second })
			if n := len(came) - first; n != 32 {
				t.Errorf("%d processes: %d came after the wait, want 32", processes, n)
			}
			within := 0
			for _, at := range came[first:] {
				if at < came[first]+time.Second {
					within++
				}
			}
			if within > 1+3*processes {
				t.Errorf("%d processes: %d came within a second of the wait's end: %s", processes, within, secs(came[first:]))
			}
		})
	}
}

// octokit/plugin-throttling.js#629: a refusal holds the whole line: nothing is
// sent before the told wait is over, and those behind keep their order.
func TestARefusalHoldsTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{told(2 * sec)}}, paceline.Provider{})
		start := time.Now()
		for i := range 10 {
			go r.chat(t.Context(), said("Purpose", fmt.Sprint(i))...)
			synctest.Wait()
			if i == 0 {
				continue
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute)
		var order []string
		for _, rec := range r.logged() {
			if at := rec.Sent.Sub(start); at > 0 && at < 2*sec {
				t.Errorf("%s was sent after %v", rec.Purpose, at)
			}
			if rec.Status == 200 {
				order = append(order, rec.Purpose)
			}
		}
		if got := strings.Join(order, " "); got != "0 1 2 3 4 5 6 7 8 9" {
			t.Errorf("came through as %s", got)
		}
	})
}

// bytedance/deer-flow#4294: a provider that refuses when the requests of the
// last second are more than twice those of the second before gets all the work
// done, with few refusals.
func TestSlope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var arrived []time.Time
		refused := 0
		r := newRig(t, stub.Config{}, paceline.Provider{Dialect: "openai", Retry: paceline.Retry{Max: 20}})
		r.Base = answers(func(*http.Request) (*http.Response, error) {
			mu.Lock()
			now := time.Now()
			last, before := 0, 0
			for _, at := range arrived {
				switch age := now.Sub(at); {
				case age < time.Second:
					last++
				case age < 2*time.Second:
					before++
				}
			}
			if last > max(8, 2*before) {
				refused++
				mu.Unlock()
				return answer(429, nil, `{"error":{"code":"limit_burst_rate"}}`), nil
			}
			arrived = append(arrived, now)
			mu.Unlock()
			time.Sleep(500 * time.Millisecond)
			return answer(200, nil, "{}"), nil
		})
		for _, a := range r.together(50) {
			a.want(t, 200)
		}
		if refused > 12 {
			t.Errorf("%d refusals of 50 that start at once", refused)
		}
	})
}

// vllm-project/aibrix#2452: a few server errors at once cut no limit.
func TestServerErrorsCutNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{MaxConcurrent: 128}})
		n := 0
		var mu sync.Mutex
		r.Base = answers(func(*http.Request) (*http.Response, error) {
			mu.Lock()
			n++
			bad := n <= 6
			mu.Unlock()
			time.Sleep(50 * time.Millisecond)
			if bad {
				return answer(503, nil, "{}"), nil
			}
			return answer(200, nil, "{}"), nil
		})
		for _, a := range r.together(128) {
			a.want(t, 200)
		}
		if e := r.Status()[0].Effective; e.Factor != 1 || e.Concurrent != 128 {
			t.Errorf("effective %+v", e)
		}
	})
}

// mlflow/mlflow#24702: the line sees every attempt, those that repeat a refused
// one as well.
func TestEveryAttemptTeaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := stub.Config{Script: []stub.Step{told(sec), told(sec)}}
		r := newRig(t, c, paceline.Provider{})
		for _, a := range r.together(10) {
			a.want(t, 200)
		}
		attempts := len(r.logged())
		if counts := r.stub.Counts(); counts.Admitted+counts.Refused != attempts || attempts != 12 {
			t.Errorf("%d attempts in the log, the provider saw %+v", attempts, counts)
		}
	})
}

// RightNow-AI/openfang#170: fifteen agents start at once on one key: all get
// on, the interactive one first, and without a burst at the start.
func TestAgentsOnOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := stub.Config{Meters: []stub.Meter{{Kind: stub.Bucket, Limit: 30, Per: time.Minute, Burst: 10}}, Headers: stub.HeadersOpenAI, Service: sec}
		r := newRig(t, c, paceline.Provider{Dialect: "openai"})
		r.Limiter = memory.New()
		var all sync.WaitGroup
		for i := range 14 {
			all.Go(func() {
				r.chat(t.Context(), append(said("Client", fmt.Sprint(i)), said("Priority", "background")...)...).want(t, 200)
			})
		}
		synctest.Wait()
		me := r.chat(t.Context(), append(said("Client", "me"), said("Priority", "interactive")...)...)
		me.want(t, 200)
		all.Wait()
		if me.took > 8*sec || r.stub.Counts().Refused > 1 { // in turn with them it would be half a minute
			t.Errorf("the interactive one took %v, with %d refusals", me.took, r.stub.Counts().Refused)
		}
	})
}
