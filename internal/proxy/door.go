package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/gate"
)

// The door lets a tool that cannot be proxied make its requests to a provider
// itself, each with a leave of its own. Who asks and what limits it is found out
// as for a request that is passed on; the body says only where the request goes
// and about what it costs.

// door has the leaves that were given and not given back.
type door struct {
	mu    sync.Mutex
	turns map[string]*leave
}

// A leave is one that was given.
type leave struct {
	turn  *paceline.Turn
	lapse *time.Timer
}

const (
	mostLeaves   = 20000
	mostDoorBody = 2 << 20
	// doorHold is how long a leave lasts by itself: as long as a request may take,
	// where its provider has such a bound.
	doorHold = 30 * time.Minute
	// askPlaces is when to ask again where only somebody else's end tells.
	askPlaces = 100 * time.Millisecond
)

// An acquiring is what POST /door/acquire takes.
type acquiring struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
	// Estimate is about how many tokens the request takes.
	Estimate struct {
		Input  int `json:"input"`
		Output int `json:"output"`
	} `json:"estimate"`
	// HoldMs is how long the leave lasts unless it is released. 0: as long as a
	// request may take.
	HoldMs int64 `json:"holdMs"`
}

// An acquired is its answer.
type acquired struct {
	Granted      bool   `json:"granted"`
	Permit       string `json:"permit,omitempty"`
	Credential   string `json:"credential,omitempty"` // which of the configured keys to use
	HoldMs       int64  `json:"holdMs,omitempty"`
	Now          string `json:"now"`
	RetryAt      string `json:"retryAt,omitempty"`
	RetryAfterMs int64  `json:"retryAfterMs,omitempty"`
	Cause        string `json:"cause,omitempty"` // queue, pause, deadline, quota, bounds or drain
	Why          string `json:"why,omitempty"`
}

// A releasing is what POST /door/release takes: a permit and what came of its
// request.
type releasing struct {
	Permit string `json:"permit"`
	// Status is that of the provider's answer, 0 where none came.
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	// Body is that of the answer, as far as it is at hand: of a refusal it says
	// why, of an answer what it cost.
	Body string `json:"body"`
	// Unsent is whether the request was not sent after all.
	Unsent bool `json:"unsent"`
}

// A throttling is what POST /door/throttle takes: a wait that a provider has
// stated.
type throttling struct {
	Provider string    `json:"provider"`
	Model    string    `json:"model"`
	Until    time.Time `json:"until"`
	ForMs    int64     `json:"forMs"` // counts before Until
}

// serveDoor answers POST /door/….
func (p *Proxy) serveDoor(w http.ResponseWriter, r *http.Request, s *state, t target, c *caller) {
	serve := map[string]func(http.ResponseWriter, *http.Request, *state, target, *caller) *failure{
		"/acquire": p.doorAcquire, "/release": p.doorRelease, "/throttle": p.doorThrottle,
	}[t.rest]
	var f *failure
	switch {
	case serve == nil:
		f = &failure{http.StatusNotFound, "paceline_path", "the door has /door/acquire, /door/release and /door/throttle"}
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		f = &failure{http.StatusMethodNotAllowed, "paceline_method", r.URL.Path + " takes POST"}
	default:
		f = serve(w, r, s, t, c)
	}
	if f != nil {
		f.write(w, openAI)
	}
}

// said reads the body of a call of the door.
func said(w http.ResponseWriter, r *http.Request, into any) *failure {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostDoorBody))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return &failure{http.StatusBadRequest, "paceline_door", "the body is not what " + r.URL.Path + " takes: " + err.Error()}
	}
	return nil
}

// doorRequest is the request that somebody is about to make, as the Transport
// takes it: to the address where the provider generates, with the caller's own
// key where it brings one. It is not sent.
func (s *state) doorRequest(ctx context.Context, r *http.Request, t target, c *caller, provider, model string) (*http.Request, *failure) {
	up := s.upstreams[provider]
	if up == nil {
		return nil, s.unknown(r, target{name: provider}, provider)
	}
	j := &journey{shape: up.shape}
	j.to(up, target{name: provider, rest: generates(up.shape, model)}, http.MethodPost)
	if f := j.identify(s, r, t, c); f != nil {
		return nil, f
	}
	if f := s.authorize(j, r, target{name: provider}, c); f != nil {
		return nil, f
	}
	body, err := json.Marshal(map[string]string{"model": model})
	if err != nil {
		return nil, &failure{http.StatusBadRequest, "paceline_door", err.Error()}
	}
	out := r.WithContext(context.WithValue(ctx, journeyKey{}, j))
	u := *j.url
	out.URL, out.Host, out.Method, out.Header = &u, "", http.MethodPost, j.outgoing(r.Header)
	out.Header["Content-Type"] = []string{"application/json"}
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	return out, nil
}

// generates is a path at which an API generates something.
func generates(s shape, model string) string {
	switch s {
	case anthropic:
		return "/v1/messages"
	case gemini:
		return "/v1beta/models/" + url.PathEscape(model) + ":generateContent"
	}
	return "/v1/chat/completions"
}

// doorAcquire gives the leave to make one request, when its turn has come.
// X-Paceline-Max-Wait: 0 has it answer at once.
func (p *Proxy) doorAcquire(w http.ResponseWriter, r *http.Request, s *state, t target, c *caller) *failure {
	var a acquiring
	if f := said(w, r, &a); f != nil {
		return f
	}
	if a.HoldMs < 0 || a.Estimate.Input < 0 || a.Estimate.Output < 0 {
		return &failure{http.StatusBadRequest, "paceline_door", "holdMs and the estimate's input and output are not negative"}
	}
	out, f := s.doorRequest(r.Context(), r, t, c, a.Provider, a.Model)
	if f != nil {
		return f
	}
	if !p.door.room() {
		return &failure{http.StatusServiceUnavailable, "paceline_door", fmt.Sprintf("%d leaves are out already: give them back with /door/release", mostLeaves)}
	}
	turn, err := p.o.Transport.Turn(out, a.Estimate.Input, a.Estimate.Output)
	if refused, ok := errors.AsType[*gate.Refused](err); ok {
		writeRefused(w, refused)
		return nil
	}
	if r.Context().Err() != nil {
		if turn != nil { // nobody is there to use it
			turn.Unused()
		}
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		return &failure{http.StatusInternalServerError, "paceline_door", err.Error()}
	}
	hold := doorHold
	if total := s.upstreams[a.Provider].Total; total > 0 {
		hold = total
	}
	if own := time.Duration(a.HoldMs) * time.Millisecond; own > 0 {
		hold = min(hold, own)
	}
	writeJSON(w, http.StatusOK, acquired{
		Granted: true, Permit: p.door.give(turn, hold), Credential: turn.Credential(), HoldMs: hold.Milliseconds(), Now: instant(time.Now()),
	})
	return nil
}

// writeRefused says when to ask again.
func writeRefused(w http.ResponseWriter, refused *gate.Refused) {
	now := time.Now()
	at := refused.Until
	if soon := now.Add(askPlaces); at.Before(soon) {
		at = soon
	}
	status := http.StatusOK
	if refused.Reason == gate.Drain || refused.Reason == gate.Bounds {
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "1")
	}
	writeJSON(w, status, acquired{
		Now: instant(now), RetryAt: instant(at.Add(time.Millisecond - 1)), RetryAfterMs: at.Sub(now).Milliseconds() + 1,
		Cause: string(refused.Reason), Why: refused.Why,
	})
}

// instant is one as the wire of a limiter writes it.
func instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// doorRelease takes a leave back, with what came of its request. A leave that
// has lapsed, or was given back before, is no failure.
func (p *Proxy) doorRelease(w http.ResponseWriter, r *http.Request, _ *state, _ target, _ *caller) *failure {
	var o releasing
	if f := said(w, r, &o); f != nil {
		return f
	}
	if o.Permit == "" || o.Status != 0 && (o.Status < 200 || o.Status > 599) {
		return &failure{http.StatusBadRequest, "paceline_door", "give the permit, and the status of the provider's answer: 200 to 599, or none where no answer came"}
	}
	switch turn := p.door.take(o.Permit); {
	case turn == nil:
	case o.Unsent:
		turn.Unused()
	default:
		turn.Done(o.response())
	}
	writeJSON(w, http.StatusOK, struct{}{})
	return nil
}

// response is what the caller has got of its provider.
func (r *releasing) response() (*http.Response, error) {
	if r.Status == 0 {
		return nil, errors.New("no answer came, says the caller")
	}
	h := make(http.Header, len(r.Headers))
	for name, value := range r.Headers {
		h.Set(name, value)
	}
	h.Del("Content-Encoding") // what is handed over is plain
	return &http.Response{
		StatusCode: r.Status, Status: fmt.Sprintf("%d %s", r.Status, http.StatusText(r.Status)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(strings.NewReader(r.Body)), ContentLength: int64(len(r.Body)),
	}, nil
}

// doorThrottle closes the caller's key until a wait is over that its provider
// has stated.
func (p *Proxy) doorThrottle(w http.ResponseWriter, r *http.Request, s *state, t target, c *caller) *failure {
	var o throttling
	if f := said(w, r, &o); f != nil {
		return f
	}
	until := o.Until
	if o.ForMs > 0 {
		until = time.Now().Add(time.Duration(o.ForMs) * time.Millisecond)
	}
	if until.IsZero() || o.ForMs < 0 {
		return &failure{http.StatusBadRequest, "paceline_door", "give until, an instant, or forMs, how many milliseconds from now"}
	}
	out, f := s.doorRequest(r.Context(), r, t, c, o.Provider, o.Model)
	if f != nil {
		return f
	}
	if err := p.o.Transport.Throttle(out, until); err != nil {
		return &failure{http.StatusBadRequest, "paceline_door", err.Error()}
	}
	writeJSON(w, http.StatusOK, struct{}{})
	return nil
}

// room reports whether another leave may be given.
func (d *door) room() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.turns) < mostLeaves
}

// give remembers a turn under a name that nobody guesses, until it is given back
// or lapses.
func (d *door) give(turn *paceline.Turn, hold time.Duration) (permit string) {
	permit = rand.Text()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.turns == nil {
		d.turns = make(map[string]*leave)
	}
	d.turns[permit] = &leave{turn, time.AfterFunc(hold, func() {
		if turn := d.take(permit); turn != nil {
			turn.Abandon()
		}
	})}
	return permit
}

// take forgets a leave, nil where there is none.
func (d *door) take(permit string) *paceline.Turn {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.turns[permit]
	if l == nil {
		return nil
	}
	delete(d.turns, permit)
	l.lapse.Stop()
	return l.turn
}
