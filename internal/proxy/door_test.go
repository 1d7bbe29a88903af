package proxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/internal/config"
)

// An answer of the door.
type doorAnswer struct {
	Granted      bool
	Permit       string
	Credential   string
	HoldMs       int64
	Now, RetryAt time.Time
	RetryAfterMs int64
	Cause, Why   string
	Error        struct{ Message, Code string }
}

// knock asks at the door.
func (g *rig) knock(t *testing.T, what, body string, headers ...string) (status int, a doorAnswer) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+"/door/"+what, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &a); err != nil {
		t.Fatalf("%s: %d %s", what, res.StatusCode, b)
	}
	return res.StatusCode, a
}

// await waits until something is so.
func await(t *testing.T, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			t.Fatal("not after 20 seconds")
		}
	}
}

func (g *rig) rows() []paceline.Record {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]paceline.Record{}, g.records...)
}

// limited gives the provider own two requests an hour and one at once.
func limited(c *config.Config) {
	c.Providers[0].Limits = paceline.Limits{MaxPerHour: 2, MaxConcurrent: 1, Pacing: paceline.Burst}
}

const (
	atOnce = "X-Paceline-Max-Wait"
	own    = `{"provider":"own","model":"m"}`
)

// L-08, L-09, L-11: each request of a tool has a leave of its own, counted once,
// by the limits and in the line that proxied requests have; L-12: the limiter is
// asked as for those.
func TestDoor(t *testing.T) {
	g := newRig(t, nil, limited)
	key := []string{"Authorization", "Bearer " + clientKey, atOnce, "0", "X-Paceline-Client", "tool", "X-Paceline-Run", "r1"}
	status, first := g.knock(t, "acquire", own, key...)
	if status != 200 || !first.Granted || first.Permit == "" || first.HoldMs != (30*time.Minute).Milliseconds() {
		t.Fatalf("%d %+v", status, first)
	}
	// Its place is taken, and retryAt says when to ask again.
	if status, a := g.knock(t, "acquire", own, key...); status != 200 || a.Granted || a.Cause != "deadline" || a.RetryAfterMs < 1 || a.RetryAt.Before(a.Now) {
		t.Errorf("beside it: %d %+v", status, a)
	}
	// One that waits gets it with the release.
	waiting := make(chan doorAnswer)
	go func() {
		_, a := g.knock(t, "acquire", own, key[:2]...)
		waiting <- a
	}()
	await(t, func() bool { return g.transport.Status()[0].Waiting.Normal == 1 })
	if status, _ := g.knock(t, "release", fmt.Sprintf(`{"permit":%q,"status":200}`, first.Permit)); status != 200 {
		t.Errorf("release: %d", status)
	}
	second := <-waiting
	if !second.Granted {
		t.Fatalf("the one that waited: %+v", second)
	}
	rows := g.rows()
	if len(rows) != 1 || rows[0].Status != 200 || rows[0].Client != "tool" || rows[0].Run != "r1" || rows[0].Provider != "own" || rows[0].Attempt != 1 {
		t.Errorf("the log: %+v", rows)
	}
	g.knock(t, "release", fmt.Sprintf(`{"permit":%q}`, second.Permit))
	// A proxied request spends from the same window.
	status, a := g.knock(t, "acquire", own, key...)
	if status != 200 || a.Granted || a.RetryAfterMs < (59*time.Minute).Milliseconds() {
		t.Errorf("the third of two: %d %+v", status, a)
	}
	res := g.do(t, http.MethodPost, "/own/v1/chat/completions", `{"model":"m"}`, key...)
	if res.StatusCode != 429 {
		t.Errorf("proxied: %d", res.StatusCode)
	}
	if len(g.arrived) != 0 {
		t.Error("something was sent")
	}
	// A release again, or of nothing, is no failure.
	if status, _ := g.knock(t, "release", fmt.Sprintf(`{"permit":%q}`, second.Permit)); status != 200 {
		t.Errorf("release again: %d", status)
	}
}

// L-10: who asks is found out as for a request that is passed on, never taken
// from the body; L-13: nor are limits.
func TestDoorCaller(t *testing.T) {
	g := newRig(t, nil, limited)
	for name, c := range map[string]struct {
		body    string
		headers []string
		status  int
		says    string
	}{
		"a limit in the body":  {`{"provider":"own","limits":[{"key":"x","calls":9}]}`, nil, 400, "limits"},
		"a caller in the body": {`{"provider":"own","client":"somebody"}`, nil, 400, "client"},
		"a key in the body":    {`{"provider":"own","key":"own/x"}`, nil, 400, "key"},
		"no provider":          {`{}`, nil, 404, "there is no provider"},
		"a token not for it":   {`{"provider":"stored"}`, []string{"X-Paceline-Token", "pcl_batch0123456789"}, 403, "is not for stored"},
		"a token that is none": {own, []string{"X-Paceline-Token", "pcl_nobody0123456789"}, 401, "none of this proxy"},
		"a web page":           {own, []string{"Origin", "https://evil.example"}, 403, ""},
		"a negative hold":      {`{"provider":"own","holdMs":-1}`, nil, 400, "negative"},
		"no such door":         {own, nil, 404, ""},
	} {
		what := "acquire"
		if name == "no such door" {
			what = "open"
		}
		status, a := g.knock(t, what, c.body, c.headers...)
		if status != c.status || !strings.Contains(a.Error.Message, c.says) {
			t.Errorf("%s: %d %+v", name, status, a)
		}
	}
	// The stored key is named, not shown, and what the token says holds.
	status, a := g.knock(t, "acquire", `{"provider":"stored"}`, "X-Paceline-Token", "pcl_team0123456789")
	if status != 200 || !a.Granted || a.Credential != "stored" {
		t.Errorf("%d %+v", status, a)
	}
	g.knock(t, "release", fmt.Sprintf(`{"permit":%q,"status":500}`, a.Permit))
	if rows := g.rows(); len(rows) != 1 || rows[0].Client != "team" || rows[0].Credential != "stored" || rows[0].Class != "unavailable" {
		t.Errorf("the log: %+v", rows)
	}
}

// What a tool is told teaches everyone on its key, as what is passed on does.
func TestDoorTeaches(t *testing.T) {
	g := newRig(t, nil)
	key := []string{"Authorization", "Bearer " + clientKey, atOnce, "0"}
	_, a := g.knock(t, "acquire", own, key...)
	g.knock(t, "release", fmt.Sprintf(`{"permit":%q,"status":429,"headers":{"retry-after":"40"},"body":"{\"error\":{\"message\":\"slow down\"}}"}`, a.Permit))
	status, a := g.knock(t, "acquire", own, key...)
	if wait := time.Duration(a.RetryAfterMs) * time.Millisecond; status != 200 || a.Granted || wait < 39*time.Second || wait > 41*time.Second {
		t.Errorf("after a refusal: %d %+v", status, a)
	}
	if rows := g.rows(); len(rows) != 1 || rows[0].Status != 429 || rows[0].Wait != 40*time.Second {
		t.Errorf("the log: %+v", rows)
	}

	g = newRig(t, nil)
	if status, a := g.knock(t, "throttle", `{"provider":"own","model":"m","forMs":30000}`, key...); status != 200 {
		t.Fatalf("throttle: %d %+v", status, a)
	}
	if _, a := g.knock(t, "acquire", own, key...); a.Granted || a.RetryAfterMs < 29000 || a.RetryAfterMs > 31000 {
		t.Errorf("after a throttle: %+v", a)
	}
	// Another key is another caller.
	if _, a := g.knock(t, "acquire", own, "Authorization", "Bearer sk-another-key-0123456789", atOnce, "0"); !a.Granted {
		t.Errorf("another key: %+v", a)
	}
	for _, body := range []string{`{"provider":"own"}`, `{"provider":"own","forMs":-1}`, `{"provider":"own","forMs":99999999999}`} {
		if status, _ := g.knock(t, "throttle", body, key...); status != 400 {
			t.Errorf("throttle %s: %d", body, status)
		}
	}
}

// A leave lapses with its hold, and its place is free again.
func TestDoorLapses(t *testing.T) {
	g := newRig(t, nil, limited)
	key := []string{"Authorization", "Bearer " + clientKey, atOnce, "0"}
	_, a := g.knock(t, "acquire", `{"provider":"own","model":"m","holdMs":100}`, key...)
	if !a.Granted || a.HoldMs != 100 {
		t.Fatalf("%+v", a)
	}
	await(t, func() bool { _, a := g.knock(t, "acquire", own, key...); return a.Granted })
	await(t, func() bool { rows := g.rows(); return len(rows) == 1 && rows[0].Aborted })
}

// A caller that leaves while it waits leaves the line, and one whose request was
// not sent gives its place back and teaches nothing.
func TestDoorLeaving(t *testing.T) {
	g := newRig(t, nil, limited)
	key := []string{"Authorization", "Bearer " + clientKey, atOnce, "0"}
	_, a := g.knock(t, "acquire", own, key...)
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+"/door/acquire", bytes.NewReader([]byte(own)))
		if err == nil {
			r.Header.Set("Authorization", "Bearer "+clientKey)
			_, err = http.DefaultClient.Do(r)
		}
		gone <- err
	}()
	await(t, func() bool { return g.transport.Status()[0].Waiting.Normal == 1 })
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	await(t, func() bool { return g.transport.Status()[0].Waiting.Normal == 0 })
	g.knock(t, "release", fmt.Sprintf(`{"permit":%q,"unsent":true}`, a.Permit))
	if rows := g.rows(); len(rows) != 1 || !rows[0].NotSent {
		t.Errorf("the log: %+v", rows)
	}
	if _, a := g.knock(t, "acquire", own, key...); !a.Granted {
		t.Errorf("afterwards: %+v", a)
	}
}

// Every provider that is built in has a path at the door by which its requests
// count.
func TestDoorOfEveryProvider(t *testing.T) {
	g := newRig(t, nil)
	for _, p := range paceline.BuiltIn() {
		_, a := g.knock(t, "acquire", fmt.Sprintf(`{"provider":%q,"model":"m"}`, p.Name), atOnce, "0")
		if !a.Granted {
			t.Errorf("%s: %+v", p.Name, a)
			continue
		}
		g.knock(t, "release", fmt.Sprintf(`{"permit":%q,"status":200}`, a.Permit))
		rows := g.rows()
		if last := rows[len(rows)-1]; last.Provider != p.Name || last.Model != "m" || last.Scope == "~other" {
			t.Errorf("%s: %+v", p.Name, last)
		}
	}
}
