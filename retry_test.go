package paceline_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/stub"
)

// left is the head of an answer that tells how many requests of a limit are
// left, and when the limit is full again.
func left(remaining, limit int, reset string) http.Header {
	return http.Header{
		"X-Ratelimit-Limit-Requests": {fmt.Sprint(limit)}, "X-Ratelimit-Remaining-Requests": {fmt.Sprint(remaining)}, "X-Ratelimit-Reset-Requests": {reset},
	}
}

// budgetRig is a rig whose provider answers in turn.
func budgetRig(t *testing.T, p paceline.Provider, answers ...func() *http.Response) *rig {
	p.Dialect = "openai"
	r := newRig(t, stub.Config{}, p)
	var n atomic.Int32
	r.Base = sink(func(*http.Request) (*http.Response, error) {
		return answers[min(int(n.Add(1)), len(answers))-1](), nil
	})
	return r
}

func says(status int, h http.Header, body string) func() *http.Response {
	return func() *http.Response { return answer(status, h.Clone(), body) }
}

// whoever asks waits alike, with somebody who looks on and without, and in
// silence. R-94: the wait for an observed budget is bounded: what would fit only
// after more than two minutes is sent at once.
func TestBudgetsBindEveryCall(t *testing.T) {
	for _, tt := range []struct {
		reset string
		wait  time.Duration
	}{{"40s", 40 * sec}, {"2m", 120 * sec}, {"2m1s", 0}, {"24h", 0}} {
		for _, watched := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				r := budgetRig(t, paceline.Provider{}, says(200, left(0, 1, tt.reset), "{}"))
				told := 0
				if watched {
					r.OnWait = func(*paceline.Wait) { told++ }
				}
				start := time.Now()
				r.chat(t.Context()).want(t, 200)
				r.chat(t.Context()).want(t, 200)
				wantInstants(t, r.sent(start), 0, tt.wait)
				if watched && (told > 0) != (tt.wait > 0) {
					t.Errorf("told %d times of a wait of %v", told, tt.wait)
				}
			})
		}
	}
}

// what an observed budget says changes nothing about the
// retry of what is refused all the same, which waits as the refusal says.
func TestRetriesAreTheBackstop(t *testing.T) {
	for _, budgets := range []paceline.Budgets{paceline.HeedBudgets, paceline.IgnoreBudgets} {
		t.Run(string(budgets), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plenty := left(900, 1000, "60s")
				refused := plenty.Clone()
				refused.Set("Retry-After", "7")
				r := budgetRig(t, paceline.Provider{Budgets: budgets}, says(200, plenty, "{}"), says(429, refused, "no"), says(429, refused, "no"), says(200, plenty, "{}"))
				start := time.Now()
				r.chat(t.Context()).want(t, 200)
				r.chat(t.Context()).want(t, 200)
				wantInstants(t, r.sent(start), 0, 0, 7*sec, 14*sec)
			})
		})
	}
}

// what is added to a wait that nobody stated is a random part of up to a
// quarter, never less than nothing, and also beyond the cap of a minute.
func TestJitterIsOnlyAdded(t *testing.T) {
	base, seen := 2*sec, map[time.Duration]bool{}
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, stub.Config{Script: silent(429, 7)}, paceline.Provider{Retry: paceline.Retry{Max: 7}})
			start := time.Now()
			r.chat(t.Context()).want(t, 200)
			at := r.sent(start)
			for i := range 7 {
				wait, least := at[i+1]-at[i], min(base<<i, time.Minute)
				if wait < least || wait > least+least/4 {
					t.Errorf("wait %d is %v, want %v and up to a quarter", i, wait, least)
				}
				seen[wait] = true
			}
		})
	}
	if len(seen) < 300 {
		t.Errorf("%d different waits of 350", len(seen))
	}
}

// those that were refused together do not go on at one instant.
func TestRefusedTogetherGoOnOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: slices.Repeat([]stub.Step{told(10 * sec)}, 8)}, paceline.Provider{})
		r.Base = r.far(sec / 10)
		start := time.Now()
		for _, a := range r.together(8) {
			a.want(t, 200)
		}
		again := r.sent(start)
		slices.Sort(again)
		again = again[8:]
		if again[0] < 10*sec || len(slices.Compact(slices.Clone(again))) != 8 {
			t.Errorf("sent again at %s; want eight instants after 10 s", secs(again))
		}
	})
}

// a balance that is spent is handed back after one attempt; a rate that is
// exceeded is waited out. Both have the same status.
func TestSpentAndLimitedAreTwoThings(t *testing.T) {
	for code, attempts := range map[string]int{"insufficient_quota": 1, "rate_limit_exceeded": 2} {
		synctest.Test(t, func(t *testing.T) {
			r := budgetRig(t, paceline.Provider{},
				says(429, http.Header{"Retry-After": {"3"}}, `{"error":{"code":"`+code+`","type":"`+code+`","message":"Slow down or pay."}}`), says(200, nil, "{}"))
			a := r.chat(t.Context())
			if got := len(r.logged()); got != attempts || (a.status == 200) != (attempts == 2) {
				t.Errorf("%s came to %d after %d attempts, want %d", code, a.status, got, attempts)
			}
		})
	}
}

// sessions with headroom are sent side by side, and at once: nothing is
// put one after the other that need not be.
func TestHeadroomIsNotSerialised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := budgetRig(t, paceline.Provider{}, says(200, left(500, 1000, "30s"), "{}"))
		r.chat(t.Context()).want(t, 200)
		base := r.Base
		r.Base = sink(func(req *http.Request) (*http.Response, error) {
			time.Sleep(20 * sec)
			return base.RoundTrip(req)
		})
		start := time.Now()
		for _, a := range r.together(100) {
			if a.want(t, 200); a.took != 20*sec {
				t.Errorf("took %v", a.took)
			}
		}
		for _, at := range r.sent(start)[1:] {
			if at != 0 {
				t.Fatalf("sent at %s; want all at once", secs(r.sent(start)))
			}
		}
	})
}

// the head of a stream is read through net/http's own client while the
// stream goes on.
func TestStreamsHeadOverASocket(t *testing.T) {
	goOn := make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for name, v := range left(41, 60, "19s") {
			w.Header()[name] = v
		}
		io.WriteString(w, "data: {\"choices\":[]}\n\n")
		w.(http.Flusher).Flush()
		<-goOn
		io.WriteString(w, "data: [DONE]\n\n")
	}))
	defer server.Close()
	tr := &paceline.Transport{Limiter: memory.New(), Providers: []paceline.Provider{{Name: "p", BaseURL: server.URL, Dialect: "openai"}}}
	client := &http.Client{Transport: tr}
	res, err := client.Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if buckets := tr.Status()[0].Buckets; len(buckets) != 1 || *buckets[0].Remaining != 41 {
		t.Errorf("while the stream goes on %+v is known", buckets)
	}
	close(goOn)
	if b, err := io.ReadAll(res.Body); err != nil || !strings.HasSuffix(string(b), "[DONE]\n\n") {
		t.Errorf("%q, %v", b, err)
	}
}

// traefik/traefik#13569: nothing is added to a body that has begun, whatever
// becomes of it; a provider that dies and a client that leaves are two things in
// the log.
func TestNothingIsAddedToAStream(t *testing.T) {
	const begun = "data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n"
	synctest.Test(t, func(t *testing.T) {
		r := answering(func() *http.Response {
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}},
				Body: io.NopCloser(io.MultiReader(strings.NewReader(begun), broken{}))}
		})
		a := r.chat(t.Context())
		if a.status != 200 || a.body != begun || !errors.Is(a.err, io.ErrUnexpectedEOF) {
			t.Errorf("a provider that dies: %d %q, %v", a.status, a.body, a.err)
		}
		if rec := r.logged(); len(rec) != 1 || rec[0].Status != 200 || rec[0].Aborted || rec[0].Error == "" {
			t.Errorf("a provider that dies is logged as %+v", rec)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		body, w := io.Pipe()
		go io.WriteString(w, begun)
		r := answering(func() *http.Response {
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body}
		})
		ctx, cancel := context.WithCancel(t.Context())
		res, err := r.RoundTrip(chatRequest(ctx))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(res.Body, make([]byte, len(begun))); err != nil {
			t.Error(err)
		}
		cancel()
		res.Body.Close()
		if rec := r.logged(); len(rec) != 1 || rec[0].Status != 499 || !rec[0].Aborted {
			t.Errorf("a client that leaves is logged as %+v", rec)
		}
	})
}

// Kuadrant/wasm-shim#372: a limit is decided before the head; a stream that has
// begun is never cut by it, though it costs more than there was.
func TestLimitsCutNoStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := answerEvents[:strings.Index(answerEvents, "data: [DONE]")] + "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":49}}\n\ndata: [DONE]\n\n"
		r := answering(ofKind("text/event-stream", events), ofKind("text/event-stream", events), ofKind("text/event-stream", events))
		r.Limiter = memory.New()
		r.Providers[0].Limits = paceline.Limits{Windows: []paceline.Window{{Calls: 15, Per: 30 * sec, Unit: "tokens", Slack: -1}}}
		start := time.Now()
		for range 3 {
			if a := r.chat(t.Context()); a.status != 200 || a.body != events || a.err != nil {
				t.Errorf("%d %q, %v", a.status, a.body, a.err)
			}
		}
		at := r.sent(start)
		if len(at) != 3 || at[1] < 30*sec || at[2]-at[1] < 30*sec {
			t.Errorf("sent at %s; want one in 30 s", secs(at))
		}
	})
}

// BerriAI/litellm#26015: a refusal in mid-stream ends with what it is, once, and
// is recorded; nobody else is held up by it.
func TestRefusalInMidStreamEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := answerEvents[:strings.Index(answerEvents, "\n\n")+2] + hiddenEvent
		r := answering(ofKind("text/event-stream", late), ofKind("text/event-stream", answerEvents))
		start := time.Now()
		if a := r.chat(t.Context()); a.status != 200 || strings.Count(a.body, "rate_limit_exceeded") != 1 || a.err != nil {
			t.Errorf("%+v", a)
		}
		r.chat(t.Context()).want(t, 200)
		wantInstants(t, r.sent(start), 0, 0)
		if rec := r.logged(); rec[0].OK() || rec[0].Error != "refused in mid-stream (rate_limited)" || rec[0].Status != 200 || !rec[1].OK() {
			t.Errorf("recorded %+v", rec)
		}
	})
}
