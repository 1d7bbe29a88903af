package proxy_test

import (
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/internal/config"
	"github.com/paceline-proxy/paceline/internal/proxy"
	"github.com/paceline-proxy/paceline/limiter/memory"
)

// elsewhere declares a provider at an address.
func elsewhere(name, url string) func(*config.Config) {
	return func(c *config.Config) {
		c.Providers = append(c.Providers, config.Provider{Provider: paceline.Provider{
			Name: name, BaseURL: url, Retry: paceline.Retry{Base: time.Millisecond},
		}})
	}
}

// A provider that is down is an error of the API's own shape, which names it
// and says what to do.
func TestProviderDown(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	untrusted := httptest.NewUnstartedServer(nil)
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	defer untrusted.Close()
	dropping := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer dropping.Close()
	g := newRig(t, nil, elsewhere("gone", gone.URL), elsewhere("untrusted", untrusted.URL), elsewhere("dropping", dropping.URL),
		elsewhere("plain", strings.Replace(dropping.URL, "http:", "https:", 1)))
	for _, c := range []struct{ name, says string }{
		{"gone", "is it running, and is the port right?"},
		{"untrusted", "upstream: {caFile: PATH}"},
		{"dropping", "was lost before an answer came"},
		{"plain", "write http:// in its baseURL"},
	} {
		for path, of := range map[string]func(map[string]any) any{
			"/v1/chat/completions":        func(m map[string]any) any { return m["code"] },
			"/v1/messages":                func(m map[string]any) any { return m["type"] },
			"/v1beta/m/x:generateContent": func(m map[string]any) any { return m["status"] },
		} {
			res := g.do(t, "POST", "/"+c.name+path, chat)
			var body struct{ Error map[string]any }
			if err := json.Unmarshal([]byte(res.body), &body); err != nil || of(body.Error) == nil {
				t.Errorf("%s%s: not the API's shape: %s", c.name, path, res.body)
			}
			if res.StatusCode != 502 || !strings.Contains(res.body, c.says) || !strings.Contains(res.body, c.name) ||
				res.Header.Get("X-Should-Retry") != "false" || res.Header.Get("X-Paceline-Provider") != c.name {
				t.Errorf("%s%s: %s %s, want %q; headers %v", c.name, path, res.Status, res.body, c.says, res.Header)
			}
		}
	}
}

// Whatever is wrong with a request's framing ends here.
func TestSmuggling(t *testing.T) {
	g := newRig(t, nil)
	const head = "POST /own/v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
	for name, sent := range map[string]string{
		"two lengths":             head + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
		"signed length":           head + "Content-Length: +2\r\n\r\n{}",
		"another coding":          head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"two codings":             head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
		"space before the colon":  head + "Content-Length : 2\r\n\r\n{}",
		"NUL in a value":          head + "X-A: a\x00b\r\nContent-Length: 2\r\n\r\n{}",
		"bare CR in a value":      head + "X-A: a\rb\r\nContent-Length: 2\r\n\r\n{}",
		"bad chunk size":          head + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n\r\n",
		"chunk longer than said":  head + "Transfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n0\r\n\r\n",
		"endless chunk extension": head + "Transfer-Encoding: chunked\r\n\r\n2;" + strings.Repeat("x", 1<<16) + "\r\n{}\r\n0\r\n\r\n",
		"no host":                 "POST /own/v1/chat/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
		"two hosts":               head + "Host: evil.example\r\nContent-Length: 2\r\n\r\n{}",
		"1 MB of headers":         head + "X-A: " + strings.Repeat("x", 1<<20) + "\r\n\r\n",
		"no HTTP":                 "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
		"a space in the path":     "POST /own/v1/a b HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"CONNECT":                 "CONNECT own:443 HTTP/1.1\r\nHost: own:443\r\nConnection: close\r\n\r\n",
		"absolute form":           "GET http://own/v1/x HTTP/1.1\r\nHost: own\r\nConnection: close\r\n\r\n",
		"other URI":               "GET own/v1/x HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := g.dial(t)
			go io.WriteString(c, sent) // the server may hang up on it
			b, _ := io.ReadAll(c)
			got := string(b)
			if !strings.HasPrefix(got, "HTTP/1.1 4") && !strings.HasPrefix(got, "HTTP/1.1 501") && got != "" {
				t.Errorf("answered %.200q", got)
			}
			if g.count() > 0 {
				t.Fatalf("it reached the provider")
			}
		})
	}
}

// What net/http's server takes although it is odd goes out framed anew, in one
// way.
func TestFramedAnew(t *testing.T) {
	g := newRig(t, nil)
	const head = "POST /own/v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
	for _, c := range [][2]string{
		{head + "Content-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", ""},
		{head + "X-A: b\r\n Content-Length: 7\r\nContent-Length: 2\r\n\r\n{}", "2"},
	} {
		got := g.raw(t, c[0])
		r, body := g.last()
		if r == nil || body != "{}" || r.Header.Get("Content-Length") != c[1] {
			t.Errorf("%q: %v arrived with %q; %s", c[0], r, body, got)
		}
	}
}

// Where a request's framing may have been said twice, nothing that follows on
// its connection is taken for a request.
func TestFramedTwice(t *testing.T) {
	g := newRig(t, nil)
	const post, next = "POST /own/v1/chat/completions ", "GET /own/v1/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for _, c := range []struct{ sent, status string }{
		{post + "HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "200"},
		{post + "HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}", "200"},
		{post + "HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "400"},
	} {
		got := g.raw(t, c.sent+next)
		if status := strings.Fields(got)[1]; status != c.status || strings.Count(got, "\r\nDate: ") != 1 {
			t.Errorf("%q: %q", c.sent, got)
		}
		if r, _ := g.last(); r != nil && strings.Contains(r.RequestURI, "smuggled") {
			t.Errorf("%q: what followed arrived", c.sent)
		}
	}
}

// A TRACE would have the provider send the stored key back in its body.
func TestTraceEndsHere(t *testing.T) {
	g := newRig(t, nil)
	if res := g.do(t, "TRACE", "/stored/v1/files", "", "X-Paceline-Token", homeToken); res.StatusCode != 501 || g.count() > 0 {
		t.Errorf("got %s %s", res.Status, res.body)
	}
}

// A client that uses the proxy as HTTP_PROXY is told what to do instead.
func TestForwardProxyIsRefused(t *testing.T) {
	g := newRig(t, nil)
	for _, line := range []string{"CONNECT api.openai.com:443", "GET http://api.openai.com/v1/models"} {
		got := g.raw(t, line+" HTTP/1.1\r\nHost: api.openai.com\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 400") || !strings.Contains(got, "OPENAI_BASE_URL=") {
			t.Errorf("%s: %s", line, got)
		}
	}
}

// qxcnm/Codex-Manager#92: an upgrade gets a 426 at once, wherever it asks.
func TestWebSocket(t *testing.T) {
	g := newRig(t, nil)
	for _, path := range []string{"/own/v1/responses", "/v1/responses", "/nobody/v1/realtime", "/"} {
		got := g.raw(t, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 426 Upgrade Required\r\n") || !strings.Contains(got, "\r\nUpgrade: HTTP/1.1\r\n") || !strings.Contains(got, "over HTTP") {
			t.Errorf("%s: %s", path, got)
		}
	}
	if g.count() > 0 {
		t.Error("it reached the provider")
	}
}

// A request whose body breaks off is not sent.
func TestBrokenBody(t *testing.T) {
	g := newRig(t, nil)
	got := g.raw(t, "POST /own/v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\n{}\r\nzz\r\n")
	if !strings.HasPrefix(got, "HTTP/1.1 400") || !strings.Contains(got, "broke off") || g.count() > 0 {
		t.Errorf("got %s", got)
	}
}

// A body that is shorter than it is said to be is not sent.
func TestShortBody(t *testing.T) {
	g := newRig(t, nil)
	c := g.dial(t)
	io.WriteString(c, "POST /own/v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{}")
	c.(*net.TCPConn).CloseWrite()
	if got, _ := io.ReadAll(c); strings.Contains(string(got), "200 OK") || g.count() > 0 {
		t.Errorf("got %q", got)
	}
}

// A client that sends nothing, or stops in the middle of a body, is given up.
// Over connections of memory the instants are exact.
func TestSilentClient(t *testing.T) {
	for _, c := range []struct {
		sent  string
		after time.Duration
		says  string
	}{
		{"", 30 * time.Second, ""},
		{"POST /own/v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n", 30 * time.Second, ""},
		{"POST /own/v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{", time.Minute, "408 Request Timeout"},
		{"POST /nobody/v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{", time.Minute, "404 Not Found"},
	} {
		synctest.Test(t, func(t *testing.T) {
			tr := &paceline.Transport{Base: refuser{t}, Limiter: memory.New(), Providers: []paceline.Provider{{Name: "own", BaseURL: "http://own.test/v1"}}}
			conf := config.Default()
			conf.Providers = []config.Provider{{Provider: tr.Providers[0]}}
			p, err := proxy.New(proxy.Options{Config: conf, Transport: tr, Token: homeToken})
			if err != nil {
				t.Fatal(err)
			}
			tr.Route = p.Route
			l := newListener()
			s := p.Server()
			go s.Serve(l)
			defer s.Close()
			conn := l.dial()
			begun := time.Now()
			go io.WriteString(conn, c.sent)
			b, _ := io.ReadAll(conn)
			if !strings.Contains(string(b), c.says) || time.Since(begun) != c.after {
				t.Errorf("%q: got %q after %v, want %q after %v", c.sent, b, time.Since(begun), c.says, c.after)
			}
		})
	}
}

// refuser is a provider that must not be reached.
type refuser struct{ t *testing.T }

func (r refuser) RoundTrip(*http.Request) (*http.Response, error) {
	r.t.Error("it reached the provider")
	return nil, io.EOF
}

// A panic is logged without what it says, and its client sees a cut.
func TestPanic(t *testing.T) {
	g := newRig(t, nil)
	c := config.Default()
	c.Providers = []config.Provider{{Provider: paceline.Provider{Name: "own", BaseURL: "http://own.test/v1"}}}
	tr := &paceline.Transport{Base: panics{}, Limiter: memory.New(), Providers: []paceline.Provider{c.Providers[0].Provider}}
	p, err := proxy.New(proxy.Options{Config: c, Transport: tr, Token: homeToken, Logger: slog.New(slog.NewTextHandler(&g.said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	tr.Route = p.Route
	g.Proxy = p
	g.url = g.serve(t, "127.0.0.1:0")
	if got := g.raw(t, "POST /own/v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+clientKey+"\r\nContent-Length: 2\r\n\r\n{}"); got != "" {
		t.Errorf("got %q", got)
	}
	if s := g.said.String(); !strings.Contains(s, "panicked") || !strings.Contains(s, "panics.RoundTrip") || strings.Contains(s, "CANARY") {
		t.Errorf("logged %s", s)
	}
}

type panics struct{}

func (panics) RoundTrip(r *http.Request) (*http.Response, error) {
	panic(r.Header.Get("Authorization"))
}
