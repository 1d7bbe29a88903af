package proxy_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/internal/config"
)

func TestRouting(t *testing.T) {
	g := newRig(t, nil)
	for _, c := range []struct {
		method, path string
		headers      []string
		want         string // the URI at the provider
		answered     string // the provider that the record names
	}{
		{"POST", "/own/v1/chat/completions", nil, "/v1/chat/completions", "own"},
		{"POST", "/own/chat/completions", nil, "/v1/chat/completions", "own"},
		// FerroxLabs/wayland#1178: base URLs with a version, a slash, or both too many.
		{"POST", "/v1/v1/chat/completions", nil, "/v1/chat/completions", "own"},
		{"POST", "//v1/chat/completions", nil, "/v1/chat/completions", "own"},
		{"POST", "/v1/chat/completions/", nil, "/v1/chat/completions", "own"},
		{"GET", "/v1/files/", nil, "/v1/files/", "own"},
		{"POST", "/own/v1/v1/chat/completions", nil, "/v1/chat/completions", "own"},
		{"POST", "/v1/chat/completions", nil, "/v1/chat/completions", "own"},
		{"POST", "/v1/messages?beta=true", nil, "/v1/messages?beta=true", "claude"},
		{"POST", "/v1/messages/count_tokens?beta=true", nil, "/v1/messages/count_tokens?beta=true", "claude"},
		{"GET", "/v1/files", []string{"Anthropic-Version", "2023-06-01"}, "/v1/files", "claude"},
		{"GET", "/claude/v1/messages/batches", nil, "/v1/messages/batches", "claude"},
		{"DELETE", "/own/v1/files/a%2Fb", nil, "/v1/files/a%2Fb", "own"},
		{"GET", "/own/v1/files/./x//y?b=2&a=%zz;c&=&x", nil, "/v1/files/./x//y?b=2&a=%zz;c&=&x", "own"},
		{"GET", "/own/v1/files?", nil, "/v1/files?", "own"},
		{"POST", "/as/night,priority=background/own/v1/responses", nil, "/v1/responses", "own"},
		{"POST", "/~" + homeToken + "/as/night/v1/responses", nil, "/v1/responses", "own"},
	} {
		body := ""
		if c.method == "POST" {
			body = chat
		}
		res := g.do(t, c.method, c.path, body, append(c.headers, "Authorization", "Bearer "+clientKey)...)
		r, _ := g.last()
		if res.StatusCode != 200 || r == nil || r.RequestURI != c.want {
			t.Errorf("%s %s: %s %s; arrived %v, want %s", c.method, c.path, res.Status, res.body, r, c.want)
			continue
		}
		if got := g.records[len(g.records)-1].Provider; got != c.answered {
			t.Errorf("%s: went to %s, want %s", c.path, got, c.answered)
		}
	}
}

// Lists of models pass at once and without a redirect (askalf/dario#474).
func TestCatalog(t *testing.T) {
	g := newRig(t, nil)
	for _, path := range []string{"/v1/models?limit=1000", "/own/v1/models", "/own/models/a/b"} {
		if res := g.do(t, "GET", path, ""); res.StatusCode != 200 {
			t.Errorf("%s: %s %s", path, res.Status, res.body)
		}
	}
}

// Claude Code's first call is HEAD / (askalf/dario#474).
func TestBarePrefix(t *testing.T) {
	g := newRig(t, nil)
	for _, path := range []string{"/", "/own", "/own/", "/own/v1", "/v1", "/v1/", "/as/x/own", "/stored", "/~" + homeToken, "/~" + homeToken + "/claude/"} {
		for _, method := range []string{"HEAD", "GET"} {
			if res := g.do(t, method, path, ""); res.StatusCode != 200 {
				t.Errorf("%s %s: %s", method, path, res.Status)
			}
		}
	}
	if g.count() > 0 {
		t.Error("a bare prefix reached the provider")
	}
}

func TestUnknownProvider(t *testing.T) {
	g := newRig(t, nil)
	for path, want := range map[string]string{
		"/opnai/v1/chat/completions": "did you mean " + g.url + "/openai/v1/chat/completions",
		// FerroxLabs/wayland#1178: a base URL without its version.
		"/chat/completions":                "did you mean " + g.url + "/v1/chat/completions",
		"/nobody-at-all/v1/x":              "There are: anthropic,",
		"/stats/x":                         `no provider \"stats\"`,
		"/nobody/v1beta/m:generateContent": `"status":"NOT_FOUND"`,
		"/nobody/v1/messages":              `{"error":{"message":`,
	} {
		res := g.do(t, "POST", path, chat)
		if res.StatusCode != 404 || !strings.Contains(res.body, want) || res.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s: %s %s, want %q", path, res.Status, res.body, want)
		}
	}
	if res := g.do(t, "POST", "/nobody/v1/messages", chat); !strings.HasPrefix(res.body, `{"error":{"message":"there is no provider`) || !strings.HasSuffix(res.body, `"type":"error"}`) {
		t.Errorf("not Anthropic's shape: %s", res.body)
	}
}

// Traversal stays here.
func TestTraversal(t *testing.T) {
	g := newRig(t, nil)
	for _, path := range []string{"/own/../../admin", "/own/v1/%2e%2e/%2e%2e/x", "/own/%252e%252e/x", "/v1/../../x"} {
		got := g.raw(t, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 400 ") || !strings.Contains(got, "leads out of the base URL") {
			t.Errorf("%s: %s", path, got)
		}
	}
	if g.count() > 0 {
		t.Error("it reached the provider")
	}
}

// Headers go through, but for those of a hop and ours; nothing is invented.
// TokenRhythm/opensquilla#1102: beta headers stay as they are.
func TestRequestHeaders(t *testing.T) {
	g := newRig(t, nil)
	c := g.dial(t)
	io.WriteString(c, "POST /own/v1/chat/completions HTTP/1.1\r\nHost: localhost:1\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\n"+
		"Keep-Alive: 5\r\nProxy-Authorization: Basic eDp5\r\nTE: gzip\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n"+
		"X-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\nX-Paceline-Foo: 1\r\nX-Paceline-Priority: normal\r\n"+
		"anthropic-beta: claude-code-20250219,effort-2025-11-24\r\nanthropic-beta: second\r\nX-Custom: kept\r\n"+
		"Authorization: Bearer "+clientKey+"\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
	b, _ := io.ReadAll(c)
	r, body := g.last()
	if r == nil {
		t.Fatalf("nothing arrived: %s", b)
	}
	want := map[string][]string{
		"Anthropic-Beta":  {"claude-code-20250219,effort-2025-11-24", "second"},
		"X-Custom":        {"kept"},
		"Authorization":   {"Bearer " + clientKey},
		"Content-Type":    {"application/json"},
		"Content-Length":  {"2"},
		"Accept-Encoding": {"identity"},
	}
	for name, values := range r.Header {
		if fmt.Sprint(want[name]) != fmt.Sprint(values) {
			t.Errorf("%s: %q arrived, want %q", name, values, want[name])
		}
		delete(want, name)
	}
	if len(want) > 0 || body != "{}" || r.Host != strings.TrimPrefix(g.provider.URL, "http://") {
		t.Errorf("missing %v; body %q, host %s", want, body, r.Host)
	}
}

// rossoctl/cortex#656, freelensapp/freelens-ai-extension#272: what is encoded
// stays so with its header, and nobody gets gzip who did not ask for it.
func TestEncodings(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	io.WriteString(z, "event: x\ndata: plain\n\n")
	z.Close()
	g := newRig(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.Header.Get("X-Type"))
		if as := r.Header.Get("X-As"); as != "" {
			w.Header().Set("Content-Encoding", as)
		}
		if r.Header.Get("X-Stream") == "" {
			w.Write(zipped.Bytes())
			return
		}
		for _, b := range zipped.Bytes() {
			w.Write([]byte{b})
			flush(w)
		}
	})
	for _, c := range [][2]string{
		{"", "identity"}, {"gzip, deflate, br", "gzip, identity"}, {"br, zstd", "identity"}, {"*", "gzip, identity"},
		{"gzip;q=0", "identity"}, {"gzip;q=0.5", "gzip, identity"}, {"identity", "identity"},
	} {
		for _, as := range []string{"gzip", "br", "zstd", ""} {
			for _, stream := range []string{"", "1"} {
				res := g.do(t, "POST", "/own/v1/chat/completions", chat, "Accept-Encoding", c[0], "X-As", as, "X-Stream", stream, "X-Type", "text/event-stream")
				r, _ := g.last()
				if got := r.Header.Get("Accept-Encoding"); got != c[1] {
					t.Errorf("Accept-Encoding %q became %q, want %q", c[0], got, c[1])
				}
				if res.body != zipped.String() || res.Header.Get("Content-Encoding") != as {
					t.Errorf("%q %q: %q came, encoding %q", c[0], as, res.body, res.Header.Get("Content-Encoding"))
				}
			}
		}
	}
}

// agentgateway/agentgateway#2402: request bodies go out as they came, whatever
// they are: compressed, no JSON, empty, chunked.
func TestRequestBodies(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	io.WriteString(z, chat)
	z.Close()
	g := newRig(t, nil)
	for _, c := range [][2]string{
		{zipped.String(), "gzip"}, {"\x28\xb5\x2f\xfd\x00", "zstd"}, {zipped.String(), ""}, {"not json", ""}, {`{"model":`, ""}, {"\x00\xff", ""}, {"null", ""},
	} {
		res := g.do(t, "POST", "/own/v1/chat/completions", c[0], "Content-Encoding", c[1], "Content-Type", "application/json")
		r, body := g.last()
		if res.StatusCode != 200 || body != c[0] || r.Header.Get("Content-Encoding") != c[1] {
			t.Errorf("%q: %s; %q arrived", c[0], res.Status, body)
		}
	}
	got := g.raw(t, "POST /own/v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n")
	if _, body := g.last(); !strings.HasPrefix(got, "HTTP/1.1 200") || body != "abcde" {
		t.Errorf("chunked: %q arrived; %s", body, got)
	}
	got = g.raw(t, "POST /own/v1/chat/completions HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}")
	if _, body := g.last(); !strings.HasPrefix(got, "HTTP/1.0 200") || body != "{}" {
		t.Errorf("HTTP/1.0: %q arrived; %s", body, got)
	}
}

// agentgateway/agentgateway#2350: what the provider takes, the proxy takes,
// and beyond MaxReplayBytes too.
func TestLargeBodies(t *testing.T) {
	g := newRig(t, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%d %v", n, err)
	})
	for _, size := range []int{2_500_000, 20 << 20, 33 << 20} {
		body := strings.Repeat("x", size)
		res := g.do(t, "POST", "/claude/v1/messages", body, "X-Unread", "1")
		if want := fmt.Sprintf("%d <nil>", size); res.body != want {
			t.Errorf("got %s %q, want %q", res.Status, res.body, want)
		}
	}
}

// abhinavsingh/proxy.py#124: Expect: 100-continue is answered here, before any
// wait, and goes no further.
func TestExpectContinue(t *testing.T) {
	g := newRig(t, nil)
	c := g.dial(t)
	io.WriteString(c, "POST /own/v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n")
	b := bufio.NewReader(c)
	if line, _ := b.ReadString('\n'); line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("got %q", line)
	}
	io.WriteString(c, "{}")
	rest, _ := io.ReadAll(b)
	r, _ := g.last()
	if r == nil || r.Header.Get("Expect") != "" || !strings.Contains(string(rest), "200 OK") {
		t.Errorf("arrived %v; %s", r, rest)
	}
	// A refusal comes without the body having been asked for.
	if got := g.raw(t, "POST /nobody/v1/x HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 404") {
		t.Errorf("got %s", got)
	}
}

// A 1xx of the provider's is taken for the answer by some clients.
func TestProvisionalAnswersEndHere(t *testing.T) {
	g := newRig(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</x>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusProcessing)
		io.WriteString(w, "done")
	})
	got := g.raw(t, "POST /own/v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
	if !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") || strings.Contains(got, "HTTP/1.1 10") || !strings.HasSuffix(got, "done") {
		t.Errorf("got %s", got)
	}
}

// BerriAI/litellm#21553: headers of limits, errors and their bodies are the
// provider's own.
func TestErrorsPassUnchanged(t *testing.T) {
	const body = `{"error": {"message":"no  credit",   "type":"insufficient_quota"}}` + "\n"
	for _, status := range []int{400, 401, 402, 404, 413, 422, 429} {
		g := newRig(t, func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			h.Set("Retry-After", "12")
			h["x-RateLimit-Odd"] = []string{"1", "2"}
			h.Set("X-Ratelimit-Remaining-Requests", "0")
			h.Set("Content-Type", "application/json; charset=utf-8")
			w.WriteHeader(status)
			io.WriteString(w, body)
		})
		res := g.do(t, "POST", "/own/v1/chat/completions", chat, "X-Paceline-Max-Wait", "1s")
		if res.StatusCode != status || res.body != body || res.Header.Get("Retry-After") != "12" ||
			res.Header.Get("X-Ratelimit-Remaining-Requests") != "0" || len(res.Header.Values("X-Ratelimit-Odd")) != 2 {
			t.Errorf("%d: got %s %q, headers %v", status, res.Status, res.body, res.Header)
		}
	}
}

// Streams go through event by event, each byte as it came: event, id, retry,
// comments, pings, CRLF. golang/go#27816, rossoctl/cortex#656,
// LuthienResearch/luthien-proxy#804.
func TestEventsOneByOne(t *testing.T) {
	events := []string{
		"event: message_start\r\nid: 1\r\nretry: 10\r\ndata: {}\r\n\r\n", ": comment\n\n", "event: ping\ndata: {\"type\": \"ping\"}\n\n",
		"data: a\ndata: b\n\n", "data:\n\n", "event: ping\ndata: {}\n\n", "data: [DONE]\n\n",
	}
	for _, kind := range []string{"text/event-stream; charset=utf-8", "application/x-ndjson", "", "application/json"} {
		next := make(chan struct{})
		g := newRig(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Content-Type"] = []string{kind}
			if kind == "application/json" { // its length is known
				w.Header().Set("Content-Length", strconv.Itoa(len(strings.Join(events, ""))))
			}
			for _, e := range events {
				io.WriteString(w, e)
				flush(w)
				<-next
			}
		})
		res := g.open(t, t.Context(), "/claude/v1/messages", chat)
		for _, e := range events {
			got := make([]byte, len(e))
			// It is here before the next one has been sent.
			if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != e {
				t.Fatalf("%s: got %q, %v; want %q", kind, got, err, e)
			}
			next <- struct{}{}
		}
		if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
			t.Errorf("%s: then %q, %v", kind, rest, err)
		}
		// BerriAI/litellm#29557: servers in between are asked not to hold back.
		buffered := res.Header.Get("X-Accel-Buffering") == "" || !strings.Contains(res.Header.Get("Cache-Control"), "no-transform")
		if buffered != !strings.HasPrefix(kind, "text/event-stream") {
			t.Errorf("%s: headers %v", kind, res.Header)
		}
		res.Body.Close()
	}
}

// open begins a request whose answer is read by the test.
func (g *rig) open(t *testing.T, ctx context.Context, path, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, "POST", g.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	res, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// api7/aisix#111: characters that are split over reads stay whole.
func TestSplitCharacters(t *testing.T) {
	for _, text := range []string{"你好", "😀"} {
		for at := 1; at < len(text); at++ {
			next := make(chan struct{})
			g := newRig(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				io.WriteString(w, "data: "+text[:at])
				flush(w)
				<-next
				io.WriteString(w, text[at:]+"\n\n")
			})
			res := g.open(t, t.Context(), "/own/v1/chat/completions", chat)
			first := make([]byte, len("data: ")+at)
			_, err := io.ReadFull(res.Body, first)
			close(next)
			rest, _ := io.ReadAll(res.Body)
			if got := string(first) + string(rest); err != nil || got != "data: "+text+"\n\n" {
				t.Errorf("split at %d: %q, %v", at, got, err)
			}
			res.Body.Close()
		}
	}
}

func TestHEAD(t *testing.T) {
	g := newRig(t, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Length", "1234") })
	if res := g.do(t, "HEAD", "/own/v1/files/x", ""); res.StatusCode != 200 || res.ContentLength != 1234 {
		t.Errorf("got %s, length %d", res.Status, res.ContentLength)
	}
}

// QuantumNous/new-api#7231, BerriAI/litellm#9178: a client that leaves, in a
// stream or before its answer, cancels the request at the provider at once.
func TestClientLeaves(t *testing.T) {
	for _, stream := range []bool{true, false} {
		left := make(chan time.Time, 1)
		begun := make(chan struct{})
		g := newRig(t, func(w http.ResponseWriter, r *http.Request) {
			if stream {
				w.Header().Set("Content-Type", "text/event-stream")
				io.WriteString(w, "data: 1\n\n")
				flush(w)
			}
			close(begun)
			<-r.Context().Done()
			left <- time.Now()
		})
		c := g.dial(t)
		io.WriteString(c, "POST /own/v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
		<-begun
		at := time.Now()
		c.Close()
		select {
		case when := <-left:
			if d := when.Sub(at); d > time.Second {
				t.Errorf("stream %v: the provider was told after %v", stream, d)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("stream %v: the provider was never told", stream)
		}
		g.eventually(t, func() bool { return len(g.records) == 1 && g.records[0].Aborted && g.records[0].Status == 499 })
	}
}

// eventually waits for what follows from something that has happened.
func (g *rig) eventually(t *testing.T, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; {
		g.mu.Lock()
		ok := is()
		g.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("it never came to be; records %+v", g.records)
		}
		time.Sleep(time.Millisecond)
	}
}

// BerriAI/litellm#36429: when many leave at once the proxy answers others.
func TestManyLeaveAtOnce(t *testing.T) {
	const n = 30
	block := bytes.Repeat([]byte("data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n\n"), 1000)
	g := newRig(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 16 { // 1 MB
			w.Write(block)
		}
		flush(w)
		<-r.Context().Done()
	})
	var conns []net.Conn
	for range n {
		c := g.dial(t)
		io.WriteString(c, "POST /own/v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
		conns = append(conns, c)
	}
	for _, c := range conns {
		if _, err := io.CopyN(io.Discard, c, int64(len(block))*16); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range conns {
		c.Close()
	}
	at := time.Now()
	if res := g.do(t, "GET", "/healthz", ""); res.StatusCode != 200 || time.Since(at) > time.Second {
		t.Errorf("health: %s after %v", res.Status, time.Since(at))
	}
	g.eventually(t, func() bool { return len(g.records) == n })
}

// A stream that is cut at the provider is cut at the client, never ended.
func TestProviderCuts(t *testing.T) {
	g := newRig(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if n := r.Header.Get("X-Length"); n != "" {
			w.Header().Set("Content-Length", n)
		}
		io.WriteString(w, "data: 1\n\n")
		flush(w)
		panic(http.ErrAbortHandler)
	})
	for _, length := range []string{"", "1000"} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", g.url+"/own/v1/chat/completions", strings.NewReader(chat))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Length", length)
		res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if string(b) != "data: 1\n\n" || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("length %q: got %q, %v", length, b, err)
		}
	}
}

// Redirects are the client's to follow: a key is not taken elsewhere.
func TestRedirectsPass(t *testing.T) {
	g := newRig(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://elsewhere.test/x", http.StatusTemporaryRedirect)
	})
	if res := g.do(t, "POST", "/own/v1/files", chat); res.StatusCode != http.StatusTemporaryRedirect || res.Header.Get("Location") != "https://elsewhere.test/x" || g.count() != 1 {
		t.Errorf("got %s %v", res.Status, res.Header)
	}
}

// UKGovernmentBEIS/inspect_ai#1372: every answer says how long it waited in
// line, refusals too, so that a harness can take that off.
func TestAnswersTellTheirWay(t *testing.T) {
	var sent int
	g := newRig(t, func(w http.ResponseWriter, r *http.Request) {
		if sent++; sent == 1 {
			w.Header().Set("Retry-After-Ms", "50")
			w.WriteHeader(429)
		}
	})
	res := g.do(t, "POST", "/own/v1/chat/completions", chat)
	h := res.Header
	waited, err := strconv.Atoi(h.Get("X-Paceline-Queued-Ms"))
	if err != nil || res.StatusCode != 200 || h.Get("X-Paceline-Attempts") != "2" || h.Get("X-Paceline-Provider") != "own" || waited < 1 {
		t.Errorf("%s %v", res.Status, h)
	}
	if id := h.Get("X-Paceline-Request-Id"); id == "" || g.records[0].ID != id {
		t.Errorf("the answer has the id %q, the record %q", id, g.records[0].ID)
	}
}

// Clients may speak HTTP/2 without TLS.
func TestH2C(t *testing.T) {
	g := newRig(t, nil)
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), "POST", g.url+"/own/v1/chat/completions", strings.NewReader(chat))
	if err != nil {
		t.Fatal(err)
	}
	res, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if _, body := g.last(); err != nil || res.ProtoMajor != 2 || res.StatusCode != 200 || string(b) != `{"ok":true}` || body != chat {
		t.Errorf("%s %s %q, %v; %q arrived", res.Proto, res.Status, b, err, body)
	}
}

// P-10: a request made inside the process obeys the limiter of those that come
// over HTTP.
func TestInProcessRequestsCountTogether(t *testing.T) {
	g := newRig(t, nil, func(c *config.Config) { c.Providers[0].MaxPerHour = 1 })
	key := "Bearer " + clientKey
	if res := g.do(t, "POST", "/own/v1/chat/completions", chat, "Authorization", key); res.StatusCode != 200 {
		t.Fatal(res.Status, res.body)
	}
	inside := &paceline.Transport{Base: g.transport.Base, Limiter: g.transport.Limiter, Providers: g.transport.Providers}
	req, err := http.NewRequestWithContext(t.Context(), "POST", g.provider.URL+"/v1/chat/completions", strings.NewReader(chat))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", key)
	req.Header.Set("X-Paceline-Max-Wait", "1m")
	res, err := inside.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if refused := res.Header.Get("X-Paceline-Refused"); refused != "deadline" || g.count() != 1 {
		t.Errorf("%s, refused for %q; %d arrived", res.Status, refused, g.count())
	}
}
