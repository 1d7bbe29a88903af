package proxy_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/internal/config"
)

// Who has sent a request under an id of its own is told what it waits for, and
// may have it sent in spite of an observed budget, and of nothing else.
func TestWaits(t *testing.T) {
	g := newRig(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" { // it is "own"
			w.Header().Set("X-Ratelimit-Limit-Requests", "1")
			w.Header().Set("X-Ratelimit-Remaining-Requests", "0")
			w.Header().Set("X-Ratelimit-Reset-Requests", "100s")
		}
		io.WriteString(w, `{}`)
	}, func(c *config.Config) {
		c.Providers[0].Dialect = "openai"
		c.Providers[1].Limits.Windows = []paceline.Window{{Calls: 1, Per: time.Hour}}
	})
	g.transport.OnWait = g.OnWait
	home := []string{"X-Paceline-Token", homeToken}
	waits := func(id string) (found []paceline.Wait) {
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			var all struct{ Waits []paceline.Wait }
			res := g.do(t, "GET", "/control/waits", "", home...)
			if err := json.Unmarshal([]byte(res.body), &all); err != nil || res.StatusCode != 200 {
				t.Fatalf("%s %s", res.Status, res.body)
			}
			for _, w := range all.Waits {
				if w.ID == id {
					return all.Waits
				}
			}
		}
		t.Fatalf("%s does not wait", id)
		return nil
	}
	anyway := func(id string) reply {
		return g.do(t, "POST", "/control/anyway", `{"id":"`+id+`"}`, append(home, "Content-Type", "application/json")...)
	}
	if res := g.do(t, "GET", "/control/waits", "", home...); res.body != "{\"waits\":[]}\n" {
		t.Errorf("nobody waits: %s", res.body)
	}
	g.do(t, "POST", "/own/v1/chat/completions", chat)
	g.do(t, "POST", "/stored/v1/chat/completions", chat, home...)
	answers := make(chan reply, 2)
	ask := func(path, id string) {
		answers <- g.do(t, "POST", path, chat, append(home, "X-Paceline-Request-Id", id)...)
	}
	go ask("/own/v1/chat/completions", "first")
	waits("first")
	go ask("/stored/v1/chat/completions", "second")
	if all := waits("second"); len(all) != 2 || all[0].ID != "first" {
		t.Errorf("they wait: %+v", all)
	}
	res := g.do(t, "GET", "/control/waits/first", "", home...)
	for _, want := range []string{`"id":"first"`, `"provider":"own"`, `"kind":"budget"`, `"since":"`, `"budget":{"unit":"requests"`, `"remaining":0,"limit":1`, `"anyway":true`} {
		if !strings.Contains(res.body, want) {
			t.Errorf("%s says nothing of %s", res.body, want)
		}
	}
	if _, last := g.last(); last != chat || g.count() != 2 {
		t.Errorf("%d arrived", g.count())
	}
	// Only the owner of the home.
	for _, headers := range [][]string{nil, {"X-Paceline-Token", "pcl_team0123456789"}} {
		if res := g.do(t, "GET", "/control/waits/first", "", headers...); res.StatusCode != 401 {
			t.Errorf("anybody is told: %s %s", res.Status, res.body)
		}
		if res := g.do(t, "POST", "/control/anyway", `{"id":"first"}`, append(headers, "Content-Type", "application/json")...); res.StatusCode != 401 {
			t.Errorf("anybody has it sent: %s %s", res.Status, res.body)
		}
	}
	if res := anyway("second"); res.StatusCode != 400 || !strings.Contains(res.body, "no observed budget") {
		t.Errorf("against a declared limit: %s %s", res.Status, res.body)
	}
	if res := anyway("third"); res.StatusCode != 400 || !strings.Contains(res.body, `no request \"third\" waits`) {
		t.Errorf("one that there is not: %s %s", res.Status, res.body)
	}
	if res := anyway("first"); res.StatusCode != 200 {
		t.Errorf("%s %s", res.Status, res.body)
	}
	if res := <-answers; res.StatusCode != 200 || g.count() != 3 {
		t.Errorf("%s, %d arrived", res.Status, g.count())
	}
	if res := g.do(t, "GET", "/control/waits/first", "", home...); res.StatusCode != 404 {
		t.Errorf("it still waits: %s %s", res.Status, res.body)
	}
	g.transport.Drain() // the second leaves
	<-answers
	if res := g.do(t, "GET", "/control/waits", "", home...); res.body != "{\"waits\":[]}\n" {
		t.Errorf("nobody waits: %s", res.body)
	}
}
