// Package proxy is the HTTP surface: it finds out who calls and where a
// request is to go, hands it to a paceline.Transport, and passes the answer on
// byte for byte. It decides nothing about limits.
package proxy

import (
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/internal/config"
)

// Options are what a Proxy is made of.
type Options struct {
	// Config says who may call and which providers there are. nil is
	// config.Default().
	Config *config.Config
	// Transport sends the requests. Its Route and OnWait are to be the Proxy's,
	// and its Log to call the Proxy's.
	Transport *paceline.Transport
	// Token is the home's own: whoever shows it is its owner.
	Token string
	// Version is shown by /health.
	Version string
	// Status is what GET /stats answers. nil is the Transport's.
	Status func() any
	// Control is asked by POST /control/… for what only the daemon can do.
	Control Control
	// Collectors are metrics that /metrics shows beside the Proxy's own.
	Collectors []prometheus.Collector
	// Logger hears of what is wrong. nil is silence.
	Logger *slog.Logger
}

// Control is what a daemon does when it is told to.
type Control interface {
	// Reload reads the configuration again; an error changes nothing.
	Reload() error
	// Stop begins to drain and returns.
	Stop()
	// SetMode sets the mode of one provider, or of all where it is empty.
	SetMode(provider string, mode config.Mode) error
}

// A Proxy is the http.Handler of the daemon.
type Proxy struct {
	o        Options
	state    atomic.Pointer[state]
	draining atomic.Bool
	metrics  *metrics
	waits    waits
	door     door
}

// New returns a Proxy.
func New(o Options) (*Proxy, error) {
	if o.Transport == nil {
		return nil, errors.New("proxy: no Transport")
	}
	if o.Config == nil {
		o.Config = config.Default()
	}
	if o.Status == nil {
		o.Status = func() any { return map[string]any{"version": o.Version, "callers": o.Transport.Status()} }
	}
	p := &Proxy{o: o, metrics: newMetrics(o.Transport, o.Collectors)}
	return p, p.SetConfig(o.Config)
}

// SetConfig takes a new configuration for the requests that follow. An error
// changes nothing.
func (p *Proxy) SetConfig(c *config.Config) error {
	s, err := compile(c, p.o.Token)
	if err == nil {
		p.state.Store(s)
	}
	return err
}

// Drain makes /ready answer 503. The Transport is drained by its owner.
func (p *Proxy) Drain() { p.draining.Store(true) }

// Log counts a record for /metrics.
func (p *Proxy) Log(r paceline.Record) { p.metrics.count(&r) }

// OnWait notes a request that waits, for who asks: the Transport's OnWait.
func (p *Proxy) OnWait(w *paceline.Wait) { p.waits.note(w) }

// Route says where a request goes that ServeHTTP has sent on its way: the
// Transport's Route.
func (p *Proxy) Route(r *http.Request) ([]paceline.Route, error) {
	if j := journeyOf(r.Context()); j != nil {
		return []paceline.Route{j.route}, nil
	}
	return nil, errors.New("the request did not come through the proxy")
}

// What a server bears of its clients.
const (
	headerWait = 30 * time.Second // for a request's headers
	idleWait   = 10 * time.Minute // for the next request of a connection
	bodyWait   = time.Minute      // for the next bytes of a request's body
	maxHeader  = 256 << 10
)

// Server returns an http.Server for the Proxy, with its bounds: HTTP/1.1 and
// h2c, as their clients begin. Its listeners are the owner's.
func (p *Proxy) Server() *http.Server {
	s := &http.Server{
		Handler:           p,
		ConnContext:       ConnContext,
		ReadHeaderTimeout: headerWait,
		IdleTimeout:       idleWait,
		MaxHeaderBytes:    maxHeader,
		Protocols:         new(http.Protocols),
		ErrorLog:          log.New(io.Discard, "", 0), // it would show what clients send
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	return s
}

// ServeHTTP is the life of a request: its form, its path, its caller, and then
// an answer of the proxy's own or the way to a provider.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer p.panicked()
	if r.ProtoMajor == 1 && (r.ProtoMinor == 0 || len(r.TransferEncoding) > 0) {
		// Its framing may have been said in two ways, of which net/http shows
		// one: whatever follows on the connection may be no request.
		w.Header().Set("Connection", "close")
	}
	if r.ContentLength != 0 {
		// A body that nobody reads is waited for by the server.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyWait))
	}
	if f := formOf(r); f != nil {
		f.write(w, asked(r))
		return
	}
	t, err := parsePath(r.URL.EscapedPath())
	if err != nil {
		(&failure{http.StatusBadRequest, "paceline_path", err.Error()}).write(w, asked(r))
		return
	}
	if bare(t.rest) && p.health(w, r, t.name) {
		return
	}
	s := p.state.Load()
	c, f := s.identify(r, t)
	if f == nil {
		f = s.admit(r, &c)
	}
	if f != nil {
		f.write(w, asked(r))
		return
	}
	switch {
	case t.name == "control":
		p.control(w, r, t.rest, c.home)
	case t.name == "door":
		p.serveDoor(w, r, s, t, &c)
	case bare(t.rest) && p.page(w, r, s, t):
	default:
		p.pass(w, r, s, t, &c)
	}
}

// panicked logs what would else be seen by nobody. What the panic says may be
// of what clients send; where it came from is not.
func (p *Proxy) panicked() {
	switch v := recover(); v {
	case nil:
	case http.ErrAbortHandler:
		panic(v) // the server cuts the answer
	default:
		if p.o.Logger != nil {
			p.o.Logger.Error("a request panicked", "panic", fmt.Sprintf("%T", v), "stack", string(debug.Stack()))
		}
		panic(http.ErrAbortHandler)
	}
}

// bare reports whether nothing follows a prefix.
func bare(rest string) bool { return rest == "" || rest == "/" }

// formOf refuses requests that are not for an HTTP API behind a path.
func formOf(r *http.Request) *failure {
	switch {
	case r.Method == http.MethodConnect, r.URL.Host != "":
		return &failure{http.StatusBadRequest, "paceline_forward_proxy",
			"paceline is no forward proxy (HTTP_PROXY): set the base URL of the API to it instead, such as OPENAI_BASE_URL=http://localhost:8790/openai/v1"}
	case r.Method == http.MethodTrace:
		return &failure{http.StatusNotImplemented, "paceline_method", "paceline passes no TRACE on: the answer would show the key that the request is sent with"}
	case r.ProtoMajor == 1 && r.ProtoMinor == 0 && r.Header["Content-Length"] == nil && (r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch):
		// It may have a Transfer-Encoding, which net/http takes no notice of.
		return &failure{http.StatusBadRequest, "paceline_body", "a request of HTTP/1.0 says with Content-Length how long its body is: send that, or HTTP/1.1"}
	case tokenListed(r.Header.Values("Upgrade"), "websocket"):
		return &failure{http.StatusUpgradeRequired, "paceline_websocket",
			"paceline carries no WebSockets: send the request over HTTP, with \"stream\": true for events"}
	case r.URL.Path == "" || r.URL.Path[0] != '/':
		return &failure{http.StatusBadRequest, "paceline_path", "the request's path does not begin with a slash"}
	}
	return nil
}

// tokenListed reports whether a header lists a name.
func tokenListed(values []string, name string) bool {
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(part), name) {
				return true
			}
		}
	}
	return false
}
