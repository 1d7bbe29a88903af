package demo

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/limiter/memory"
)

// A Lane is one side: clients, a Transport with a limiter of its own, and the
// provider behind it.
type Lane struct {
	url    string
	client *http.Client

	mu      sync.Mutex
	records []paceline.Record
}

// NewLane makes a side over a provider that is reached at url (…/v1) through
// base.
func NewLane(pacing Pacing, url string, base http.RoundTripper) *Lane {
	l := &Lane{url: url}
	l.client = &http.Client{Transport: &paceline.Transport{
		Base:    underway{base},
		Limiter: memory.New(),
		Providers: []paceline.Provider{{
			Name: string(pacing), BaseURL: url, Dialect: "openai", Limits: Limits(pacing),
		}},
		Log: l.log,
	}}
	return l
}

// log keeps what was sent and answered. The rest was given up because the
// demo ended, which says nothing about a pacing.
func (l *Lane) log(r paceline.Record) {
	if r.NotSent || r.Aborted {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, r)
}

// Records returns those so far.
func (l *Lane) Records() []paceline.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.records)
}

// work runs n clients until ctx ends, and waits for their last answers.
func (l *Lane) work(ctx context.Context, n int) {
	var clients sync.WaitGroup
	for range n {
		clients.Go(func() {
			for ctx.Err() == nil {
				l.call(ctx)
			}
		})
	}
	clients.Wait()
}

// call makes one request and reads its answer. What came of it is in the
// records.
func (l *Lane) call(ctx context.Context) {
	t := &task{}
	// The end of ctx is not the request's own: it ends only what still waits.
	own, cancel := context.WithCancel(context.WithValue(context.WithoutCancel(ctx), taskKey{}, t))
	defer cancel()
	t.cancel = cancel
	defer context.AfterFunc(ctx, t.stop)()

	req, err := http.NewRequestWithContext(own, http.MethodPost, l.url+"/chat/completions",
		strings.NewReader(`{"model":"stub-1","messages":[{"role":"user","content":"Say something short."}]}`))
	if err != nil {
		return // the URL is our own
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := l.client.Do(req)
	if err != nil {
		return
	}
	defer res.Body.Close()
	io.Copy(io.Discard, res.Body)
}

// A task is one request of a client, which may take several attempts.
type task struct {
	cancel func()

	mu    sync.Mutex
	sent  bool // and not refused
	ended bool // the demo is over
}

type taskKey struct{}

// stop gives the task up, unless it is under way.
func (t *task) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended = true; !t.sent {
		t.cancel()
	}
}

// under notes that the task is sent, or back in line, and reports whether it
// may go on.
func (t *task) under(sent bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sent = sent; !sent && t.ended {
		t.cancel()
	}
	return !t.ended
}

// underway is the way to a provider. It knows which tasks are on it.
type underway struct{ http.RoundTripper }

var errEnded = errors.New("the demo is over")

func (u underway) RoundTrip(req *http.Request) (*http.Response, error) {
	t, ok := req.Context().Value(taskKey{}).(*task)
	if !ok {
		return u.RoundTripper.RoundTrip(req)
	}
	if !t.under(true) {
		req.Body.Close()
		return nil, errEnded
	}
	res, err := u.RoundTripper.RoundTrip(req)
	if err != nil || res.StatusCode != http.StatusOK {
		t.under(false)
	}
	return res, err
}
