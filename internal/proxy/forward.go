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
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/dialect"
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
	if look != nil && look.Stream && j.up.StreamHeartbeat > 0 {
		beat := newHeartbeat(w, j)
		defer beat.stop()
		w = beat
	}
	p.forward(w, r, j)
}

// forward sends the request and passes the answer on. It does what
// httputil.ReverseProxy does, for a proxy that upgrades no connection and passes
// no provisional answers on.
func (p *Proxy) forward(w http.ResponseWriter, r *http.Request, j *journey) {
	defer j.body.leave()
	out := r.WithContext(context.WithValue(r.Context(), journeyKey{}, j))
	u := *j.url
	u.RawQuery, u.ForceQuery = r.URL.RawQuery, r.URL.ForceQuery
	out.URL, out.Host, out.Close, out.Header = &u, "", false, j.outgoing(r.Header)
	out.Trailer = nil // nobody has looked for secrets in it
	if r.ContentLength == 0 {
		out.Body = nil
	}
	res, err := p.o.Transport.RoundTrip(out)
	if err == nil && res.StatusCode < 200 {
		res.Body.Close()
		err = fmt.Errorf("it answered with the status %d, for which nobody asked", res.StatusCode)
	}
	if err != nil {
		p.broken(w, out, j, err)
		return
	}
	respond(w, out, res, j)
}

// outgoing are the headers that go out.
func (j *journey) outgoing(in http.Header) http.Header {
	h := make(http.Header, len(in)+len(j.headers)+2)
	for name, values := range in {
		if hops[name] || forwarding[name] || j.stored && slices.Contains(secretHeaders, name) || j.foreign && !harmless(name) {
			continue
		}
		h[name] = values
	}
	dropListed(h, in["Connection"])
	encodings(h, in["Accept-Encoding"], j.plain)
	if tokenListed(in["Te"], "trailers") && !j.foreign {
		h["Te"] = []string{"trailers"}
	}
	if h["User-Agent"] == nil {
		h["User-Agent"] = []string{""} // else net/http adds its own
	}
	for name, value := range j.headers {
		h[name] = []string{value}
	}
	return h
}

// hops are headers of one connection, which go no further.
var hops = map[string]bool{
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true, "Proxy-Authorization": true,
	"Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// forwarding are headers that do not go on to a provider: what others say of a
// request's way here, what has been answered already, and what belongs to an
// upgrade.
var forwarding = map[string]bool{
	"Forwarded": true, "X-Forwarded-For": true, "X-Forwarded-Host": true, "X-Forwarded-Proto": true,
	"Expect": true, "Http2-Settings": true,
}

// dropListed takes out the headers that a Connection header declares to be of
// its connection.
func dropListed(h http.Header, connection []string) {
	for _, line := range connection {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.TrimSpace(name); name != "" {
				h.Del(name)
			}
		}
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
func encodings(h http.Header, accepted []string, plain bool) {
	value := "identity"
	if plain {
		accepted = nil
	}
	for _, line := range accepted {
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

// respond passes an answer on.
func respond(w http.ResponseWriter, r *http.Request, res *http.Response, j *journey) {
	dropListed(res.Header, res.Header["Connection"])
	unbuffered(res.Header)
	head := w.Header()
	head["Content-Type"] = nil // else net/http guesses one
	for name, values := range res.Header {
		if !hops[name] {
			head[name] = values
		}
	}
	if len(res.Trailer) > 0 {
		head["Trailer"] = slices.Collect(maps.Keys(res.Trailer))
	}
	w.WriteHeader(res.StatusCode)
	control := http.NewResponseController(w)
	if (res.ContentLength == -1 || eventStream(res.Header)) && res.Body != http.NoBody {
		_ = control.Flush() // the head; writing what follows tells whether the client is there
	}
	if err := copyBody(w, res.Body, res.ContentLength, control); err != nil {
		res.Body.Close()
		cut(control, r)
	}
	res.Body.Close() // it has the trailers then
	if len(res.Trailer) == 0 {
		return
	}
	_ = control.Flush() // what is not chunked has no trailers
	if j.stored {
		for _, c := range j.up.Credentials {
			dialect.HideKey(res.Trailer, c.Key)
		}
	}
	head = w.Header()
	for name, values := range res.Trailer {
		delete(head, name) // the header of that name has gone out
		head[http.TrailerPrefix+name] = values
	}
}

// copyBody copies an answer of so many bytes, or of nobody knows how many where
// left is negative, each piece of it to the client at once. The last the server
// flushes itself.
func copyBody(w io.Writer, body io.Reader, left int64, control *http.ResponseController) error {
	buf := pool.Get().(*[bufferSize]byte)
	defer pool.Put(buf)
	for {
		n, err := body.Read(buf[:])
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			if left -= int64(n); left != 0 {
				if err := control.Flush(); err != nil {
					return err
				}
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// cut ends an answer so that its client sees that it was cut.
func cut(control *http.ResponseController, r *http.Request) {
	if !r.ProtoAtLeast(1, 1) {
		// There, an answer without a length ends with its connection, in
		// whatever way that is closed.
		if conn, _, err := control.Hijack(); err == nil {
			if tcp, ok := conn.(*net.TCPConn); ok {
				tcp.SetLinger(0) // a reset
			}
			conn.Close()
		}
	}
	panic(http.ErrAbortHandler)
}

// unbuffered asks servers in between to pass a stream on as it comes: they
// hold it back, or compress it, otherwise.
func unbuffered(h http.Header) {
	if !eventStream(h) {
		return
	}
	if h.Get("X-Accel-Buffering") == "" {
		h.Set("X-Accel-Buffering", "no")
	}
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-cache, no-transform")
	}
}

func eventStream(h http.Header) bool {
	return strings.HasPrefix(strings.ToLower(h.Get("Content-Type")), "text/event-stream")
}

// broken answers for what has no answer.
func (p *Proxy) broken(w http.ResponseWriter, r *http.Request, j *journey, err error) {
	if r.Context().Err() != nil && j.body.ended() != errBodyStopped {
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
	switch j.body.ended() {
	case nil, io.EOF:
	case errBodyStopped:
		return &failure{http.StatusRequestTimeout, "paceline_body", fmt.Sprintf("the request's body stopped coming: nothing for %v", bodyWait)}
	default:
		return &failure{http.StatusBadRequest, "paceline_body", "the request's body broke off or is not framed as it should be; nothing was sent to " + j.up.Name}
	}
	host := j.up.base.Host
	unreachable := func(what string) *failure {
		return &failure{http.StatusBadGateway, "paceline_unreachable", fmt.Sprintf("%s cannot be reached at %s: %s", j.up.Name, host, what)}
	}
	op, operation := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded), timedOut(err):
		return &failure{http.StatusGatewayTimeout, "paceline_upstream_timeout", fmt.Sprintf("%s (%s) did not answer in time", j.up.Name, host)}
	case is[*net.DNSError](err):
		return unreachable("its name is not found; check the baseURL, and the network")
	case is[x509.UnknownAuthorityError](err), is[*tls.CertificateVerificationError](err):
		return unreachable("its certificate is not trusted; where a company's proxy stands between, name its certificates: upstream: {caFile: PATH}")
	case is[tls.RecordHeaderError](err):
		return unreachable("it does not speak TLS there; write http:// in its baseURL if that is meant")
	case errors.Is(err, syscall.ECONNREFUSED):
		return unreachable("the connection was refused; is it running, and is the port right?")
	case operation && op.Op == "dial":
		return unreachable("no connection could be made; check the network, and upstream: {proxy: …} where one is needed")
	case operation, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &failure{http.StatusBadGateway, "paceline_lost", fmt.Sprintf("the connection to %s (%s) was lost before an answer came", j.up.Name, host)}
	}
	return &failure{http.StatusBadGateway, "paceline_failed", fmt.Sprintf("the request to %s failed: %v", j.up.Name, err)}
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func timedOut(err error) bool {
	n, ok := errors.AsType[net.Error](err)
	return ok && n.Timeout()
}

// errBodyStopped is why a request's body is given up.
var errBodyStopped = errors.New("the request's body stopped coming")

// A body is a request's, which remembers how reading it ended and does not
// wait for ever. A provider may answer before it has read it: what its
// transport still does then must not touch the server's.
type body struct {
	io.ReadCloser
	deadline *http.ResponseController // not every ResponseWriter has deadlines; those of net/http do

	mu     sync.Mutex
	err    error
	closed bool
}

// Close ends the reading. The body itself is the server's to close: that may
// wait for the rest of it.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}

// leave ends the reading when the answer is made, and has the server not wait
// for ever for a rest.
func (b *body) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.err == nil {
		b.deadline.SetReadDeadline(time.Now().Add(bodyWait))
	}
}

func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return 0, http.ErrBodyReadAfterClose
	}
	b.deadline.SetReadDeadline(time.Now().Add(bodyWait))
	b.mu.Unlock()
	n, err := b.ReadCloser.Read(p)
	if timedOut(err) {
		err = errBodyStopped
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
	if !b.closed && (err == nil || err == io.EOF) {
		// Until the next Read the client keeps nobody waiting. After the last
		// the server listens for it leaving.
		b.deadline.SetReadDeadline(time.Time{})
	}
	return n, err
}

// ended is how reading has ended, nil where it has not.
func (b *body) ended() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

const bufferSize = 32 << 10

// pool has the buffers that answers are copied through.
var pool = sync.Pool{New: func() any { return new([bufferSize]byte) }}
