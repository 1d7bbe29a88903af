package paceline

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paceline-proxy/paceline/budget"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/gate"
	"github.com/paceline-proxy/paceline/policy"
)

// statusClientLeft is the status logged for a request whose client left.
const statusClientLeft = 499

// A failure is why an attempt brought no head.
type failure int

const (
	none         failure = iota
	lost                 // the connection was lost
	notConnected         // there was none: nothing was sent
	unprocessed          // the server has said that it will not look at it
	noHead               // Timeouts.Header passed
	capped               // Timeouts.Total passed
	unsendable           // its body could not be had again
)

// The causes with which an attempt is cut.
var (
	errNotConnected = errors.New("no connection in time")
	errNoHead       = errors.New("no answer in time")
	errCapped       = errors.New("the duration cap has passed")
	errIdle         = errors.New("the answer stopped coming")
)

// An attempt is one request that is sent, from its grant until its answer has
// been read. It is settled exactly once, on every way out.
type attempt struct {
	call    *call
	grant   gate.Grant
	booked  time.Time // what stands for its start in what is known of the key
	ctx     context.Context
	cancel  context.CancelCauseFunc
	alarms  alarms
	record  Record
	settled sync.Once

	res     *http.Response
	err     error
	failure failure
	left    bool // the client left before the head
	// unconnected while a transport that says so has no connection yet.
	unconnected atomic.Bool
	reused      atomic.Bool // its connection has served others before
	begun       atomic.Bool // something of an answer has come
	answered    time.Time
	reading     dialect.Reading
	// body is the beginning of a refusal's body, whole where it ended in it.
	body   []byte
	whole  bool
	pauses bool // its head says that it may pause the key
	heard  bool // what its head says of budgets is known to everyone on the key

	unwatch  atomic.Pointer[func() bool] // ends the watch over a.ctx
	observer *observer                   // of the body, nil for none

	estimated budget.Charge // what was counted for it when it was granted
	took      budget.Charge // what shows of it in what is left of budgets
	counted   bool          // what it costs is counted, and can be settled
	metered   atomic.Int64  // when it is settled next while its answer comes
}

// How much of a refusal's body is read, and for how long.
const (
	maxRefusalBody  = 1 << 20
	refusalBodyWait = 5 * time.Second
)

// begin begins an attempt with the leave to make it.
func (c *call) begin(grant gate.Grant) *attempt {
	a := &attempt{call: c, grant: grant, booked: c.booked, record: c.record(), estimated: c.rules.Cost, counted: grant.Permit != "" && c.counts()}
	c.attempts++
	r := &a.record
	r.Attempt, r.Retry, r.Sent = c.attempts, c.attempts > 1, grant.At
	if !c.queuedSince.IsZero() {
		r.Queued = grant.At.Sub(c.queuedSince)
	}
	a.ctx, a.cancel = context.WithCancelCause(c.ctx)
	a.alarms.cut = a.cancel
	a.alarms.set(running, c.entry.Total)
	return a
}

// send makes one attempt: steps 4 to 6. It returns when the head and what is
// needed to judge it have been read.
func (c *call) send(grant gate.Grant) *attempt {
	a := c.begin(grant)
	defer func() {
		if a.answered.IsZero() { // Base has panicked
			a.settle(errors.New("sending panicked"))
		}
	}()
	a.exchange()
	a.learned()
	return a
}

// learned reads what an attempt has come to, and tells everyone on the key.
func (a *attempt) learned() {
	a.answered = time.Now()
	a.read()
	if r := &a.record; a.res == nil && (a.failure == unsendable || a.unconnected.Load()) {
		r.NotSent, r.Sent = true, time.Time{}
	}
	a.learn()
}

// exchange is the single place that sends.
func (a *attempt) exchange() {
	c := a.call
	defer a.alarms.clear(connecting)
	out, err := c.outgoing(httptrace.WithClientTrace(a.ctx, &httptrace.ClientTrace{
		GetConn: func(string) { a.unconnected.Store(true); a.alarms.set(connecting, c.entry.Connect) },
		GotConn: func(got httptrace.GotConnInfo) {
			a.unconnected.Store(false)
			a.reused.Store(got.Reused)
			a.alarms.clear(connecting)
		},
		GotFirstResponseByte: func() { a.begun.Store(true) },
	}))
	if err != nil {
		a.err, a.failure = err, unsendable
		return
	}
	a.alarms.set(heading, c.entry.Header)
	defer a.alarms.clear(heading)
	a.receive(c.transport.base().RoundTrip(out))
}

// receive takes what sending came to.
func (a *attempt) receive(res *http.Response, err error) {
	c := a.call
	a.res, a.err = res, c.redact(err)
	if a.res != nil {
		a.res.Request = c.req // what was sent may have a key of ours
		c.hideKey(a.res.Header)
		if a.res.Header == nil {
			a.res.Header = http.Header{}
		}
		if a.res.Body == nil {
			a.res.Body = http.NoBody
		}
	}
}

// read says what the answer means, or what its absence does.
func (a *attempt) read() {
	if a.err != nil {
		a.fail()
		return
	}
	h := dialect.Head{Status: a.res.StatusCode, Header: a.res.Header, Received: a.answered, Model: a.call.demand.Model}
	if said := a.res.Header.Get("Date"); said != "" {
		h.Date, _ = http.ParseTime(said)
	}
	if h.Status >= 400 {
		a.pauses = !a.call.unheeded() && (h.Status == http.StatusTooManyRequests || h.Status >= 500)
		if a.pauses {
			a.unread()
		}
		a.readRefusal()
		a.reading = a.call.entry.dialect.ReadHead(h, decoded(a.res.Header, a.body))
	} else if a.reading = a.call.entry.dialect.ReadHead(h, nil); a.reading.Class == dialect.OK {
		a.uncover(h)
	}
	if a.err == nil && h.Status < 400 && a.reading.Class != dialect.OK {
		a.readRefusal() // to be handed back whole
	}
	if a.reading.Wait > dialect.MaxWait {
		// An epoch in the wrong unit, or a mistake: nobody means it.
		a.call.transport.warn("a stated wait is too long to be meant", errors.New(a.reading.Why))
		a.reading.Told, a.reading.Wait = false, 0
	}
}

// fail says why there is no answer.
func (a *attempt) fail() {
	a.reading = dialect.Reading{Class: dialect.Unavailable}
	switch cause := context.Cause(a.ctx); {
	case a.failure == unsendable:
	case cause == errNoHead:
		a.failure = noHead
	case cause == errCapped:
		a.failure = capped
	case a.call.ctx.Err() != nil:
		a.left = true
	case a.unconnected.Load():
		a.failure = notConnected
	case saysUnprocessed(a.err):
		a.failure = unprocessed
	default:
		a.failure = lost
	}
}

// unread keeps others of the key from being sent while an answer is read whose
// head may state a wait: only its body says what for. learn lets them go.
func (a *attempt) unread() {
	a.call.caller.Use(a.answered, func(s *budget.State, _ *budget.Starts) bool { s.Unread++; return false })
}

// saysUnprocessed reports whether an error of net/http says that a server of
// HTTP/2 has not processed a request, and will not: it has gone, or refused the
// stream. net/http would repeat it by itself if it could, and has but words for
// that.
func saysUnprocessed(err error) bool {
	says := err.Error()
	return strings.Contains(says, "cannot retry err") && (strings.Contains(says, "GOAWAY") || strings.Contains(says, "REFUSED_STREAM"))
}

// stale reports whether the attempt was lost with a connection that its server
// may have closed for having been idle.
func (a *attempt) stale() bool {
	return a.failure == lost && a.reused.Load() && !a.begun.Load() && a.answered.Sub(a.grant.At) < staleWithin
}

// staleWithin is how soon such a loss shows: a server that took longer has
// worked for the request.
const staleWithin = time.Second

// readRefusal reads the beginning of a refusal's body.
func (a *attempt) readRefusal() {
	p := lookAhead(a.res.Body, a.res.ContentLength, maxRefusalBody, refusalBodyWait, nil)
	a.res.Body = p
	var end error
	a.body, end = p.seen()
	a.whole = end == io.EOF
}

// decoded is a body as its provider wrote it.
func decoded(h http.Header, body []byte) []byte {
	if h.Get("Content-Encoding") != "gzip" {
		return body
	}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return body
	}
	plain, _ := io.ReadAll(io.LimitReader(z, maxRefusalBody)) // a cut body is read as far as it goes
	return plain
}

// learn tells everyone on the key what the answer says: step 6.
func (a *attempt) learn() {
	c := a.call
	r := &a.record
	r.Class, r.Wait, r.Told = a.reading.Class, a.reading.Wait, a.reading.Told
	if a.res != nil {
		r.Status = a.res.StatusCode
	}
	key := c.name
	switch {
	case c.unheeded():
		return
	case a.left || a.failure == unsendable:
		// It says nothing of the provider; if it was to probe, another may.
		c.caller.Use(a.answered, func(s *budget.State, _ *budget.Starts) bool { return c.rules.Unanswered(s, a.booked, a.answered) })
		c.home.gate.Wake(key)
		return
	}
	if a.res != nil && c.account == "" {
		c.transport.warn("an account was not kept", c.home.tellAccount(c.entry.Name, c.credentialID, c.entry.dialect.AccountOf(a.res.Header)))
	}
	activity := c.home.gate.Activity(key)
	var l policy.Lesson
	c.caller.Use(a.answered, func(s *budget.State, starts *budget.Starts) bool {
		if a.pauses {
			s.Unread--
		}
		l = c.rules.Learn(s, starts, policy.Answer{
			Sent: a.grant.At, Booked: a.booked, Now: a.answered, Reading: a.reading, Lost: a.res == nil, Heard: a.heard, Activity: activity,
			Recent: starts.Within(10*time.Second, a.answered),
		})
		if !a.heard {
			a.took = l.Took
		}
		if r.Status == http.StatusTooManyRequests || a.reading.Class == dialect.RateLimited {
			r.Evidence = a.evidence(s, starts, l)
		}
		return l.Changed
	})
	if !l.ThrottleUntil.IsZero() {
		// The wait binds even where the caller has just left.
		ctx := context.WithoutCancel(c.ctx)
		c.transport.warn("a stated wait did not reach the limiter", c.home.gate.Throttle(ctx, key, l.ThrottleUntil))
	}
	if until := c.caller.PausedUntil(); l.Paused && until.After(a.answered) {
		c.home.hold(key, a.refusal(), until)
	}
	if l.Moved || a.pauses {
		c.home.gate.Wake(key)
	}
}

// evidence is what our own sending looked like when a refusal came. A span
// ends when it came, or early enough to hold the refused start.
func (a *attempt) evidence(s *budget.State, starts *budget.Starts, l policy.Lesson) *Evidence {
	end := func(per time.Duration) time.Time {
		if last := a.grant.At.Add(per - 1); last.Before(a.answered) {
			return last
		}
		return a.answered
	}
	within := func(per time.Duration) int { return starts.Within(per, end(per)) }
	spent := func(per time.Duration) budget.Charge { return starts.Spent(per, end(per)) }
	rules := &a.call.rules
	return &Evidence{
		UnderLimit: !rules.Limits.Exceeded(within) && !rules.Limits.ExceededTokens(spent) && !rules.Oversize(s),
		Sent60s:    within(time.Minute), Sent1s: within(time.Second),
		Factor: l.Factor, Adapted: l.Lowered,
	}
}

// unanswered is what an attempt comes to that brought no answer.
func (a *attempt) unanswered() (*http.Response, error) {
	c := a.call
	switch a.failure {
	case capped:
		return timedOut(c, c.entry.Total, "the request took longer than its duration cap"), nil
	case noHead:
		return timedOut(c, c.entry.Header, "the provider sent no answer in time"), nil
	}
	return nil, fmt.Errorf("paceline: sending to %s: %w", c.entry.Name, a.err)
}

// respond hands the answer of the last attempt to the caller: step 7. The
// attempt is settled when its body has been read.
func (a *attempt) respond(giveUp bool) (*http.Response, error) {
	c := a.call
	if a.err != nil {
		a.settle(a.cause())
		switch {
		case a.failure == unsendable && c.last != nil:
			return c.last.response(c, true), nil
		case a.left || a.failure == unsendable:
			return nil, a.err
		}
		return a.unanswered()
	}
	// The attempt lets go of the answer, so that an answer that its caller
	// forgets can be found to be forgotten.
	res := a.res
	a.res = nil
	c.mark(res.Header, giveUp && res.StatusCode >= 400)
	if res.StatusCode == http.StatusSwitchingProtocols {
		a.settle(nil) // the connection is the caller's now
		return res, nil
	}
	a.observer = a.observe(res.StatusCode, res.Header)
	res.Body = a.stream(res.Header, res.Body)
	return res, nil
}
