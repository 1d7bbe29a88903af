package home

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// A NotRunning error says that there is no proxy to talk to.
type NotRunning struct {
	// Where it was looked for, and how that was known; empty where nothing was
	// recorded.
	Where string
	Err   error
}

func (e *NotRunning) Error() string {
	if e.Where == "" {
		return "no proxy runs for this home; start one with paceline serve"
	}
	return fmt.Sprintf("no proxy answers at %s; start one with paceline serve: %v", e.Where, e.Err)
}

func (e *NotRunning) Unwrap() error { return e.Err }

// A Refusal is what the proxy answered instead of doing what it was asked.
type Refusal struct {
	Status  int
	Message string
}

func (e *Refusal) Error() string { return "the proxy refuses: " + e.Message }

// A Client talks to the proxy of a home: the one PACELINE_URL names, else the
// one at PACELINE_PORT, else the one in server.json.
type Client struct {
	home   Home
	server *Server // the one to talk to, if it is known
}

// Client returns a client of the home's proxy. Nothing is asked yet.
func (h Home) Client() *Client { return &Client{home: h} }

// ClientOf returns a client of one proxy of the home, whatever the environment
// says.
func (h Home) ClientOf(s Server) *Client { return &Client{h, &s} }

// An Endpoint is where a proxy is reached.
type Endpoint struct {
	// URL has no path and no slash at its end.
	URL string
	// From says how it is known: PACELINE_URL, PACELINE_PORT or the path of
	// server.json.
	From string
	host string // unix:PATH where it is no network
}

// Endpoint finds the proxy without asking it anything.
func (c *Client) Endpoint() (Endpoint, error) {
	if c.server != nil {
		return c.recorded(*c.server), nil
	}
	if v := os.Getenv("PACELINE_URL"); v != "" {
		u, err := url.Parse(v)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return Endpoint{}, fmt.Errorf("PACELINE_URL is %q: give a URL such as http://localhost:8790", v)
		}
		return Endpoint{URL: strings.TrimRight(v, "/"), From: "PACELINE_URL"}, nil
	}
	if v := os.Getenv("PACELINE_PORT"); v != "" {
		if n, err := strconv.Atoi(v); err != nil || n < 1 || n > 65535 {
			return Endpoint{}, fmt.Errorf("PACELINE_PORT is %q: give a number from 1 to 65535", v)
		}
		return Endpoint{URL: "http://" + net.JoinHostPort("127.0.0.1", v), From: "PACELINE_PORT"}, nil
	}
	s, err := c.home.Recorded()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Endpoint{}, &NotRunning{}
	case err != nil:
		return Endpoint{}, fmt.Errorf("%w; paceline serve writes it anew", err)
	}
	return c.recorded(s), nil
}

func (c *Client) recorded(s Server) Endpoint {
	return Endpoint{URL: s.URL(), From: c.home.ServerFile(), host: s.Host}
}

// Recorded reports whether the proxy was found by the home's server.json.
func (e Endpoint) Recorded() bool { return e.host != "" }

// local reports whether the endpoint is on this machine: the home's token goes
// nowhere else.
func (e Endpoint) local() bool {
	u, err := url.Parse(e.URL)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return e.Recorded() || u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// Status reads GET /stats into out.
func (c *Client) Status(ctx context.Context, out any) error {
	return c.Call(ctx, http.MethodGet, "/stats", nil, out)
}

// Control asks for POST /control/NAME with in as JSON, and reads the answer
// into out. Either may be nil.
func (c *Client) Control(ctx context.Context, name string, in, out any) error {
	if in == nil {
		in = struct{}{}
	}
	return c.Call(ctx, http.MethodPost, "/control/"+name, in, out)
}

// Call makes one request of the proxy, with the home's token, and reads the
// JSON of its answer into out; a *[]byte gets it as it is. The errors are
// *[NotRunning], *[Refusal] and those of the context.
func (c *Client) Call(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	header := make(http.Header)
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
		header.Set("Content-Type", "application/json")
	}
	resp, err := c.do(ctx, method, path, header, body, headWithin)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return fmt.Errorf("reading the proxy's answer: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		return &Refusal{resp.StatusCode, Message(resp, b)}
	}
	switch out := out.(type) {
	case nil:
		return nil
	case *[]byte:
		*out = b
		return nil
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("what answers at %s is no paceline, or another version of it: %w", resp.Request.URL, err)
	}
	return nil
}

// headWithin is how long the proxy has for an answer of its own.
const headWithin = 30 * time.Second

// Send makes one request through the proxy, with the home's token, and returns
// its answer, whose body must be closed. It waits for as long as the proxy does.
// path is escaped and begins with a slash; header is taken over. The errors are
// *[NotRunning] and those of the context.
func (c *Client) Send(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	return c.do(ctx, method, path, header, body, 0)
}

func (c *Client) do(ctx context.Context, method, path string, header http.Header, body []byte, within time.Duration) (*http.Response, error) {
	at, err := c.Endpoint()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, at.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = header
	if at.local() {
		token, err := c.home.ReadToken()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if token != "" {
			header.Set("X-Paceline-Token", token)
		}
	}
	resp, err := httpClient(at.host, within).Do(req)
	if err == nil {
		return resp, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return nil, &NotRunning{Where: fmt.Sprintf("%s (from %s)", at.URL, at.From), Err: err}
}

// Message is what an answer says went wrong.
func Message(resp *http.Response, b []byte) string {
	var e struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	if json.Unmarshal(b, &e) == nil {
		var inner struct {
			Message string `json:"message"`
		}
		var text string
		if json.Unmarshal(e.Error, &inner) != nil {
			_ = json.Unmarshal(e.Error, &text)
		}
		if m := cmp.Or(inner.Message, text, e.Message); m != "" {
			return m
		}
	}
	return cmp.Or(strings.TrimSpace(string(b[:min(len(b), 300)])), resp.Status)
}

// httpClient reaches a host, or a socket where it is unix:PATH, for one request.
func httpClient(host string, within time.Duration) *http.Client {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, ResponseHeaderTimeout: within, DisableKeepAlives: true}
	if path, ok := strings.CutPrefix(host, unixPrefix); ok {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}
	}
	// Where a provider's redirect leads our token has no business.
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}
