package paceline_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/stub"
)

// A rig is a Transport in front of a stand-in provider, without sockets, with
// the records it wrote.
type rig struct {
	*paceline.Transport
	stub *stub.Stub

	mu      sync.Mutex
	records []paceline.Record
}

// base is where the stand-in provider lives in tests.
const base = "http://provider.test/v1"

// newRig declares p (whose name and address default) over a stub.
func newRig(t *testing.T, c stub.Config, p paceline.Provider) *rig {
	t.Helper()
	s, err := stub.New(c)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{stub: s}
	if p.Name == "" {
		p.Name = "test"
	}
	if p.BaseURL == "" {
		p.BaseURL = base
	}
	r.Transport = &paceline.Transport{
		Base: s, Limiter: memory.New(), Providers: []paceline.Provider{p}, Log: r.log,
	}
	return r
}

func (r *rig) log(rec paceline.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, rec)
}

// logged returns the records so far.
func (r *rig) logged() []paceline.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]paceline.Record(nil), r.records...)
}

// sent returns the instants of the attempts so far, since start.
func (r *rig) sent(start time.Time) []time.Duration {
	var at []time.Duration
	for _, rec := range r.logged() {
		if !rec.NotSent {
			at = append(at, rec.Sent.Sub(start))
		}
	}
	return at
}

// A reply is what a call came to.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
	took   time.Duration
}

// chat makes one call with a context and headers, and reads the answer.
func (r *rig) chat(ctx context.Context, header ...string) reply {
	start := time.Now()
	req := chatRequest(ctx, header...)
	res, err := r.RoundTrip(req)
	if err != nil {
		return reply{err: err, took: time.Since(start)}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, string(b), err, time.Since(start)}
}

// chatRequest is a chat completion with headers given in pairs.
func chatRequest(ctx context.Context, header ...string) *http.Request {
	return request(ctx, "POST", base+"/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, header...)
}

func request(ctx context.Context, method, url, body string, header ...string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Authorization", "Bearer sk-test")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return req
}

// far is the stand-in provider at a distance: each request takes a while to
// reach it.
func (r *rig) far(transit time.Duration) http.RoundTripper {
	return sink(func(req *http.Request) (*http.Response, error) {
		time.Sleep(transit)
		return r.stub.RoundTrip(req)
	})
}

// together makes n calls at once and returns what each came to.
func (r *rig) together(n int, header ...string) []reply {
	replies := make([]reply, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { replies[i] = r.chat(context.Background(), header...) })
	}
	wg.Wait()
	return replies
}

func (a reply) want(t *testing.T, status int) {
	t.Helper()
	if a.err != nil || a.status != status {
		t.Errorf("the call came to status %d, error %v; want status %d\n%s", a.status, a.err, status, a.body)
	}
}

// secs writes instants as a test would: in seconds.
func secs(at []time.Duration) string {
	s := make([]string, len(at))
	for i, d := range at {
		s[i] = fmt.Sprintf("%gs", d.Seconds())
	}
	return strings.Join(s, " ")
}

func wantInstants(t *testing.T, got []time.Duration, want ...time.Duration) {
	t.Helper()
	if secs(got) != secs(want) {
		t.Errorf("sent at %s; want %s", secs(got), secs(want))
	}
}

// refusals counts the records of a class.
func refusals(records []paceline.Record, class dialect.Class) int {
	n := 0
	for _, r := range records {
		if r.Class == class && !r.NotSent {
			n++
		}
	}
	return n
}

const sec = time.Second

func answer(status int, h http.Header, body string) *http.Response {
	if h == nil {
		h = http.Header{}
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
}
