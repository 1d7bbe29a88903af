package paceline_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/stub"
)

// later has calls come in this order at one instant, and returns what each
// came to once all have ended.
func (r *rig) later(calls ...[]string) func() []reply {
	replies := make([]reply, len(calls))
	done := make(chan int)
	for i, header := range calls {
		go func() { replies[i] = r.chat(context.Background(), header...); done <- i }()
		synctest.Wait()
	}
	return func() []reply {
		for range calls {
			<-done
		}
		return replies
	}
}

// said is a header that a request says something in.
func said(name, value string) []string { return []string{"X-Paceline-" + name, value} }

// started lists what the records say of each start in a field.
func (r *rig) started(start time.Time, of func(paceline.Record) string) string {
	var s []string
	records := r.logged()
	slices.SortStableFunc(records, func(a, b paceline.Record) int { return a.Sent.Compare(b.Sent) })
	for _, rec := range records {
		if !rec.Sent.IsZero() {
			s = append(s, fmt.Sprintf("%s@%g", of(rec), rec.Sent.Sub(start).Seconds()))
		}
	}
	return strings.Join(s, " ")
}

func priority(r paceline.Record) string { return r.Priority }
func client(r paceline.Record) string   { return r.Client }
func model(r paceline.Record) string    { return r.Model }

// perMinute declares a burst of n a minute, without slack.
func perMinute(n int) paceline.Provider {
	return paceline.Provider{Limits: paceline.Limits{MaxPerMinute: n, Pacing: paceline.Burst, WindowSlack: -1}}
}

// P-73: background requests keep to their share of the minute while others are
// started, and use everything once nobody else has for a minute.
func TestBackgroundShare(t *testing.T) {
	for share, want := range map[float64]string{
		0:   "interactive@0" + strings.Repeat(" background@0", 7) + strings.Repeat(" background@60", 10) + strings.Repeat(" background@120", 3),
		0.4: "interactive@0" + strings.Repeat(" background@0", 4) + strings.Repeat(" background@60", 10) + strings.Repeat(" background@120", 6),
		1:   "interactive@0" + strings.Repeat(" background@0", 9) + strings.Repeat(" background@60", 10) + " background@120",
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, stub.Config{}, perMinute(10))
			r.Background = share
			start := time.Now()
			r.chat(t.Context(), said("Priority", "interactive")...).want(t, 200)
			r.together(20, said("Priority", "background")...)
			if got := r.started(start, priority); got != want {
				t.Errorf("share %v:\ngot  %s\nwant %s", share, got, want)
			}
		})
	}
}

// P-73: what the background has used before others came counts in its share,
// and others are not held up by it.
func TestBackgroundShareLooksBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, perMinute(10))
		start := time.Now()
		r.together(8, said("Priority", "background")...)
		wait := r.later(said("Priority", "interactive"), said("Priority", "background"), said("Priority", "normal"))
		wait()
		if got, want := r.started(start, priority), strings.Repeat("background@0 ", 8)+"interactive@0 normal@0 background@60"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// P-74, P-75: requests run by priority, first come first served within one, and
// none is dropped.
func TestRequestsRunByPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{MaxPerSecond: 1}})
		start := time.Now()
		wait := r.later(nil, said("Priority", "background"), said("Priority", "normal"), said("Priority", "interactive"),
			[]string{"X-Claude-Code-Request-Class", "main"}, []string{"X-Claude-Code-Request-Class", "subagent"},
			[]string{"X-Claude-Code-Request-Class", "main", "X-Paceline-Priority", "background"})
		for _, a := range wait() {
			a.want(t, 200)
		}
		got := r.started(start, func(r paceline.Record) string { return r.Priority })
		if want := "normal@0 interactive@1 interactive@2 normal@3 normal@4 background@5 background@6"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// What a header says wrongly is an error that names it and what to write, and
// nothing is sent.
func TestBadHeaders(t *testing.T) {
	for name, value := range map[string]string{
		"X-Paceline-Priority": "urgent", "X-Paceline-Quota": "maybe", "X-Paceline-Max-Wait": "soon",
		"X-Paceline-Wait-For-Capacity": "yes",
	} {
		r := newRig(t, stub.Config{}, paceline.Provider{})
		a := r.chat(t.Context(), name, value)
		if !errors.Is(a.err, paceline.ErrHeader) || !strings.Contains(a.err.Error(), fmt.Sprintf("%s is %q", name, value)) {
			t.Errorf("%s: %s: error %v", name, value, a.err)
		}
		if n := r.stub.Counts().Admitted; n != 0 {
			t.Errorf("%s: %s: %d sent", name, value, n)
		}
	}
}

// Clients take turns, by the name they give or the session they are of.
func TestClientsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{MaxPerSecond: 1}})
		start := time.Now()
		many := said("Client", "many")
		r.later(many, many, many, many, []string{"X-Claude-Code-Session-Id", "s1"}, []string{"Session-Id", "s2"})()
		if got, want := r.started(start, client), "many@0 s1@1 s2@2 many@3 many@4 many@5"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// A client's own bound on what is in flight holds over all providers, and holds
// nobody else up.
func TestClientMaxConcurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Service: 10 * sec}, paceline.Provider{})
		r.Providers = append(r.Providers, paceline.Provider{Name: "second", BaseURL: "http://second.test"})
		r.Clients = map[string]paceline.Client{"night": {MaxConcurrent: 1}}
		start := time.Now()
		night := said("Client", "night")
		go func() {
			res, err := r.RoundTrip(request(t.Context(), "POST", "http://second.test/v1/chat/completions", `{"model":"m"}`, night...))
			if err != nil {
				t.Error(err)
				return
			}
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}()
		time.Sleep(sec)
		r.later(night, said("Client", "day"), night)()
		if got, want := r.started(start, client), "night@0 day@1 night@10 night@20"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// What is declared wrongly of how to wait is an error that says all of it.
func TestBadQueue(t *testing.T) {
	r := newRig(t, stub.Config{}, paceline.Provider{Mode: "watch", Quota: "never", Models: map[string]paceline.Limits{
		"GPT-*": {}, "gpt-[": {}, "ok": {MaxPerMinute: -1}}})
	r.Queue, r.Background = paceline.Queue{MaxWaiting: -1}, 1.5
	r.Clients = map[string]paceline.Client{"c": {MaxConcurrent: -1}}
	err := r.chat(t.Context()).err
	for _, want := range []string{`mode is "watch"`, `quota is "never"`, `"GPT-*" is not a pattern`, `"gpt-[" is not a pattern`,
		`models: "ok": MaxPerMinute is -1`, "MaxWaiting:-1", "Background is 1.5", `MaxConcurrent of client "c" is -1`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %s: %v", want, err)
		}
	}
}

// Models that match a pattern have limits of their own beside the provider's,
// and hold nobody else up.
func TestModelLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := paceline.Provider{Limits: paceline.Limits{MaxPerSecond: 1, WindowSlack: -1}, Models: map[string]paceline.Limits{
			"gpt-*":     {MaxPerMinute: 2, Pacing: paceline.Burst},
			"gpt-oss-*": {MaxPerMinute: 1},
			"gpt-4":     {MaxConcurrent: 8},
		}}
		r := newRig(t, stub.Config{}, p)
		start := time.Now()
		ask := func(model string) {
			res, err := r.RoundTrip(request(t.Context(), "POST", base+"/chat/completions", `{"model":"`+model+`"}`))
			if err != nil {
				t.Error(err)
				return
			}
			res.Body.Close()
		}
		for _, m := range []string{"GPT-OSS-120b", "gpt-oss-20b", "gpt-5", "gpt-5-2025-08-07", "gpt-5", "gpt-4", "llama"} {
			go ask(m)
			synctest.Wait()
		}
		time.Sleep(10 * time.Minute)
		if got, want := r.started(start, model), "GPT-OSS-120b@0 gpt-5@1 gpt-5-2025-08-07@2 gpt-4@3 llama@4 gpt-oss-20b@60 gpt-5@61"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// A client that is known to give up at some time is answered at 90 % of it, so
// that it comes again, and takes the place it had.
// P-40: its retry is a new request, queued and counted as one.
func TestAnsweredBeforeTheClientGivesUp(t *testing.T) {
	for name, tt := range map[string]struct {
		header []string
		after  time.Duration
	}{
		"known":         {nil, 270 * sec},
		"said":          {[]string{"X-Stainless-Timeout", "100"}, 90 * sec},
		"said of reads": {[]string{"X-Stainless-Timeout", "600", "X-Stainless-Read-Timeout", "50.0"}, 45 * sec},
		"said longer":   {[]string{"X-Stainless-Timeout", "6000"}, 270 * sec},
		"said nothing":  {[]string{"X-Stainless-Timeout", "NOT_GIVEN"}, 270 * sec},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{Windows: []paceline.Window{{Calls: 1, Per: 1000 * sec, Slack: -1}}}})
			r.Queue = paceline.Queue{ClientTimeout: 300 * sec, Keep: 2 * time.Minute}
			start := time.Now()
			r.chat(t.Context()).want(t, 200)
			header := append([]string{"X-Paceline-Client", "c"}, tt.header...)
			a := r.chat(t.Context(), header...)
			a.want(t, 429)
			if a.took != tt.after || a.header.Get("Retry-After") != "1" || a.header.Get("X-Should-Retry") != "true" ||
				a.header.Get("X-Paceline-Refused") != "queue" || a.header.Get("X-Paceline-Attempts") != "0" {
				t.Errorf("%s: after %v: %v", name, a.took, a.header)
			}
			// Others come before it is back; it still goes first.
			go r.chat(t.Context(), said("Client", "other")...)
			time.Sleep(sec)
			for a.status == 429 {
				a = r.chat(t.Context(), header...)
				time.Sleep(sec)
			}
			a.want(t, 200)
			if got, want := r.started(start, client), "@0 c@1000"; got != want {
				t.Errorf("%s: got %s, want %s", name, got, want)
			}
			time.Sleep(time.Hour)
		})
	}
}

// P-41: a client whose answer was cut short and who asks again with room for
// more makes a new request, queued and counted as one.
func TestRetryOfACutAnswerIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, perMinute(1))
		r.Queue = paceline.Queue{ClientTimeout: 300 * sec, Keep: 2 * time.Minute}
		start := time.Now()
		for _, budget := range []string{"16", "4096"} {
			body := `{"model":"m","max_tokens":` + budget + `,"messages":[{"role":"user","content":"hi"}]}`
			res, err := r.RoundTrip(request(t.Context(), "POST", base+"/chat/completions", body, said("Client", "c")...))
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
		}
		wantInstants(t, r.sent(start), 0, time.Minute)
		records := r.logged()
		if len(records) != 2 || records[0].ID == records[1].ID || records[1].Attempt != 1 || records[1].Retry {
			t.Errorf("%+v", records)
		}
	})
}

// A library's requests wait as long as their context does: nothing is answered
// before its time.
func TestLibraryQueueIsPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{MaxPerHour: 1, WindowSlack: -1}})
		start := time.Now()
		r.together(2, "X-Stainless-Timeout", "60")
		wantInstants(t, r.sent(start), 0, time.Hour)
	})
}

// warpllm/warpllm#42: a deadline that the line cannot meet is refused at once,
// saying so and when a start is possible; one that a provider lets pass is a
// timeout.
func TestDeadlineIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{Windows: []paceline.Window{{Calls: 1, Per: 30 * sec, Slack: -1}}}})
		r.Queue = paceline.Queue{ClientTimeout: 300 * sec, Keep: 2 * time.Minute}
		r.chat(t.Context()).want(t, 200)
		a := r.chat(t.Context(), said("Max-Wait", "10s")...)
		a.want(t, 429)
		if a.took != 0 || a.header.Get("X-Paceline-Refused") != "deadline" || a.header.Get("Retry-After") != "30" ||
			a.header.Get("X-Should-Retry") != "false" || !strings.Contains(a.body, "paceline_deadline") || !strings.Contains(a.body, "at most 1 start in 30s") {
			t.Errorf("after %v: %v\n%s", a.took, a.header, a.body)
		}
		if places := r.Places(); len(places) != 0 {
			t.Errorf("it has kept a place: %v", places)
		}
	})
}

// A pause is waited for in rounds, too, while its rest is within MaxWait. P-39:
// so comes who waits for capacity, each time as a new request.
func TestPauseIsWaitedForInRounds(t *testing.T) {
	for wait, header := range map[time.Duration][]string{500 * sec: nil, 900 * sec: said("Wait-For-Capacity", "1")} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, stub.Config{Script: []stub.Step{told(wait)}}, paceline.Provider{})
			r.Queue = paceline.Queue{ClientTimeout: 300 * sec, Keep: 2 * time.Minute}
			start := time.Now()
			a := r.chat(t.Context(), header...)
			rounds := 0
			for a.header.Get("X-Paceline-Refused") == "queue" {
				time.Sleep(sec)
				a = r.chat(t.Context(), header...)
				rounds++
			}
			a.want(t, 200)
			wantInstants(t, r.sent(start), 0, wait)
			if rounds != int(wait/(271*sec)) {
				t.Errorf("%d rounds", rounds)
			}
		})
	}
}

// A spent quota is waited for by those who say so, and by the background.
func TestQuota(t *testing.T) {
	const day = 24 * time.Hour
	for name, tt := range map[string]struct {
		quota  paceline.Quota
		header []string
		waits  bool
	}{
		"normal":               {},
		"background":           {header: said("Priority", "background"), waits: true},
		"background that asks": {header: append(said("Priority", "background"), said("Quota", "fail")...)},
		"asked":                {header: said("Quota", "wait"), waits: true},
		"provider":             {quota: paceline.QuotaWait, waits: true},
		"provider, asked":      {quota: paceline.QuotaWait, header: said("Quota", "fail")},
		"provider, background": {quota: paceline.QuotaFail, header: said("Priority", "background")},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, stub.Config{Script: []stub.Step{told(day)}}, paceline.Provider{Quota: tt.quota})
			a := r.chat(t.Context(), tt.header...)
			b := r.chat(t.Context(), tt.header...)
			if tt.waits {
				a.want(t, 200)
				b.want(t, 200)
				if a.took != day {
					t.Errorf("%s: took %v", name, a.took)
				}
				return
			}
			a.want(t, 429)
			b.want(t, 429)
			if a.took+b.took != 0 || b.header.Get("X-Paceline-Refused") != "quota" || b.header.Get("X-Paceline-Attempts") != "0" {
				t.Errorf("%s: took %v and %v: %v", name, a.took, b.took, b.header)
			}
		})
	}
}

// What goes beyond the bounds of the queue is refused with 503 and what to
// change, and only what would wait.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, perMinute(2))
		r.Queue = paceline.Queue{MaxWaiting: 3, Keep: time.Minute}
		// Two need not wait; who comes while they ask would, for a moment.
		for _, a := range r.together(2) {
			if a.want(t, 200); a.took != 0 {
				t.Errorf("took %v", a.took)
			}
		}
		replies := r.together(6)
		refused := 0
		for _, a := range replies {
			if a.status == 200 {
				continue
			}
			a.want(t, 503)
			refused++
			if a.took != 0 || a.header.Get("X-Paceline-Refused") != "bounds" || a.header.Get("Retry-After") != "5" ||
				a.header.Get("X-Should-Retry") != "false" || !strings.Contains(a.body, "queue.maxWaiting") {
				t.Errorf("after %v: %v %s", a.took, a.header, a.body)
			}
		}
		if refused != 3 {
			t.Errorf("%d refused, want 3 beside two sent and three waiting", refused)
		}
		for _, a := range r.together(3) {
			a.want(t, 200) // the room is free again
		}
	})
}

// Bodies count while they may have to be sent again, and no longer.
func TestHeldBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, perMinute(2))
		r.Queue = paceline.Queue{MaxHeldBytes: 3 << 20}
		call := func(size int, length bool) reply {
			req := request(t.Context(), "POST", base+"/chat/completions", `{"model":"m","messages":[],"x":"`+strings.Repeat("x", size)+`"}`)
			req.GetBody = nil
			if !length {
				req.ContentLength = -1
			}
			start := time.Now()
			res, err := r.RoundTrip(req)
			if err != nil {
				t.Error(err)
				return reply{}
			}
			defer res.Body.Close()
			b, _ := io.ReadAll(res.Body)
			return reply{res.StatusCode, res.Header, string(b), nil, time.Since(start)}
		}
		for range 2 {
			call(2<<20, true).want(t, 200) // held no longer
		}
		go call(2<<20, true)
		synctest.Wait()
		for _, length := range []bool{true, false} {
			a := call(2<<20, length)
			a.want(t, 503)
			if a.took != 0 || a.header.Get("X-Paceline-Refused") != "bounds" || !strings.Contains(a.body, "queue.maxHeldBytes") {
				t.Errorf("after %v: %v %s", a.took, a.header, a.body)
			}
		}
		call(0, true).want(t, 200)
		time.Sleep(time.Minute)
		call(2<<20, false).want(t, 200)
	})
}

// The beginning of a body too large to be sent again is held as well while its
// request waits.
func TestHeldBytesOfLargeBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, perMinute(1))
		r.MaxReplayBytes = 1 << 20
		r.Queue = paceline.Queue{MaxHeldBytes: 5 << 19}
		start := time.Now()
		call := func() int {
			req := request(t.Context(), "POST", base+"/chat/completions", `{"model":"m","messages":[],"x":"`+strings.Repeat("x", 2<<20)+`"}`)
			req.GetBody = nil
			res, err := r.RoundTrip(req)
			if err != nil {
				t.Error(err)
				return 0
			}
			defer res.Body.Close()
			io.Copy(io.Discard, res.Body)
			return res.StatusCode
		}
		r.chat(t.Context()).want(t, 200)
		for range 2 {
			go call()
			synctest.Wait()
		}
		if status := call(); status != 503 || time.Since(start) != 0 {
			t.Errorf("a third of 1 MiB within 2.5 came to %d after %v", status, time.Since(start))
		}
		time.Sleep(3 * time.Minute)
		if status := call(); status != 200 {
			t.Errorf("%d, though nothing is held any more", status)
		}
	})
}

// UKGovernmentBEIS/inspect_ai#1372: an answer says how long its request stood
// in line, over all its attempts.
func TestQueuedIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Service: 2 * sec, Script: []stub.Step{{}, told(5 * sec)}}, paceline.Provider{Limits: paceline.Limits{MaxConcurrent: 1}})
		go r.chat(t.Context())
		synctest.Wait()
		a := r.chat(t.Context())
		a.want(t, 200)
		if got := a.header.Get("X-Paceline-Queued-Ms"); got != "7000" || a.took != 9*sec {
			t.Errorf("queued for %s ms of %v, want 7000 of 9 s", got, a.took)
		}
	})
}

// BerriAI/litellm#2218: with two in flight at once all ten succeed, in the
// order in which they came.
func TestAllTenSucceedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Service: sec, Concurrent: 2}, paceline.Provider{Limits: paceline.Limits{MaxConcurrent: 2}})
		var calls [][]string
		for i := range 10 {
			calls = append(calls, said("Run", fmt.Sprint(i)))
		}
		for i, a := range r.later(calls...)() {
			a.want(t, 200)
			if want := time.Duration(i/2+1) * sec; a.took != want {
				t.Errorf("call %d took %v, want %v", i, a.took, want)
			}
		}
	})
}

// openclaw/openclaw#60419: one client whose requests are always refused has no
// more than its turns, and where the refusal says that it is about that request
// alone, the others do not notice it.
func TestRefusedClientDoesNotStarveTheOthers(t *testing.T) {
	for name, tt := range map[string]struct {
		body   string
		unfelt bool
	}{
		"unexplained": {`{"error":{"message":"x"}}`, false},
		"too large":   {`{"error":{"message":"Request too large for m on tokens per min (TPM): Limit 30000, Requested 44000.","type":"tokens","code":"rate_limit_exceeded"}}`, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, stub.Config{}, paceline.Provider{Dialect: "openai"})
			r.Base = sink(func(req *http.Request) (*http.Response, error) {
				b, _ := io.ReadAll(req.Body)
				if strings.Contains(string(b), "big") {
					return answer(429, http.Header{"Retry-After": {"24"}}, tt.body), nil
				}
				return answer(200, nil, "{}"), nil
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			loop := func(name string) {
				for ctx.Err() == nil {
					if res, err := r.RoundTrip(request(ctx, "POST", base+"/chat/completions", `{"model":"m","user":"`+name+`"}`, said("Client", name)...)); err == nil {
						res.Body.Close()
					}
					time.Sleep(sec)
				}
			}
			go loop("big")
			for i := range 8 {
				go loop(fmt.Sprint("small", i))
			}
			<-ctx.Done()
			time.Sleep(sec)
			sent := map[string]int{}
			for _, rec := range r.logged() {
				if !rec.NotSent {
					sent[rec.Client]++
				}
			}
			for i := range 8 {
				n := sent[fmt.Sprint("small", i)]
				if n < sent["big"]*9/10 || // ties of one instant fall either way
					tt.unfelt && n < 3500 {
					t.Errorf("%s: starts within an hour: %v", name, sent)
					break
				}
			}
		})
	}
}

// FuzzTimeoutHeader: whatever an SDK says of its timeout, a request is answered
// before it has passed, or in its turn.
func FuzzTimeoutHeader(f *testing.F) {
	for _, s := range []string{"", "600", "600.0", "NaN", "Inf", "1e9", "-1", "0x10", ".", "1.2.3", "99999999999999999999", "NOT_GIVEN"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, stub.Config{}, perMinute(1))
			r.Queue = paceline.Queue{ClientTimeout: 300 * sec}
			r.chat(t.Context())
			req := chatRequest(t.Context())
			req.Header["X-Stainless-Timeout"] = []string{s}
			start := time.Now()
			res, err := r.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if took := time.Since(start); took < 0 || took > time.Minute || took < time.Minute && res.Header.Get("X-Paceline-Refused") != "queue" {
				t.Errorf("%q: answered %d after %v", s, res.StatusCode, took)
			}
		})
	})
}
