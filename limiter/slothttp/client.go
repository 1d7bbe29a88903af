package slothttp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// Options say how a limiter is reached. The zero value is for one that needs
// neither a secret nor settings.
type Options struct {
	// Secret is shown as a bearer token. Empty: the password in the URL, if it
	// has one.
	Secret string
	// Settings are what open brings.
	Settings map[string]string
	// Concurrent has calls not wait for each other. Without it one is made at a
	// time: the protocol asks no more of a limiter, and batches carry the load.
	Concurrent bool
	// Exclusive says that nobody else uses the limiter: Close closes it, too.
	Exclusive bool
	// Closed is called at the end of the first Close. It may be nil.
	Closed func() error
	// Name is what errors call the limiter. Empty: "the limiter at" its URL.
	Name string
	// Down is what errors advise where nobody answers. Empty: to start it.
	Down string
	// HTTP makes the requests. nil is a client of its own. It is not used for
	// unix sockets.
	HTTP *http.Client
}

// A Client is a limiter at a URL. Its methods fail with an [*Error].
//
// What the other side cannot do fails with errors.ErrUnsupported; Limiter
// returns a limiter that does not have those methods. A limiter that has
// restarted is opened anew.
type Client struct {
	options Options
	at      atomic.Pointer[target]
	turn    chan struct{} // holds a token while a call is made; nil: see Options.Concurrent
	closed  atomic.Bool
	can     map[string]bool // what of the optional methods there is
}

// A target is where calls go.
type target struct {
	url, secret string
	name, down  string // in errors
	http        *http.Client
	own         bool // http is this client's
}

// leave gives up the connections.
func (t *target) leave() {
	if t.own {
		t.http.CloseIdleConnections()
	}
}

var (
	_ limiter.Limiter = (*Client)(nil)
	_ limiter.Batcher = (*Client)(nil)
	_ limiter.Settler = (*Client)(nil)
	_ limiter.Renewer = (*Client)(nil)
	_ limiter.Opener  = (*Client)(nil)
	_ limiter.Peeker  = (*Client)(nil)
	_ limiter.Seeder  = (*Client)(nil)
	_ limiter.Blobs   = (*Client)(nil)
	_ io.Closer       = (*Client)(nil)
)

// Dial opens the limiter at a URL: http://HOST:PORT, https://… or unix:PATH.
// It fails where nothing there speaks the protocol.
func Dial(ctx context.Context, at string, o Options) (*Client, error) {
	c := &Client{options: o, can: make(map[string]bool)}
	if err := c.Move(at); err != nil {
		return nil, err
	}
	if !o.Concurrent {
		c.turn = make(chan struct{}, 1)
	}
	if err := c.discover(ctx); err != nil {
		c.at.Load().leave()
		return nil, err
	}
	return c, nil
}

// discover opens the limiter and finds out what it can do.
func (c *Client) discover(ctx context.Context) error {
	if err := c.open(ctx); err != nil {
		return err
	}
	// A method is there unless its name is unknown: none of these does anything.
	for _, probe := range []struct{ method, params string }{
		{"acquireBatch", `{"requests":[]}`},
		{"settle", `{"permit":"","costs":[]}`},
		{"renew", `{"permits":[],"holdMs":1}`},
		{"openKey", `{"key":""}`},
		{"peek", `{"key":"","limits":[]}`},
		{"seed", `{"limits":[],"agoMs":0}`},
		{"get", `{"key":""}`},
	} {
		_, err := c.ask(ctx, probe.method, []byte(probe.params))
		if e, ok := errors.AsType[*Error](err); ok && e.Code != InvalidParams && e.Code != UnknownMethod {
			return err
		}
		c.can[probe.method] = !errors.Is(err, errors.ErrUnsupported)
	}
	return nil
}

// Move has the client go on at another URL, where the same limiter runs now.
// It asks nothing yet.
func (c *Client) Move(at string) error {
	t, err := c.options.target(at)
	if err != nil {
		return err
	}
	if before := c.at.Swap(t); before != nil {
		before.leave()
	}
	return nil
}

// target makes sense of a URL. Its errors do not repeat it: it may hold the
// secret.
func (o Options) target(at string) (*target, error) {
	t := &target{secret: o.Secret, name: o.Name, down: cmp.Or(o.Down, "start it, or correct its address"), http: o.HTTP}
	transport := &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second}
	shown := at
	if path, ok := strings.CutPrefix(at, "unix:"); ok {
		if path == "" {
			return nil, errors.New("a limiter's URL is unix: without a path: write unix:PATH of its socket")
		}
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}
		t.url, t.http = "http://limiter/", nil
	} else {
		u, err := url.Parse(at)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, errors.New("a limiter's URL is none: write http://HOST:PORT, https://HOST or unix:PATH")
		}
		if password, ok := u.User.Password(); ok && t.secret == "" {
			t.secret = password
		}
		u.User, u.Fragment = nil, ""
		t.url = u.String()
		u.RawQuery = ""
		shown = u.String()
		transport.Proxy = http.ProxyFromEnvironment
	}
	if t.name == "" {
		t.name = "the limiter at " + shown
	}
	if t.http == nil {
		t.own = true
		// Where a redirect leads our secret has no business.
		t.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return t, nil
}

func (c *Client) open(ctx context.Context) error {
	settings := c.options.Settings
	if settings == nil {
		settings = map[string]string{}
	}
	params, err := json.Marshal(map[string]any{"settings": settings})
	if err != nil {
		return fmt.Errorf("opening a limiter: %w", err)
	}
	_, err = c.ask(ctx, "open", params)
	return err
}

// Close ends the client: every method fails from now on. The limiter goes on
// for its other hosts, unless Options say that there are none.
func (c *Client) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	var err error
	if c.options.Exclusive {
		ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
		defer cancel()
		_, err = c.ask(ctx, "close", nothing)
		if e, ok := errors.AsType[*Error](err); ok && e.Retryable && e.Code == "" {
			err = nil // it is not there any more
		}
	}
	c.at.Load().leave()
	if c.options.Closed != nil {
		err = errors.Join(err, c.options.Closed())
	}
	return err
}

// closeWithin bounds how long a limiter may take for closing.
const closeWithin = 5 * time.Second

// do makes a call, and opens the limiter again where it has forgotten that it
// was: it may have restarted.
func (c *Client) do(ctx context.Context, method string, params []byte) (value, error) {
	if c.closed.Load() {
		return nil, &Error{Limiter: c.at.Load().name, Method: method, err: errors.New("this client is closed")}
	}
	if can, optional := c.can[method]; optional && !can {
		return nil, &Error{Limiter: c.at.Load().name, Method: method, Code: UnknownMethod,
			err: said{"it has no such method", errors.ErrUnsupported}}
	}
	result, err := c.ask(ctx, method, params)
	if e, ok := errors.AsType[*Error](err); ok && e.Code == NotOpen {
		if err := c.open(ctx); err != nil {
			return nil, err
		}
		return c.ask(ctx, method, params)
	}
	return result, err
}

// ask makes one call.
func (c *Client) ask(ctx context.Context, method string, params []byte) (value, error) {
	body := append(make([]byte, 0, len(params)+80), `{"protocolVersion":"2","method":"`...)
	body = append(append(body, method...), `","params":`...)
	body = append(append(body, params...), '}')
	if c.turn != nil {
		select {
		case c.turn <- struct{}{}:
			defer func() { <-c.turn }()
		case <-ctx.Done():
			return nil, c.at.Load().unreached(ctx, method, ctx.Err())
		}
	}
	return c.at.Load().post(ctx, method, body)
}

// Health asks the limiter at a URL whether it runs. It needs no secret.
func Health(ctx context.Context, at string) error {
	t, err := Options{}.target(at)
	if err != nil {
		return err
	}
	defer t.leave()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(t.url, "/")+"/health", nil)
	if err != nil {
		return fmt.Errorf("asking for the health of a limiter: %w", err)
	}
	resp, err := t.http.Do(req)
	if err != nil {
		return t.unreached(ctx, "GET /health", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return t.status("GET /health", resp.StatusCode, nil)
	}
	return nil
}

// post makes one call of what is there.
func (t *target) post(ctx context.Context, method string, body []byte) (value, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("calling %s of a limiter: %w", method, err)
	}
	req.Header.Set("Content-Type", "application/json")
	if t.secret != "" {
		req.Header.Set("Authorization", "Bearer "+t.secret)
	}
	resp, err := t.http.Do(req)
	if err != nil {
		return nil, t.unreached(ctx, method, err)
	}
	defer resp.Body.Close()
	b, err := readAll(io.LimitReader(resp.Body, mostBytes+1), resp.ContentLength)
	if err != nil {
		return nil, t.unreached(ctx, method, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, t.status(method, resp.StatusCode, b)
	}
	return t.result(method, b)
}

// status is an answer that is no 200: a fault of the transport, whatever its
// body says.
func (t *target) status(method string, status int, body []byte) *Error {
	says := fmt.Sprintf("HTTP %d %s", status, http.StatusText(status))
	if text := clean(string(body[:min(len(body), 1000)])); text != "" {
		says += ": " + text
	}
	e := &Error{Limiter: t.name, Method: method, Retryable: true, err: errors.New(says)}
	switch {
	case status >= 500:
		e.Advice = "see its log"
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		e.Advice = showSecret
	default:
		e.Advice = "is this the URL of a limiter of adapter protocol 2?"
	}
	return e
}

// result reads an answer.
func (t *target) result(method string, b []byte) (value, error) {
	if len(b) > mostBytes {
		return nil, t.nonsense(method, "the answer is larger than %d MiB", mostBytes>>20)
	}
	var ok, result, failed value
	if answer := parse(b); answer.is('{') {
		for name, v := range answer.fields() {
			switch string(name) {
			case "ok":
				ok = v
			case "result":
				result = v
			case "error":
				failed = v
			}
		}
	}
	switch string(ok) {
	case "true":
		if !result.is('{') {
			return nil, t.nonsense(method, "the result is no object")
		}
		return result, nil
	case "false":
		var f fault
		if json.Unmarshal(failed, &f) != nil || f.Code == "" {
			return nil, t.nonsense(method, "it failed and does not say why")
		}
		return nil, t.blamed(method, f)
	}
	return nil, t.nonsense(method, "the answer is not one of the protocol: %q", clean(string(b[:min(len(b), 200)])))
}
