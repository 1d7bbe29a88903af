package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/paceline-proxy/paceline"
)

// A journey is what is known of a request on its way to a provider. It travels
// in the request's context.
type journey struct {
	up      *upstream
	url     *url.URL
	route   paceline.Route
	shape   shape
	headers map[string]string // X-Paceline-… of who calls and how it waits
	stored  bool              // the proxy's own key is used
	foreign bool              // the body's model chose the provider
	plain   bool              // the answer must not be compressed
	body    *body
}

type journeyKey struct{}

func journeyOf(ctx context.Context) *journey {
	j, _ := ctx.Value(journeyKey{}).(*journey)
	return j
}

// pass sends a request to its provider.
func (p *Proxy) pass(w http.ResponseWriter, r *http.Request, s *state, t target, c *caller) {
	j := &journey{shape: asked(r)}
	if f := s.plan(j, r, t, c); f != nil {
		f.write(w, j.shape)
		return
	}
	if (r.Method == http.MethodGet || r.Method == http.MethodHead) && prefixOnly(t.rest) {
		answerPrefix(w, j)
		return
	}
	j.body = &body{ReadCloser: r.Body, deadline: http.NewResponseController(w)}
	r.Body = j.body
	var look *ask
	routes := s.routesByModel(t, c)
	if mayHold(r) && (routes && (c.shown() || c.local && sameUser(r)) || j.up.StreamHeartbeat > 0) {
		if look = j.look(r, s.config.MaxReplayBytes); routes {
			s.byModel(j, look, t)
		}
	}
	if f := s.authorize(j, r, t, c); f != nil {
		f.write(w, j.shape)
		return
	}
	var rw http.ResponseWriter = &answer{w}
	if look != nil && look.Stream && j.up.StreamHeartbeat > 0 {
		beat := newHeartbeat(w, j)
		defer beat.stop()
		rw = beat
	}
	p.forward.ServeHTTP(rw, r.WithContext(context.WithValue(r.Context(), journeyKey{}, j)))
}

// rewrite makes the request that goes out.
func rewrite(pr *httputil.ProxyRequest) {
	j := journeyOf(pr.In.Context())
	out := pr.Out
	u := *j.url
	u.RawQuery, u.ForceQuery = pr.In.URL.RawQuery, pr.In.URL.ForceQuery
	out.URL, out.Host = &u, ""
	h := out.Header
	encodings(h, j.plain)
	delete(h, "Expect")         // the body has been asked for already
	delete(h, "Http2-Settings") // it belongs to the Upgrade that goes no further
	delete(h, "Upgrade")
	delete(h, "Connection")
	if j.stored {
		for _, name := range secretHeaders {
			delete(h, name)
		}
	}
	if j.foreign {
		maps.DeleteFunc(h, func(name string, _ []string) bool { return !harmless(name) })
	}
	for name, value := range j.headers {
		h[name] = []string{value}
	}
}

// secretHeaders carry a client's own secrets.
var secretHeaders = []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key", "Ocp-Apim-Subscription-Key", "Cookie"}

// harmless reports whether a header may go to a provider that its client did
// not name: what describes the body and the API, and nothing that the client
// may have meant for another.
func harmless(name string) bool {
	for _, prefix := range []string{"Accept", "Content-", "X-Paceline-", "X-Stainless-", "Openai-Beta", "Anthropic-Version", "Anthropic-Beta"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return name == "User-Agent" || name == "Idempotency-Key"
}

// encodings cuts Accept-Encoding to what can be looked at on its way: gzip
// where the client takes it, and else nothing.
func encodings(h http.Header, plain bool) {
	value := "identity"
	if plain {
		h["Accept-Encoding"] = []string{value}
		return
	}
	for _, line := range h.Values("Accept-Encoding") {
		for part := range strings.SplitSeq(line, ",") {
			name, q, _ := strings.Cut(part, ";")
			if name = strings.TrimSpace(name); !strings.EqualFold(name, "gzip") && name != "*" {
				continue
			}
			if _, weight, ok := strings.Cut(q, "="); ok {
				if f, err := strconv.ParseFloat(strings.TrimSpace(weight), 64); err != nil || f <= 0 {
					continue
				}
			}
			value = "gzip, identity"
		}
	}
	h["Accept-Encoding"] = []string{value}
}

// respond looks over the head of an answer before it is passed on.
func respond(res *http.Response) error {
	j := journeyOf(res.Request.Context())
	h := res.Header
	if j.stored {
		j.redact(h)
	}
	if eventStream(h) {
		// Servers in between hold streams back, or compress them, otherwise.
		if h.Get("X-Accel-Buffering") == "" {
			h.Set("X-Accel-Buffering", "no")
		}
		if h.Get("Cache-Control") == "" {
			h.Set("Cache-Control", "no-cache, no-transform")
		}
	}
	return nil
}

func eventStream(h http.Header) bool {
	return strings.HasPrefix(strings.ToLower(h.Get("Content-Type")), "text/event-stream")
}

// redact takes the proxy's own key out of an answer's headers: providers have
// been seen to send it back.
func (j *journey) redact(h http.Header) {
	for _, name := range secretHeaders {
		delete(h, name)
	}
	for name, values := range h {
		if slices.ContainsFunc(values, j.holdsKey) {
			delete(h, name)
		}
	}
}

func (j *journey) holdsKey(v string) bool {
	return slices.ContainsFunc(j.up.Credentials, func(c paceline.Credential) bool {
		return c.Key != "" && (strings.Contains(v, c.Key) || strings.Contains(unescaped(v), c.Key))
	})
}

// broken answers for what has no answer.
func (p *Proxy) broken(w http.ResponseWriter, r *http.Request, err error) {
	j := journeyOf(r.Context())
	if r.Context().Err() != nil && j.body.err != errBodyStopped {
		panic(http.ErrAbortHandler) // nobody is there to read an answer
	}
	f := j.explain(err)
	if p.o.Logger != nil && f.status >= 500 {
		p.o.Logger.Warn("a request got no answer", "provider", j.up.Name, "error", err)
	}
	w.Header().Set("X-Paceline-Provider", j.up.Name)
	f.write(w, j.shape)
}

// explain says what a failed request means, and what can be done.
func (j *journey) explain(err error) *failure {
	switch j.body.err {
	case nil, io.EOF:
	case errBodyStopped:
		return &failure{http.StatusRequestTimeout, "paceline_body", fmt.Sprintf("the request's body stopped coming: nothing for %v", bodyWait)}
	default:
		return &failure{http.StatusBadRequest, "paceline_body", "the request's body broke off or is not framed as it should be; nothing was sent to " + j.up.Name}
	}
	var (
		dns  *net.DNSError
		op   *net.OpError
		cert *tls.CertificateVerificationError
		rec  tls.RecordHeaderError
		hard x509.UnknownAuthorityError
		nerr net.Error
	)
	host := j.up.base.Host
	unreachable := func(what string) *failure {
		return &failure{http.StatusBadGateway, "paceline_unreachable", fmt.Sprintf("%s cannot be reached at %s: %s", j.up.Name, host, what)}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &nerr) && nerr.Timeout():
		return &failure{http.StatusGatewayTimeout, "paceline_upstream_timeout", fmt.Sprintf("%s (%s) did not answer in time", j.up.Name, host)}
	case errors.As(err, &dns):
		return unreachable("its name is not found; check the baseURL, and the network")
	case errors.As(err, &hard), errors.As(err, &cert):
		return unreachable("its certificate is not trusted; where a company's proxy stands between, name its certificates: upstream: {caFile: PATH}")
	case errors.As(err, &rec):
		return unreachable("it does not speak TLS there; write http:// in its baseURL if that is meant")
	case errors.Is(err, syscall.ECONNREFUSED):
		return unreachable("the connection was refused; is it running, and is the port right?")
	case errors.As(err, &op) && op.Op == "dial":
		return unreachable("no connection could be made; check the network, and upstream: {proxy: …} where one is needed")
	case errors.As(err, &op), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &failure{http.StatusBadGateway, "paceline_lost", fmt.Sprintf("the connection to %s (%s) was lost before an answer came", j.up.Name, host)}
	}
	return &failure{http.StatusBadGateway, "paceline_failed", fmt.Sprintf("the request to %s failed: %v", j.up.Name, err)}
}

// errBodyStopped is why a request's body is given up.
var errBodyStopped = errors.New("the request's body stopped coming")

// A body is a request's, which remembers how reading it ended and does not
// wait for ever.
type body struct {
	io.ReadCloser
	deadline *http.ResponseController
	err      error
}

func (b *body) Read(p []byte) (int, error) {
	// Not every ResponseWriter has deadlines; those of net/http do.
	b.deadline.SetReadDeadline(time.Now().Add(bodyWait))
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		if nerr := net.Error(nil); errors.As(err, &nerr) && nerr.Timeout() {
			err = errBodyStopped
		}
		b.err = err
	}
	if err == io.EOF {
		// From here on the server listens for the client leaving.
		b.deadline.SetReadDeadline(time.Time{})
	}
	return n, err
}

// An answer is the ResponseWriter of an answer that is passed on. Provisional
// ones end here: clients have taken a 103 for the answer itself.
type answer struct{ http.ResponseWriter }

func (a *answer) WriteHeader(status int) {
	if status >= 200 {
		a.ResponseWriter.WriteHeader(status)
	}
}

func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// buffers are what answers are copied through.
type buffers struct{}

const bufferSize = 32 << 10

var pool = sync.Pool{New: func() any { return new([bufferSize]byte) }}

func (buffers) Get() []byte  { return pool.Get().(*[bufferSize]byte)[:] }
func (buffers) Put(b []byte) { pool.Put((*[bufferSize]byte)(b)) }
