package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/internal/config"
	"github.com/paceline-proxy/paceline/internal/proxy"
	"github.com/paceline-proxy/paceline/limiter/memory"
)

const (
	homeToken = "pcl_home0123456789"
	storedKey = "sk-stored-CANARY-0123456789"
	clientKey = "sk-client-CANARY-9876543210"
)

// A rig is a proxy on a real socket in front of a provider on another.
type rig struct {
	*proxy.Proxy
	url       string
	transport *paceline.Transport
	provider  *httptest.Server

	mu      sync.Mutex
	arrived []*http.Request // with their bodies read
	bodies  []string
	records []paceline.Record
	control control
	said    lockedBuffer // its log, and the Transport's
}

// A lockedBuffer is written by one goroutine and read by another.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// control notes what it was asked for.
type control struct {
	mode     config.Mode
	provider string
	reloads  int
	stopped  bool
	err      error
}

func (c *control) Reload() error { c.reloads++; return c.err }
func (c *control) Stop()         { c.stopped = true }
func (c *control) SetMode(provider string, m config.Mode) error {
	c.provider, c.mode = provider, m
	return c.err
}

// newRig puts a proxy in front of a handler. Its configuration has the
// provider "own", whose key the clients bring, and "stored", whose key the
// proxy has, both at that handler; change edits it.
func newRig(t *testing.T, h http.HandlerFunc, change ...func(*config.Config)) *rig {
	t.Helper()
	g := &rig{}
	if h == nil {
		h = func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"ok":true}`) }
	}
	g.provider = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Unread") == "" {
			b, _ := io.ReadAll(r.Body)
			g.mu.Lock()
			g.arrived, g.bodies = append(g.arrived, r), append(g.bodies, string(b))
			g.mu.Unlock()
			r.Body = io.NopCloser(strings.NewReader(string(b)))
		}
		h(w, r)
	}))
	t.Cleanup(g.provider.Close)
	c := config.Default()
	c.DefaultProvider = config.DefaultProvider{OpenAI: "own", Anthropic: "claude"}
	entry := func(name string) config.Provider {
		return config.Provider{Provider: paceline.Provider{Name: name, BaseURL: g.provider.URL + "/v1", Retry: paceline.Retry{Base: time.Millisecond}}}
	}
	stored := entry("stored")
	stored.Credentials = []paceline.Credential{{Name: "stored", Key: storedKey}}
	claude := entry("claude")
	claude.BaseURL, claude.Dialect = g.provider.URL, "anthropic"
	c.Providers = []config.Provider{entry("own"), stored, claude}
	c.Tokens = []config.Token{
		{Name: "batch", Value: "pcl_batch0123456789", Priority: "background", Providers: []string{"own"}},
		{Name: "team", Value: "pcl_team0123456789"},
	}
	for _, f := range change {
		f(c)
	}
	logger := slog.New(slog.NewTextHandler(&g.said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	tr := &paceline.Transport{
		Logger:  logger,
		Base:    &http.Transport{DisableCompression: true},
		Limiter: memory.New(),
		Log: func(r paceline.Record) {
			g.mu.Lock()
			g.records = append(g.records, r)
			g.mu.Unlock()
			g.Proxy.Log(r)
		},
	}
	for _, p := range c.Providers {
		tr.Providers = append(tr.Providers, p.Provider)
	}
	p, err := proxy.New(proxy.Options{Config: c, Transport: tr, Token: homeToken, Version: "test", Control: &g.control, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	g.Proxy, g.transport, tr.Route = p, tr, p.Route
	g.url = g.serve(t, "127.0.0.1:0")
	return g
}

// serve listens at another address and returns its URL.
func (g *rig) serve(t *testing.T, addr string) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Skipf("cannot listen at %s: %v", addr, err)
	}
	s := g.Server()
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return "http://" + l.Addr().String()
}

// last is the request that arrived last, nil where none did.
func (g *rig) last() (*http.Request, string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.arrived) == 0 {
		return nil, ""
	}
	return g.arrived[len(g.arrived)-1], g.bodies[len(g.bodies)-1]
}

func (g *rig) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.arrived)
}

// A reply is an answer that has been read.
type reply struct {
	*http.Response
	body string
}

// do sends a request whose headers are given in pairs.
func (g *rig) do(t *testing.T, method, path, body string, headers ...string) reply {
	t.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	url := path
	if strings.HasPrefix(path, "/") {
		url = g.url + path
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, in)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	tr := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	res, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: reading the answer: %v", method, path, err)
	}
	return reply{res, string(b)}
}

// raw sends bytes and returns everything that comes until the proxy closes.
func (g *rig) raw(t *testing.T, sent string) string {
	t.Helper()
	c := g.dial(t)
	if _, err := io.WriteString(c, sent); err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(c)
	return string(b)
}

func (g *rig) dial(t *testing.T) net.Conn {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

// chat is a request for inference.
const chat = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`

// flush writes what a handler has written so far.
func flush(w http.ResponseWriter) { w.(http.Flusher).Flush() }

// lines reads an answer line by line into a channel, each with its line end.
func lines(r io.Reader) <-chan string {
	ch := make(chan string, 1000)
	go func() {
		defer close(ch)
		b := bufio.NewReader(r)
		for {
			s, err := b.ReadString('\n')
			if s != "" {
				ch <- s
			}
			if err != nil {
				return
			}
		}
	}()
	return ch
}
