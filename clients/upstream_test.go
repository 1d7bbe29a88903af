package clients

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/stub"
)

// An upstream is a provider on a real socket. It remembers every request and
// each byte of its answers.
type upstream struct {
	url  string
	stub *stub.Stub // nil where another handler answers

	mu   sync.Mutex
	seen []*exchange
}

// An exchange is one request at an upstream. Its fields are complete once it
// has ended.
type exchange struct {
	path   string
	header http.Header
	asked  []byte
	began  time.Time
	ended  time.Time // zero while it runs
	status int
	body   []byte
	writes []reading
}

// newUpstream serves a stub that tells repeated generations by their bodies.
func newUpstream(t *testing.T, c stub.Config) *upstream {
	t.Helper()
	c.TrackRepeats = true
	s := newStub(t, c)
	u := serveUpstream(t, s)
	u.stub = s
	return u
}

func serveUpstream(t *testing.T, h http.Handler) *upstream {
	t.Helper()
	u := &upstream{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { u.serve(w, r, h) }))
	t.Cleanup(server.Close)
	u.url = server.URL
	return u
}

func (u *upstream) serve(w http.ResponseWriter, r *http.Request, h http.Handler) {
	asked, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client left
	}
	r.Body = io.NopCloser(bytes.NewReader(asked))
	x := &exchange{path: r.URL.Path, header: r.Header.Clone(), asked: asked, began: time.Now(), status: http.StatusOK}
	u.mu.Lock()
	u.seen = append(u.seen, x)
	u.mu.Unlock()
	// Last, and also for a handler that drops the connection.
	defer func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		x.ended = time.Now()
	}()
	h.ServeHTTP(&recorder{w, u, x}, r)
}

// A recorder is a ResponseWriter that keeps what passes.
type recorder struct {
	http.ResponseWriter
	u *upstream
	x *exchange
}

func (r *recorder) WriteHeader(status int) {
	r.u.mu.Lock()
	r.x.status = status
	r.u.mu.Unlock()
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	r.u.mu.Lock()
	r.x.body = append(r.x.body, p...)
	r.x.writes = append(r.x.writes, reading{len(r.x.body), time.Now()})
	r.u.mu.Unlock()
	return r.ResponseWriter.Write(p)
}

// Unwrap lets a handler flush.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// exchanges are copies of what was seen so far, in the order of arrival.
func (u *upstream) exchanges() []exchange {
	u.mu.Lock()
	defer u.mu.Unlock()
	var all []exchange
	for _, x := range u.seen {
		x := *x
		x.body, x.writes = slices.Clone(x.body), slices.Clone(x.writes)
		all = append(all, x)
	}
	return all
}

// wait waits until what was seen is as the test needs it.
func (u *upstream) wait(t *testing.T, what string, is func([]exchange) bool) []exchange {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if all := u.exchanges(); is(all) {
			return all
		}
	}
	t.Fatalf("the provider still waits for %s", what)
	return nil
}
