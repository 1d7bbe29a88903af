package proxy_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/config"
)

func TestHealth(t *testing.T) {
	g := newRig(t, nil)
	for _, path := range []string{"/health", "/healthz", "/ready", "/readyz"} {
		if res := g.do(t, "GET", path, ""); res.StatusCode != 200 || !strings.Contains(res.body, `"status":"ok"`) {
			t.Errorf("%s: %s %s", path, res.Status, res.body)
		}
	}
	g.Drain()
	if res := g.do(t, "GET", "/ready", ""); res.StatusCode != 503 || res.Header.Get("Retry-After") != "1" {
		t.Errorf("draining: %s", res.Status)
	}
	if res := g.do(t, "GET", "/health", ""); res.StatusCode != 200 {
		t.Errorf("health while draining: %s", res.Status)
	}
	for _, path := range []string{"/health", "/stats", "/metrics", "/ui", "/"} {
		if res := g.do(t, "POST", path, "{}"); res.StatusCode != 405 || res.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("POST %s: %s", path, res.Status)
		}
	}
}

func TestPages(t *testing.T) {
	status := 200
	g := newRig(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "3000")
		w.WriteHeader(status)
	})
	g.do(t, "POST", "/own/v1/chat/completions", chat)
	status = 429
	g.do(t, "POST", "/claude/v1/messages", chat, "X-Paceline-Max-Wait", "0s")
	var stats struct {
		Version string
		Callers []map[string]any
	}
	if res := g.do(t, "GET", "/stats", ""); json.Unmarshal([]byte(res.body), &stats) != nil || stats.Version != "test" || len(stats.Callers) != 2 {
		t.Errorf("stats: %s", res.body)
	}
	res := g.do(t, "GET", "/metrics", "")
	for _, want := range []string{
		`paceline_attempts_total{class="ok",provider="own"} 1`,
		`paceline_attempts_total{class="rate_limited",provider="claude"} 1`,
		`paceline_queue_seconds_count{provider="own"} 1`,
		`paceline_active{credential="own#1",provider="own",scope="m"} 0`,
		`paceline_waiting{credential="own#1",priority="normal",provider="own",scope="m"} 0`,
		`paceline_rate_factor{`, `paceline_paused_seconds{`, `paceline_held{`,
	} {
		if res.StatusCode != 200 || !strings.Contains(res.body, want) {
			t.Errorf("metrics: %s: no %s in\n%s", res.Status, want, res.body)
		}
	}
	res = g.do(t, "GET", "/ui", "")
	policy := res.Header.Get("Content-Security-Policy")
	if res.StatusCode != 200 || !strings.Contains(res.body, "own") || !strings.Contains(res.body, "paused for") || !strings.Contains(res.body, "claude: 1") {
		t.Errorf("ui: %s\n%s", res.Status, res.body)
	}
	// The page asks nobody for anything.
	for _, foreign := range []string{"<script", "src=", "href=", "url(", "http://", "https://"} {
		if strings.Contains(res.body, foreign) {
			t.Errorf("ui: the page has %s", foreign)
		}
	}
	if !strings.HasPrefix(policy, "default-src 'none';") || !strings.Contains(policy, "frame-ancestors 'none'") {
		t.Errorf("ui: policy %q", policy)
	}
}

func TestControl(t *testing.T) {
	g := newRig(t, nil)
	call := func(name, body string, headers ...string) reply {
		return g.do(t, "POST", "/control/"+name, body, append([]string{"Content-Type", "application/json", "X-Paceline-Token", homeToken}, headers...)...)
	}
	g.do(t, "POST", "/own/v1/chat/completions", chat)
	if res := call("pause", `{"provider":"own","for_ms":60000,"why":"lunch"}`); res.StatusCode != 200 {
		t.Fatalf("pause: %s %s", res.Status, res.body)
	}
	if res := g.do(t, "POST", "/own/v1/chat/completions", chat, "X-Paceline-Max-Wait", "0s"); res.StatusCode != 429 || res.Header.Get("X-Paceline-Refused") == "" {
		t.Errorf("paused: %s %s", res.Status, res.body)
	}
	if res := g.do(t, "GET", "/ui", ""); !strings.Contains(res.body, "lunch") {
		t.Errorf("the page does not say why:\n%s", res.body)
	}
	if res := call("resume", `{"provider":"own"}`); res.StatusCode != 200 {
		t.Errorf("resume: %s %s", res.Status, res.body)
	}
	if res := g.do(t, "POST", "/own/v1/chat/completions", chat); res.StatusCode != 200 {
		t.Errorf("resumed: %s %s", res.Status, res.body)
	}
	for _, what := range []string{"learned", "budget", "all"} {
		if res := call("clear", `{"provider":"own","what":"`+what+`"}`); res.StatusCode != 200 {
			t.Errorf("clear %s: %s %s", what, res.Status, res.body)
		}
	}
	call("mode", `{"mode":"observe","provider":"own"}`)
	if g.control.mode != config.Observe || g.control.provider != "own" {
		t.Errorf("mode: %+v", g.control)
	}
	call("mode", `{"mode":"off"}`)
	if g.control.mode != config.Off || g.control.provider != "" {
		t.Errorf("mode: %+v", g.control)
	}
	call("reload", `{}`)
	call("stop", `{}`)
	if g.control.reloads != 1 || !g.control.stopped {
		t.Errorf("reload, stop: %+v", g.control)
	}
	g.control.err = errors.New("paceline.yaml:3:1: no such key")
	for _, c := range []struct {
		name, body string
		headers    []string
		status     int
		says       string
	}{
		{"reload", "{}", nil, 400, "paceline.yaml:3:1"},
		{"pause", `{"provider":"nobody"}`, nil, 400, "there are"},
		{"pause", `{}`, nil, 400, "there are"},
		{"pause", `{"provider":"own","for_ms":-1}`, nil, 400, "for_ms"},
		{"pause", `{"provider":"own","for_ms":9223372036854775807}`, nil, 400, "for_ms"},
		{"clear", `{"provider":"own","what":"x"}`, nil, 400, "learned, budget or all"},
		{"mode", `{"mode":"x"}`, nil, 400, "enforce, observe or off"},
		{"mode", `{"mode":"off","provider":"nobody"}`, nil, 400, "there are"},
		{"pause", `{"provider":"own","until":1}`, nil, 400, "cannot be read"},
		{"pause", `not json`, nil, 400, "cannot be read"},
		{"pause", ``, nil, 400, "cannot be read"},
		{"pause", `{"provider":"own"}{}`, nil, 400, "one JSON object"},
		{"pause", `{"why":"` + strings.Repeat("x", 70<<10) + `"}`, nil, 400, "too large"},
		{"dance", `{}`, nil, 404, "pause, resume"},
		{"", `{}`, nil, 404, "pause, resume"},
		{"stop", `{}`, []string{"Origin", "https://evil.example"}, 403, "allowHosts"},
	} {
		if res := call(c.name, c.body, c.headers...); res.StatusCode != c.status || !strings.Contains(res.body, c.says) || !json.Valid([]byte(res.body)) {
			t.Errorf("%s %.50s: %s %s, want %d %q", c.name, c.body, res.Status, res.body, c.status, c.says)
		}
	}
	for _, c := range []struct {
		method, kind, token string
		status              int
	}{
		{"POST", "application/json", "", 401},
		{"POST", "application/json", "pcl_team0123456789", 401},
		{"POST", "application/json", "pcl_wrong", 401},
		{"GET", "application/json", homeToken, 405},
		{"POST", "text/plain", homeToken, 415},
		{"POST", "", homeToken, 415},
	} {
		headers := []string{"Content-Type", c.kind}
		if c.token != "" {
			headers = append(headers, "X-Paceline-Token", c.token)
		}
		if res := g.do(t, c.method, "/control/stop", "{}", headers...); res.StatusCode != c.status || !json.Valid([]byte(res.body)) {
			t.Errorf("%+v: %s %s", c, res.Status, res.body)
		}
	}
}

// beating gives every provider a heartbeat.
func beating(c *config.Config) {
	for i := range c.Providers {
		c.Providers[i].StreamHeartbeat = 20 * time.Millisecond
	}
}

// BerriAI/litellm#34819: a wait can be made visible, where the client asked for
// a stream and the provider's entry says so.
func TestHeartbeat(t *testing.T) {
	const stream = "event: x\ndata: {\"a\":1}\n\n"
	answer := make(chan func(http.ResponseWriter))
	g := newRig(t, func(w http.ResponseWriter, r *http.Request) { (<-answer)(w) }, beating)
	const asks = `{"stream":true,"model":"m"}`
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		want   string
	}{
		"a stream": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, stream)
		}, stream},
		"a refusal": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(400)
			io.WriteString(w, "{\"error\":\n {\"message\":\"no\"}}\n")
		}, "event: error\ndata: {\"error\":{\"message\":\"no\"}}\n\n"},
		"a page": {func(w http.ResponseWriter) {
			w.WriteHeader(404)
			io.WriteString(w, "<html>")
		}, "event: error\ndata: {\"error\":{\"code\":\"paceline_failed\",\"message\":\"own answered 404, and not with a stream: \\u003chtml\\u003e\",\"param\":null,\"type\":\"api_error\"}}\n\n"},
		"no stream": {func(w http.ResponseWriter) { io.WriteString(w, `{"choices":[]}`) }, "event: error\ndata: {\"choices\":[]}\n\n"},
	} {
		res := g.open(t, t.Context(), "/own/v1/chat/completions", asks)
		got := lines(res.Body)
		for range 2 { // it comes again and again
			if a, b := <-got, <-got; a != ": waiting\n" || b != "\n" {
				t.Fatalf("%s: got %q, %q", name, a, b)
			}
		}
		if res.StatusCode != 200 || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
			t.Errorf("%s: %s %v", name, res.Status, res.Header)
		}
		answer <- c.answer
		rest := ""
		for line := range got {
			rest += line
		}
		for strings.HasPrefix(rest, ": waiting\n\n") {
			rest = strings.TrimPrefix(rest, ": waiting\n\n")
		}
		if rest != c.want {
			t.Errorf("%s: got %q, want %q", name, rest, c.want)
		}
		res.Body.Close()
	}
	// Who asked for no stream waits in silence, and gets the answer as it is.
	go func() { answer <- func(w http.ResponseWriter) { w.WriteHeader(400) } }()
	if res := g.do(t, "POST", "/own/v1/chat/completions", chat); res.StatusCode != 400 {
		t.Errorf("no stream: %s", res.Status)
	}
}

// An answer that comes in time is passed on as if there were no heartbeat.
func TestHeartbeatNotNeeded(t *testing.T) {
	g := newRig(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Kept", "1")
		w.WriteHeader(400)
		io.WriteString(w, "{ }")
	}, func(c *config.Config) {
		beating(c)
		c.Providers[0].StreamHeartbeat = time.Hour
	})
	res := g.do(t, "POST", "/own/v1/chat/completions", `{"stream":true}`)
	if res.StatusCode != 400 || res.body != "{ }" || res.Header.Get("X-Kept") != "1" {
		t.Errorf("got %s %q %v", res.Status, res.body, res.Header)
	}
}

// A provider that is lost under a heartbeat is an event.
func TestHeartbeatLost(t *testing.T) {
	wait := make(chan struct{})
	g := newRig(t, func(w http.ResponseWriter, r *http.Request) {
		<-wait
		panic(http.ErrAbortHandler)
	}, beating)
	res := g.open(t, t.Context(), "/own/v1/chat/completions", `{"stream":true}`)
	close(wait)
	b, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || !strings.Contains(string(b), "event: error\ndata: {") || !strings.Contains(string(b), "paceline_lost") {
		t.Errorf("got %q, %v", b, err)
	}
}
