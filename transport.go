package paceline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paceline-proxy/paceline/budget"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/gate"
	"github.com/paceline-proxy/paceline/limiter"
)

// A Transport is an http.RoundTripper that keeps its requests inside the
// providers' rate limits: requests wait for their turn, and refused ones are
// repeated when the provider's own wait is over.
//
// Declared rates bind one process, unless Limiter is one that several share.
//
// The zero value works: known hosts are read in their dialect, all others in
// the generic one, and rates that nobody declared are learned from refusals.
// All Transports of a process without a Limiter of their own share one; in a
// testing/synctest bubble each has its own.
//
// RoundTrip returns an error for what went wrong in the transport, with the
// request's context or with the limiter, and for impossible declarations. A
// provider's refusal is returned as it came; a request
// that was not sent at all gets a refusal in its place, with the header
// X-Paceline-Refused. The request is not changed, and its body is closed on
// every path. The answer's body must be closed, as with any RoundTripper.
//
// A context bounds the waiting as well as the answer. So does
// http.Client.Timeout, which is often shorter than a wait is worth: prefer a
// context with a deadline.
//
// A program that sends the header X-Paceline-Max-Wait (a duration such as 90s)
// is refused at once where its turn cannot come in time;
// X-Paceline-Wait-For-Capacity: 1, or [WaitForCapacity], waits without bound.
// X-Paceline-Request-Id names it, by up to 64 letters, digits, - and _. No header that begins
// with X-Paceline reaches a provider.
type Transport struct {
	// Base sends the requests. nil is http.DefaultTransport.
	Base http.RoundTripper
	// Limiter holds the counts. nil is one in memory, shared by the process.
	Limiter limiter.Limiter
	// Store shares what refusals and answers taught. nil keeps it in the
	// process.
	Store budget.Store
	// Providers are the declared entries.
	Providers []Provider
	// Route names the entry of a request. nil, or no route: by its URL.
	Route func(*http.Request) ([]Route, error)
	// MaxReplayBytes bounds the request bodies kept for a repeat; larger ones
	// are sent once. 0 is 32 MiB.
	MaxReplayBytes int64
	// Queue is how requests wait where they come from clients. The zero value is
	// for a program's own.
	Queue Queue
	// Background is the share of the rates per minute and longer that background
	// requests may use while others are being started. 0 is 0.7.
	Background float64
	// Clients are those with limits of their own, by X-Paceline-Client.
	Clients map[string]Client
	// Log is handed a record of each attempt when it ends, from the goroutine
	// that ended it: it may be called from several at once, and must not block.
	Log func(Record)
	// OnWait is told when a request begins to wait, when what it waits for
	// becomes another thing, and when it is over, from the goroutine that waits:
	// it must not block. Requests that need not wait are not told of.
	OnWait func(*Wait)
	// Logger hears of what is wrong but stops no request. nil is silence.
	Logger *slog.Logger

	once    sync.Once
	home    *home
	fault   func(error) // tells Logger of what the limiter could not be told
	entries atomic.Pointer[entries]
	err     error // with the declarations, where entries is nil

	conversations conversations

	room    room
	waiting atomic.Int64 // requests that wait
	held    atomic.Int64 // bytes of bodies kept
}

// A Route says where a request goes.
type Route struct {
	// Provider is the name of an entry. Empty: as the URL says.
	Provider string
	// Credential is the name of one of the entry's Credentials, whose key
	// replaces the request's own, or [Any]. Empty: as sent.
	Credential string
	// Model replaces the "model" of a JSON body that asks for inference, and
	// nothing else of it. Empty: as sent.
	Model string
}

// Any is the Credential of a [Route] that leaves the choice to the Transport: of
// the entry's Credentials the one with the most left. It is made anew for every
// attempt, and for a request in line once its key is paused or another could
// start it sooner. A conversation (X-Paceline-Run, else what the body says of
// it) stays with its key while that is open.
const Any = "*"

// RoundTrip sends one request, as often and as late as the provider's limits
// ask for. It is the one path of every request.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	c, err := t.newCall(req)
	if err != nil {
		return nil, err
	}
	defer c.close()
	for {
		grant, err := c.enter()
		if err != nil {
			return c.unsent(err)
		}
		a := c.send(grant)
		if verdict := c.judge(a); !verdict.Again {
			return a.respond(verdict.GiveUp)
		}
		c.keep(a)
	}
}

func (t *Transport) init() {
	t.home = homeOf(t.Limiter, t.Store, t.Logger)
	t.fault = func(err error) { t.warn("the limiter could not be told of a request", err) }
	es, err := complete(t.Providers)
	if t.err = errors.Join(err, t.validateQueue()); t.err == nil {
		t.entries.Store(es)
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

func (t *Transport) log(r Record) {
	if t.Log != nil {
		t.Log(r)
	}
}

func (t *Transport) warn(msg string, err error) {
	if t.Logger != nil && err != nil {
		t.Logger.Warn(msg, "error", err)
	}
}

// A destination is where a request goes, and as whom.
type destination struct {
	entries *entries
	entry   *entry
	with    *configured // nil: the request's own credential
	any     bool        // with is chosen of several
	model   string      // empty: the request's own
}

// route finds the destination of a request: step 1.
func (t *Transport) route(req *http.Request) (d destination, err error) {
	t.once.Do(t.init)
	if d.entries = t.entries.Load(); d.entries == nil {
		return d, t.err
	}
	var r Route
	if t.Route != nil {
		routes, err := t.Route(req)
		switch {
		case err != nil:
			return d, fmt.Errorf("paceline: choosing a route: %w", err)
		case len(routes) > 1:
			return d, errors.New("paceline: Route gave several routes: a chain of fallbacks is not supported")
		case len(routes) == 1:
			r = routes[0]
		}
	}
	if r.Provider == "" {
		d.entry, err = d.entries.of(req.URL)
	} else {
		d.entry, err = d.entries.named(r.Provider)
	}
	if err != nil {
		return d, err
	}
	d.model, d.any = r.Model, r.Credential == Any
	if d.with, err = d.entry.credential(r.Credential); d.with != nil && (!d.entry.serves(req.URL) || d.entry.base.Scheme != req.URL.Scheme) {
		err = fmt.Errorf("paceline: a key of %s goes to %s alone, not to %s", d.entry.Name, d.entry.base.Host, req.URL.Host)
	}
	return d, err
}

// enter stands in line for the next attempt: step 3. Where it does not come
// to one, its place may outlive it.
func (c *call) enter() (grant gate.Grant, err error) {
	room := &c.transport.room
	stop, open := room.enter()
	if !open {
		c.keepPlace()
		return gate.Grant{}, &gate.Refused{Reason: gate.Drain, Why: "this process is ending"}
	}
	defer room.leave()
	switch {
	case c.ctx.Err() != nil:
		return gate.Grant{}, c.ctx.Err()
	case c.turnedAway != nil:
		return gate.Grant{}, c.turnedAway
	case c.kind == dialect.Catalog || c.entry.Mode == Off:
		return gate.Grant{At: time.Now()}, nil // only sent
	case c.entry.Mode == Observe:
		return c.observe(), nil
	}
	c.queuedSince = time.Now()
	if c.attempts > 0 {
		c.rechoose(c.queuedSince)
	}
	for again := true; again; {
		ask := c.ask()
		ask.Stop = stop
		grant, err = c.home.gate.Enter(c.ctx, ask)
		again = c.goesElsewhere(err)
	}
	c.queued += time.Since(c.queuedSince)
	c.waited()
	c.anyway.Store(false) // what was wanted is done
	if c.waiting {
		c.waiting = false
		c.transport.waiting.Add(-1)
	}
	if keepsPlace(err) && (c.ctx.Err() != nil || !c.handsBack(err)) {
		c.keepPlace()
	}
	return grant, err
}

// goesElsewhere reports whether a call that its line has not let through goes to
// another.
func (c *call) goesElsewhere(err error) bool {
	if err == gate.ErrElsewhere {
		c.rechoose(time.Now())
		return true
	}
	refused, ok := errors.AsType[*gate.Refused](err)
	return ok && (refused.Reason == gate.Pause || refused.Reason == gate.Quota || refused.Reason == gate.Deadline) && c.barred(refused.Until)
}

// keepsPlace reports whether who leaves the line for a reason may come again:
// the client has left, or is to.
func keepsPlace(err error) bool {
	if refused, ok := errors.AsType[*gate.Refused](err); ok {
		return refused.Reason == gate.Queue || refused.Reason == gate.Drain
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// ask is what the gate is asked for the next attempt.
func (c *call) ask() gate.Ask {
	ask := gate.Ask{
		Key:          c.name,
		Priority:     c.manners.priority,
		Client:       c.manners.client,
		Arrived:      c.first,
		Lane:         c.lane,
		Hold:         c.hold(),
		NotBefore:    c.notBefore,
		OrRelease:    c.orRelease,
		Deadline:     c.deadline,
		Leave:        c.leave,
		MaxPause:     c.rules.Retry.Patience(),
		WaitForQuota: c.rules.WaitForQuota,
		Waits:        c.waits,
		Plan:         c.turn,
		Reread:       c.home.reread(),
		Started:      c.started,
		Anyway:       c.anyway.Load,
	}
	if c.transport.Logger != nil {
		ask.Fault = c.transport.fault
	}
	if c.transport.OnWait != nil {
		ask.Waiting = c.tellWait
	}
	if c.any {
		ask.Elsewhere = c.elsewhere
	}
	for _, k := range c.choices {
		if k.name != c.name {
			ask.Others = append(ask.Others, k.name)
		}
	}
	return ask
}

// holdFor is how long a permit lasts without a renewal, so that a crashed
// process gives its places back soon.
const holdFor = time.Minute

// hold is how long a grant keeps its places by itself.
func (c *call) hold() time.Duration {
	if c.home.gate.Renews() {
		return holdFor
	}
	if c.entry.Total <= 0 {
		return 24 * time.Hour
	}
	return max(holdFor, c.entry.Total+c.entry.AbortHold)
}

// handsBack reports whether a call that does not get through the gate again is
// answered with what it met at the provider, which says more than ours could.
// Of a refusal for a rate that is so only where its place is lost.
func (c *call) handsBack(err error) bool {
	refused, ok := errors.AsType[*gate.Refused](err)
	if ok && (refused.Reason == gate.Drain || refused.Reason == gate.Queue && c.trouble == nil) {
		return false
	}
	return c.last != nil || c.trouble != nil
}

// unsent answers a request that did not get through the gate.
func (c *call) unsent(err error) (*http.Response, error) {
	refused, ok := errors.AsType[*gate.Refused](err)
	if c.ctx.Err() != nil {
		c.logUnsent(statusClientLeft, err)
		return nil, c.ctx.Err()
	}
	var held *refusal // of the pause that it met
	if ok && (refused.Reason == gate.Pause || refused.Reason == gate.Quota) {
		held = c.home.holding(c.name, time.Now())
	}
	switch {
	case c.handsBack(err) && (c.last == nil || held == nil || c.lastOf == c.name):
		if c.last != nil {
			return c.last.response(c, true), nil
		}
		return c.trouble.unanswered()
	case held != nil:
		c.logUnsent(held.status, refused)
		return held.rest(c, refused), nil
	case !ok:
		c.logUnsent(0, err)
		return nil, fmt.Errorf("paceline: %w", err)
	}
	res := synthetic(c, refused)
	c.logUnsent(res.StatusCode, refused)
	return res, nil
}
