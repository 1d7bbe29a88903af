package paceline_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/stub"
)

// A token that is replaced every few hours is known by the account that the body
// names: its successor goes on in its line, and another account's does not.
func TestAccountOfTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Dialect: "anthropic"})
		for _, who := range []struct{ token, account string }{{"one", "0"}, {"two", "0"}, {"two", "1"}} {
			body := `{"model":"m","metadata":{"user_id":"user_f_account_01234567-89ab-cdef-0123-456789abcde` + who.account + `_session_x"}}`
			req := request(t.Context(), "POST", "http://provider.test/v1/messages", body)
			req.Header.Set("Authorization", "Bearer sk-ant-oat01-"+who.token)
			res, err := r.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
		}
		var names []string
		for _, rec := range r.logged() {
			names = append(names, rec.Credential)
		}
		if len(names) != 3 || names[0] != names[1] || names[1] == names[2] {
			t.Errorf("credentials %v; want the first two the same", names)
		}
	})
}

// Models that share a limit share a line: what one of them is told binds the other,
// and no third.
func TestModelsOfOneLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{told(20 * sec)}}, paceline.Provider{Dialect: "anthropic"})
		began := time.Now()
		var sent sync.WaitGroup
		for i, want := range []struct {
			model          string
			asked, atLeast time.Duration
			atMost         time.Duration
		}{
			{"claude-sonnet-4-5-20250929", 0, 20 * sec, 21 * sec},
			{"claude-sonnet-4-20250514", sec, 20 * sec, 40 * sec},
			{"claude-haiku-4-5", sec, sec, sec},
		} {
			sent.Go(func() {
				time.Sleep(want.asked)
				res, err := r.RoundTrip(request(t.Context(), "POST", "http://provider.test/v1/messages", `{"model":"`+want.model+`"}`))
				if err != nil {
					t.Error(err)
					return
				}
				res.Body.Close()
				if after := time.Since(began); after < want.atLeast || after > want.atMost || res.StatusCode != 200 {
					t.Errorf("request %d is answered %d after %v, want 200 after %v to %v", i, res.StatusCode, after, want.atLeast, want.atMost)
				}
			})
		}
		sent.Wait()
	})
}

// An account that the provider names is stored and counts from the next start
// on: its keys then share pauses, those of others do not. What was told before
// binds still. Nobody sees it but by the names of its credentials.
// until then each key has a budget of its own, which another process
// over the same store sees.
func TestLearnedAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mapStore{}
		process := func(refuses string) *ring {
			r := newRing(t, paceline.Provider{Dialect: "anthropic"}, usual, "a", "b", "c")
			r.Store = store
			r.Route = func(req *http.Request) ([]paceline.Route, error) {
				return []paceline.Route{{Credential: req.Header.Get("X-Use")}}, nil
			}
			r.Base = sink(func(req *http.Request) (*http.Response, error) {
				name := req.Header.Get("X-Use")
				org := map[string]string{"a": "org-one-secret", "b": "org-one-secret", "c": "org-two-secret"}[name]
				h := http.Header{"Anthropic-Organization-Id": {org}}
				if name == refuses {
					refuses = ""
					h.Set("Retry-After", "90")
					return answer(429, h, "{}"), nil
				}
				return answer(200, h, "{}"), nil
			})
			return r
		}
		start := time.Now()
		ask := func(r *ring, name string, status int) {
			t.Helper()
			r.chat(t.Context(), "X-Use", name, "X-Paceline-Max-Wait", "0s").want(t, status)
		}
		first := process("b")
		ask(first, "a", 200)
		ask(first, "b", 429)
		ask(first, "a", 200) // as before: separate
		ask(first, "c", 200)
		another := process("")
		ask(another, "b", 429)
		time.Sleep(sec)
		next := process("c")
		ask(next, "b", 429) // what b was told binds still,
		ask(next, "a", 429) // and both
		ask(next, "c", 429)
		time.Sleep(time.Until(start.Add(90 * sec)))
		ask(next, "a", 200)
		ask(next, "c", 429)
		var said strings.Builder
		fmt.Fprintf(&said, "%+v %+v", next.logged(), next.Status())
		for key, b := range store.m {
			fmt.Fprintf(&said, "%s %s", key, b)
		}
		if strings.Contains(said.String(), "org-") || !strings.Contains(said.String(), "Credential:a+b") {
			t.Errorf("said %s", said.String())
		}
	})
}

// Readings that a provider tells of the account are kept in one line, those of
// models that share a limit in theirs, and of others in each model's own.
func TestScopeFollowsMetering(t *testing.T) {
	for name, want := range map[string]string{"fireworks": "", "anthropic": "claude-haiku-4-5 claude-sonnet-4.x", "generic": "claude-haiku-4-5 claude-sonnet-4 claude-sonnet-4-5"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, stub.Config{}, paceline.Provider{Dialect: name})
			for _, model := range []string{"claude-sonnet-4-20250514", "Claude-Sonnet-4", "claude-sonnet-4-5", "claude-haiku-4-5"} {
				res, err := r.RoundTrip(request(t.Context(), "POST", base+"/chat/completions", `{"model":"`+model+`"}`))
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
			}
			var scopes []string
			for _, s := range r.Status() {
				scopes = append(scopes, s.Scope)
			}
			if got := strings.Join(scopes, " "); got != want {
				t.Errorf("%s: the lines are %q, want %q", name, got, want)
			}
		})
	}
}
