package paceline_test

import (
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
