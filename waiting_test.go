package paceline_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/stub"
)

// mostlygeek/llama-swap#811, diegosouzapw/OmniRoute#7778: who has waited in
// vain is told which limit it was, and which clients hold it.
func TestRefusalNamesLimitAndHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Service: 5 * time.Minute}, paceline.Provider{Limits: paceline.Limits{MaxConcurrent: 3}})
		r.Queue = paceline.Queue{ClientTimeout: 100 * sec, Keep: time.Minute}
		for _, name := range []string{"a", "b", "a"} {
			go r.chat(t.Context(), said("Client", name)...)
			synctest.Wait()
		}
		a := r.chat(t.Context(), said("Client", "c")...)
		a.want(t, 429)
		if !strings.Contains(a.body, "at most 3 run at once (a 2, b 1)") || !strings.Contains(a.body, "It waited 1m30s in paceline's line") {
			t.Errorf("it was told %s", a.body)
		}
	})
}

// diegosouzapw/OmniRoute#7778: those that leave while they wait neither hold
// places nor leave them counted.
func TestCancelledWaitersHoldNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Service: 10 * sec}, paceline.Provider{Limits: paceline.Limits{MaxConcurrent: 2}})
		for i := range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Duration(i)*sec/10, cancel)
			go r.chat(ctx, said("Client", fmt.Sprint(i%3))...)
		}
		time.Sleep(time.Minute)
		for _, a := range r.together(2) {
			if a.status != 200 || a.took != 10*sec {
				t.Errorf("came to %d after %v", a.status, a.took)
			}
		}
	})
}

// builderz-labs/marketing-dashboard#11: a refusal that says two seconds is
// waited for in the line, by all who are in it; nobody outside has to back off.
func TestHintedWaitIsWaitedInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := stub.Step{Status: 429, Body: `{"error":{"message":"output_tokens rate limit exceeded - retry after 2s"}}`, Wait: 2 * sec}
		r := newRig(t, stub.Config{Script: []stub.Step{step, step, step}}, paceline.Provider{})
		for _, a := range r.together(6) {
			a.want(t, 200)
			if a.took > 15*sec {
				t.Errorf("took %v", a.took)
			}
		}
	})
}

// huggingface/huggingface_hub#3647: a wait that the patience cannot reach costs
// one attempt; one within it is waited for once.
func TestNoAttemptsAreWasted(t *testing.T) {
	for most, want := range map[time.Duration]int{8 * sec: 429, time.Minute: 200} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, stub.Config{Script: []stub.Step{told(55 * sec)}}, paceline.Provider{Retry: paceline.Retry{MaxWait: most}})
			start := time.Now()
			r.chat(t.Context()).want(t, want)
			if want == 429 {
				wantInstants(t, r.sent(start), 0)
			} else {
				wantInstants(t, r.sent(start), 0, 55*sec)
			}
		})
	}
}

// anomalyco/opencode#30510: what is always refused without a hint is tried a
// bounded number of times, and the layers above are told not to start again.
func TestLayersAboveDoNotMultiply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{})
		r.Base = answers(func(*http.Request) (*http.Response, error) { return answer(429, nil, "{}"), nil })
		a := r.chat(t.Context())
		a.want(t, 429)
		if n := len(r.logged()); n != 7 || a.header.Get("X-Should-Retry") != "false" || a.header.Get("X-Paceline-Attempts") != "7" {
			t.Errorf("%d attempts: %v", n, a.header)
		}
	})
}

// tombii/better-ccflare#348: that a client has given up is seen at once and
// logged as that, however long the provider is silent.
func TestAbandonmentIsSeenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Service: 20 * time.Minute}, paceline.Provider{})
		start := time.Now()
		r.vanish(t, 300*sec)
		if rec := r.logged()[0]; rec.Status != 499 || !rec.Aborted || rec.Timeout || rec.Done.Sub(start) != 300*sec {
			t.Errorf("logged as %+v", rec)
		}
	})
}
