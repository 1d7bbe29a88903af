package demo

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

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
	until   time.Time // the end of the demo, once it has come
}

// NewLane makes a side over a provider that is reached at url (…/v1) through
// base.
func NewLane(pacing Pacing, url string, base http.RoundTripper) *Lane {
	l := &Lane{url: url}
	l.client = &http.Client{Transport: &paceline.Transport{
		Base:    base,
		Limiter: memory.New(),
		Providers: []paceline.Provider{{
			Name: string(pacing), BaseURL: url, Dialect: "openai", Limits: Limits(pacing),
		}},
		Log: l.log,
	}}
	return l
}

// log keeps what was sent while the demo went on, and answered. The rest was
// given up because it ended, which says nothing about a pacing.
func (l *Lane) log(r paceline.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.NotSent || r.Aborted || !l.until.IsZero() && r.Sent.After(l.until) {
		return
	}
	l.records = append(l.records, r)
}

// end is told when the demo ends.
func (l *Lane) end(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = at
}

// seen returns the records so far and, once it has come, the end of the demo.
func (l *Lane) seen() ([]paceline.Record, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.records), l.until
}

// work runs n clients until ctx ends. Then it gives requests that were sent
// the time for their answer, and cuts the others. The end of ctx is not that
// of the requests before: a line refuses at once whom it cannot serve in time,
// and would not be full to the end.
func (l *Lane) work(ctx context.Context, n int) {
	requests, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	var clients sync.WaitGroup
	for range n {
		clients.Go(func() {
			for ctx.Err() == nil {
				l.call(requests)
			}
		})
	}
	<-ctx.Done()
	l.end(time.Now())
	defer time.AfterFunc(lastAnswer, cut).Stop()
	clients.Wait()
}

// lastAnswer is when the answer to the last request has come for certain.
const lastAnswer = Transit + Service + 150*time.Millisecond

// call makes one request and reads its answer. What came of it is in the
// records.
func (l *Lane) call(ctx context.Context) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+"/chat/completions",
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
