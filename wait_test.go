package paceline_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/policy"
	"github.com/paceline-proxy/paceline/stub"
)

// waitLog notes what OnWait is told, since an instant.
type waitLog struct {
	start time.Time
	mu    sync.Mutex
	lines []string
	last  *paceline.Wait
}

func (l *waitLog) note(w *paceline.Wait) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := func(t time.Time) string {
		if t.IsZero() {
			return "?"
		}
		return fmt.Sprint(t.Sub(l.start))
	}
	line := fmt.Sprintf("%v %s %s since %s until %s", time.Since(l.start), w.ID, w.Kind, at(w.Since), at(w.Until))
	if w.Over {
		line = fmt.Sprintf("%v %s over", time.Since(l.start), w.ID)
	}
	l.lines, l.last = append(l.lines, line), w
}

func (l *waitLog) latest() *paceline.Wait {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

func (l *waitLog) want(t *testing.T, want ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if fmt.Sprint(l.lines) != fmt.Sprint(want) {
		t.Errorf("OnWait was told\n%q, want\n%q", l.lines, want)
	}
}

func id(name string) []string { return []string{"X-Paceline-Request-Id", name} }

// OnWait hears of a request that waits for its turn once when it begins and
// once when it is over, of a new cause, and of nothing where nobody waits.
func TestOnWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{{}, {}, {Status: 429, Wait: 30 * sec}}}, paceline.Provider{Limits: paceline.Limits{
			Windows: []paceline.Window{{Calls: 1, Per: 10 * sec, Slack: -1}}, Pacing: paceline.Burst}})
		log := &waitLog{start: time.Now()}
		r.OnWait = log.note
		r.chat(t.Context(), id("first")...).want(t, 200)
		log.want(t)
		r.chat(t.Context(), id("second")...).want(t, 200)
		want := []string{"0s second turn since 0s until 10s", "10s second over"}
		log.want(t, want...)
		if log.latest().SendAnyway() {
			t.Error("a declared limit was sent into")
		}
		r.chat(t.Context(), id("third")...).want(t, 200)
		log.want(t, append(want, "10s third turn since 10s until 20s", "20s third over",
			"20s third pause since 20s until 50s", "50s third over")...)
		if got := r.logged(); got[0].ID != "first" || got[3].ID != "third" {
			t.Errorf("recorded %+v", got)
		}
	})
}

// A wait is over also where its caller leaves, and where an operator's pause
// ends; those behind others say so.
func TestOnWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 60}})
		log := &waitLog{start: time.Now()}
		r.OnWait = log.note
		if err := r.Pause("test", time.Now().Add(time.Hour), "a test"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*sec, cancel)
		var wg sync.WaitGroup
		wg.Go(func() { r.chat(ctx, id("a")...) })
		synctest.Wait()
		wg.Go(func() { r.chat(t.Context(), id("not a name!")...) })
		synctest.Wait()
		second := log.latest()
		if len(second.ID) != 16 || second.Why == "" {
			t.Errorf("the second waits as %+v", second)
		}
		b := second.ID
		time.Sleep(6 * sec)
		if err := r.Resume("test"); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		log.want(t, "0s a operator since 0s until 1h0m0s", "0s "+b+" operator since 0s until 1h0m0s", "5s a over",
			"5s "+b+" operator since 0s until 1h0m0s", "6s "+b+" over")
	})
}

// S-09: one refusal does not end a task. Who waits for capacity, as a context, an
// entry or a header says, waits for pauses however long, and counts no tries.
func TestWaysToWaitForCapacity(t *testing.T) {
	for name, tt := range map[string]struct {
		ctx, entry bool
		header     []string
		status     int
	}{
		"not at all": {status: 429},
		"a context":  {ctx: true, status: 200},
		"an entry":   {entry: true, status: 200},
		"a header":   {header: said("Wait-For-Capacity", "1"), status: 200},
		"a no":       {header: said("Wait-For-Capacity", "0"), status: 429},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, stub.Config{Script: slices.Repeat([]stub.Step{told(40 * time.Minute)}, 12)},
					paceline.Provider{Retry: paceline.Retry{Max: 2, WaitForCapacity: tt.entry}})
				ctx, took := t.Context(), time.Duration(0)
				if tt.ctx {
					ctx = paceline.WaitForCapacity(ctx)
				}
				if tt.status == 200 {
					took = 12 * 40 * time.Minute
				}
				if a := r.chat(ctx, tt.header...); a.status != tt.status || a.took != took {
					t.Errorf("it came to %d after %v, want %d after %v", a.status, a.took, tt.status, took)
				}
			})
		})
	}
}

// A wait is over exactly once, on every way out: sent, refused for want of
// time, told to come again, left, and drained.
func TestOnWaitIsOverOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		queue  paceline.Queue
		leaves time.Duration
		drains time.Duration
		over   time.Duration
	}{
		"sent":            {over: time.Minute},
		"out of patience": {queue: paceline.Queue{ClientTimeout: 20 * sec}, over: 18 * sec},
		"left":            {leaves: 7 * sec, over: 7 * sec},
		"drained":         {drains: 5 * sec, over: 5 * sec},
		"bounds":          {queue: paceline.Queue{MaxWaiting: 1}, over: 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{
					Windows: []paceline.Window{{Calls: 1, Per: time.Minute, Slack: -1}}, Pacing: paceline.Burst}})
				r.Queue = tt.queue
				r.chat(t.Context()).want(t, 200)
				start := time.Now()
				if name == "bounds" {
					go r.chat(t.Context(), id("first")...)
					synctest.Wait()
				}
				log := &waitLog{start: start}
				r.OnWait = log.note
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.leaves > 0 {
					time.AfterFunc(tt.leaves, cancel)
				}
				if tt.drains > 0 {
					time.AfterFunc(tt.drains, r.Drain)
				}
				r.chat(ctx, id("x")...)
				time.Sleep(5 * time.Minute)
				begun, over := 0, 0
				for _, line := range log.lines {
					switch {
					case line == fmt.Sprintf("%v x over", tt.over):
						over++
					case strings.HasPrefix(line, "0s x turn since 0s"):
						begun++
					default:
						t.Errorf("OnWait was told %q", line)
					}
				}
				if begun != 1 || over != 1 {
					t.Errorf("OnWait was told %q, want one wait, over after %v", log.lines, tt.over)
				}
			})
		})
	}
}

// What a provider has told is left is a wait of its own kind, with its figures,
// that a person may end: for this request and no other, and for no stated wait.
func TestSendAnyway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		r := newRig(t, stub.Config{}, paceline.Provider{Dialect: "openai"})
		r.Base = sink(func(*http.Request) (*http.Response, error) {
			if n++; n == 4 {
				return answer(429, http.Header{"Retry-After": {"30"}}, "no"), nil
			}
			return answer(200, http.Header{
				"X-Ratelimit-Limit-Requests": {"1"}, "X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"1m40s"},
			}, "{}"), nil
		})
		start := time.Now()
		log := &waitLog{start: start}
		r.OnWait = log.note
		r.chat(t.Context()).want(t, 200)
		for range 2 {
			go r.chat(t.Context(), id("waits")...)
			synctest.Wait()
			w := log.latest()
			want := policy.Shortage{Unit: "requests", Window: "minute", Limit: 1, Anyway: true}
			if w.Kind != paceline.WaitBudget || w.Budget == nil || *w.Budget != want || w.Why == "" {
				t.Fatalf("it waits as %+v, %+v", w, w.Budget)
			}
			time.Sleep(4 * sec)
			if !w.SendAnyway() {
				t.Error("a wait for an observed budget was not ended")
			}
			synctest.Wait()
		}
		over := log.latest()
		if !over.Over || over.SendAnyway() {
			t.Errorf("a wait that is over was ended: %+v", over)
		}
		go r.chat(t.Context(), id("refused")...)
		synctest.Wait()
		log.latest().SendAnyway() // at 8 s, into a refusal that states 30 s
		synctest.Wait()
		stated := log.latest()
		if stated.Kind != paceline.WaitPause || stated.SendAnyway() {
			t.Errorf("a stated wait was ended: %+v", stated)
		}
		synctest.Wait()
		wantInstants(t, r.sent(start), 0, 4*sec, 8*sec, 8*sec)
		r.Drain()
	})
}

// A quota that is spent is a wait of its own kind.
func TestOnWaitForAQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		r := newRig(t, stub.Config{}, paceline.Provider{Dialect: "openai"})
		r.Base = sink(func(*http.Request) (*http.Response, error) {
			if n++; n == 1 {
				return answer(429, http.Header{"Retry-After": {"3600"}}, `{"error":{"message":"Rate limit reached on requests per day (RPD): Limit 200, Used 200, Requested 1.","code":"rate_limit_exceeded"}}`), nil
			}
			return answer(200, nil, "{}"), nil
		})
		log := &waitLog{start: time.Now()}
		r.OnWait = log.note
		r.chat(t.Context(), append(id("q"), "X-Paceline-Quota", "wait")...).want(t, 200)
		log.want(t, "0s q quota since 0s until 1h0m0s", "1h0m0s q over")
	})
}

// Nothing is told of, and nothing made, for requests that do not wait.
func TestOnWaitOfNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 1000, Pacing: paceline.Burst}})
		r.OnWait = func(w *paceline.Wait) { t.Errorf("told of %+v", w) }
		for _, a := range r.together(100) {
			a.want(t, 200)
		}
	})
}

// A request may bring its id, of 64 letters, digits, - and _ at most; what is
// none is replaced by one of ours. No provider sees it.
func TestRequestIDs(t *testing.T) {
	long := strings.Repeat("x", 64)
	for brought, kept := range map[string]bool{
		"A-z_09": true, long: true, "": false, long + "x": false, "a b": false, "a/b": false, "ä": false, "a\x00": false,
	} {
		r := newRig(t, stub.Config{}, paceline.Provider{})
		r.Base = sink(func(req *http.Request) (*http.Response, error) {
			if req.Header.Get("X-Paceline-Request-Id") != "" {
				t.Errorf("the provider was sent %v", req.Header)
			}
			return answer(200, nil, "{}"), nil
		})
		got := r.chat(t.Context(), id(brought)...).header.Get("X-Paceline-Request-Id")
		if (got == brought) != kept || !kept && len(got) != 16 || r.logged()[0].ID != got {
			t.Errorf("%q became %q, logged as %q", brought, got, r.logged()[0].ID)
		}
	}
}
