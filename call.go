package paceline

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/paceline-proxy/paceline/budget"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/policy"
)

// A call is one request on its way, through all its attempts.
type call struct {
	transport *Transport
	home      *home
	req       *http.Request
	ctx       context.Context
	id        string
	arrived   time.Time
	first     time.Time // when it first came: its place in line
	deadline  time.Time // the end of its owner's patience, zero for none
	leave     time.Time // when its client has to be answered, zero for never
	manners   manners

	destination
	kind       dialect.Kind
	demand     dialect.Demand
	as         callerKey
	name       string // of the caller key
	credential string // a name that may be logged
	// credentialID is what must not be.
	credentialID string
	account      string // whom the provider meters, where that is known
	caller       *budget.Caller
	choices      []candidate // what it may be made with instead, nil for nothing
	coming       string      // the caller key that it is counted for as coming
	rules        policy.Rules
	payload      *payload
	calibrated   bool // something depends on what it costs
	lane         string
	held         int64 // bytes of its body that are counted
	turnedAway   error // it is not to be sent
	waiting      bool  // it is counted as waiting
	observed     *Observed
	shown        *Wait       // what OnWait was told last, nil while it does not wait
	anyway       atomic.Bool // somebody wants it sent whatever the observed budgets say

	tally       policy.Tally
	unprocessed int // attempts
	attempts    int
	queuedSince time.Time
	queued      time.Duration // in line, over all attempts
	booked      time.Time     // the instant that stands for the latest start alone
	notBefore   time.Time
	orRelease   bool
	last        *refusal // what the latest attempt met
	lastOf      string   // the caller key that met it
	trouble     *attempt // the latest, where what it met can be handed back and is no refusal for a rate
}

// requestID is the name that a request brings along, where it is one, else a new
// one.
func requestID(h http.Header) string {
	id := first(h["X-Paceline-Request-Id"])
	if id == "" || len(id) > 64 || strings.ContainsFunc(id, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	}) {
		return newID()
	}
	return id
}

// newID names a request. Nobody has to be unable to guess it.
func newID() string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	var id [16]byte
	n := rand.Uint64()
	for i := range id {
		if i == len(id)/2 {
			n = rand.Uint64()
		}
		id[i], n = letters[n%uint64(len(letters))], n/uint64(len(letters))
	}
	return string(id[:])
}

// newCall routes a request and says what it may cost: steps 1 and 2. The
// request's body is taken over or closed.
func (t *Transport) newCall(req *http.Request) (_ *call, err error) {
	defer func() {
		if err != nil && req.Body != nil {
			req.Body.Close()
		}
	}()
	if req.URL == nil || req.URL.Host == "" {
		return nil, fmt.Errorf("paceline: the request has no host in its URL")
	}
	to, err := t.route(req)
	if err != nil {
		return nil, err
	}
	e := to.entry
	c := &call{
		transport: t, home: t.home, req: req, ctx: req.Context(), destination: to,
		id: requestID(req.Header), arrived: time.Now(), kind: e.dialect.KindOf(req),
	}
	if c.manners, err = mannersOf(req.Header); err != nil {
		return nil, err
	}
	most := t.MaxReplayBytes
	if most <= 0 {
		most = defaultMaxReplay
	}
	most = min(most, math.MaxInt64-1) // readPayload reads one byte more
	var head []byte
	if c.payload, head, err = c.read(most); err != nil {
		c.reserve(-c.held)
		return nil, err
	}
	if c.turnedAway == nil {
		if head, err = c.remodel(head); err != nil {
			c.close()
			return nil, err
		}
	}
	c.demand = e.dialect.DemandOf(req, head)
	c.become(c.with)
	if c.any && len(e.keys) > 1 {
		c.choices = c.candidates(c.arrived)
		c.rechoose(c.arrived)
	}
	c.first = c.arrived
	c.takePlace()
	c.bound()
	return c, nil
}

// become has the call be made with a configured credential, nil for its own.
func (c *call) become(k *configured) {
	c.with = k
	id := c.identify()
	c.as = c.callerAs(c.account, id)
	c.name = c.as.String()
	c.rules.Bucket = buckets(c.name)
	c.comply()
	c.caller = c.home.book.Caller(c.name, time.Now())
	c.credentialID = id
	c.join(id)
}

// callerAs is who the call is made as with a credential of an account.
func (c *call) callerAs(account, id string) callerKey {
	k := callerOf(c.entry, account, c.home.lineOf(c.entry.Name, id), c.demand.Model)
	if c.kind == dialect.Other {
		k.scope = scopeOther
	}
	return k
}

// read takes over the request's body, if there is room for it.
func (c *call) read(most int64) (p *payload, head []byte, err error) {
	coming := int64(0)
	if c.req.GetBody == nil {
		coming = min(max(0, c.req.ContentLength), most)
	}
	if !c.reserve(coming) {
		return &payload{stream: c.req.Body}, nil, nil
	}
	if p, head, err = readPayload(c.req, most); err == nil {
		kept := len(p.kept)
		if p.stream != nil {
			kept = len(head)
		}
		c.reserve(int64(kept) - coming)
	}
	return p, head, err
}

// close lets go of what the call holds once no attempt can follow.
func (c *call) close() {
	c.payload.close()
	c.reserve(-c.held)
	c.arrive()
}

// plan is what holds for the next start of the call's key.
func (c *call) plan(now time.Time, a policy.Activity) (p policy.Plan) {
	c.follow()
	if !c.entry.Mode.enforced() && !c.queuedSince.IsZero() {
		return policy.Plan{Free: true} // the mode has changed while it waited
	}
	if c.choices != nil && c.current() == nil {
		return policy.Plan{Full: true, Why: "its key is not configured any more"}
	}
	c.look(c.caller, c.name, now, func(s *budget.State, starts *budget.Starts) {
		c.calibrate(s)
		p = c.rules.Plan(s, starts, now, a)
	})
	c.noteUnheeded(p, now)
	return p
}

// turn is the plan of a request that is started where the plan lets it. Of
// several processes one probes after a pause; the others look for what came of
// it, since nobody tells them.
func (c *call) turn(now time.Time, a policy.Activity) policy.Plan {
	p := c.plan(now, a)
	if p.Probes && !c.caller.Claim(now) {
		p.Probing, p.NotBefore, p.Why = true, now.Add(budget.ReadEvery), "another process looks whether a pause is over"
	}
	if soon := now.Add(budget.ReadEvery); p.Probing && c.home.book.Store != nil && p.NotBefore.After(soon) {
		p.NotBefore = soon
	}
	return p
}

// look shows f what is known of a caller key, after it has obeyed what operators
// ordered.
func (c *call) look(caller *budget.Caller, name string, now time.Time, f func(*budget.State, *budget.Starts)) {
	orders := c.home.orders(c.entry.operator, now)
	open := false
	caller.Use(now, func(s *budget.State, starts *budget.Starts) (changed bool) {
		changed, open = s.Obey(&orders, now)
		f(s, starts)
		return changed
	})
	if open {
		// A wait that was ended before the key was seen here.
		c.transport.warn("a stated wait was not ended", c.home.gate.Open(context.WithoutCancel(c.ctx), name))
		c.home.gate.Wake(name)
	}
}

// started books a start, before the next in line may ask.
func (c *call) started(at time.Time) {
	c.arrive()
	c.caller.Use(at, func(s *budget.State, starts *budget.Starts) bool {
		c.booked = starts.Add(at, max(c.rules.Limits.Longest(), budget.Replayed), c.rules.Cost)
		c.rules.Started(s, at)
		return s.Probe.Needed // another process must not probe as well
	})
}

// repeatable reports whether a failure of the request may be repeated: what it
// asks for must not happen twice, or be an answer that is of no use to anybody
// once it is lost.
func (c *call) repeatable(f failure) bool {
	if !c.payload.repeatable() {
		return false
	}
	switch {
	case f == notConnected, f == unprocessed, c.req.Header.Get("Idempotency-Key") != "":
		return true
	case f == noHead:
		return false // it may be running still
	case c.kind == dialect.Inference:
		return !c.demand.Job
	}
	return c.req.Method == http.MethodGet || c.req.Method == http.MethodHead
}

// judge says whether an attempt is followed by another.
func (c *call) judge(a *attempt) policy.Verdict {
	if a.left || a.reading.Class == dialect.OK || a.failure == capped || a.failure == unsendable || c.kind == dialect.Catalog || !c.entry.Mode.enforced() {
		return policy.Verdict{}
	}
	if a.failure == unprocessed && c.unprocessed < maxUnprocessed && c.payload.repeatable() {
		c.unprocessed++
		return c.again(policy.Verdict{Again: true})
	}
	v := c.rules.Judge(&c.tally, a.reading, a.answered, c.repeatable(a.failure))
	if c.spares(a, v) {
		c.notBefore, c.orRelease = time.Time{}, false
		return policy.Verdict{Again: true}
	}
	if !v.Again {
		return v
	}
	if !c.payload.repeatable() {
		return policy.Verdict{} // but its caller may have it still
	}
	if a.stale() && c.tally.Failed == 1 {
		// Servers close connections that have been idle; that is no trouble of
		// theirs that would have to pass.
		v.NotBefore = time.Time{}
	}
	return c.again(v)
}

// maxUnprocessed is how often a request is sent again at once because a server
// has not looked at it. From then on that is a failure as others are.
const maxUnprocessed = 3

// again is a verdict for another attempt, if the caller is patient enough.
func (c *call) again(v policy.Verdict) policy.Verdict {
	if !c.bears(v, time.Now()) {
		return policy.Verdict{GiveUp: true}
	}
	c.notBefore, c.orRelease = v.NotBefore, v.OrRelease
	return v
}

// bears reports whether the caller is patient enough for another attempt, as
// far as one can say now: a refusal is better handed back whole than held.
func (c *call) bears(v policy.Verdict, now time.Time) bool {
	p := c.plan(now, c.home.gate.Activity(c.name))
	waits := p.Quota && c.rules.WaitForQuota
	if most := c.rules.Retry.Patience(); p.Paused && !p.Ordered && !waits && most >= 0 && p.NotBefore.Sub(now) > most {
		return false
	}
	earliest := v.NotBefore
	if p.Paused && p.NotBefore.After(earliest) {
		earliest = p.NotBefore
	}
	return c.deadline.IsZero() || !earliest.After(c.deadline)
}

// unheeded reports whether answers teach nothing: nothing is enforced by it, or
// enforcing would not have asked now.
func (c *call) unheeded() bool {
	return c.kind == dialect.Catalog || c.entry.Mode == Off || c.entry.Mode == Observe && c.observed != nil && c.observed.Wait > 0
}

// keep lets go of an attempt that another follows, but for what is needed to
// hand its refusal back after all.
func (c *call) keep(a *attempt) {
	c.last, c.lastOf, c.trouble = a.refusal(), c.name, nil
	if a.reading.Class != dialect.RateLimited && (c.last != nil || a.res == nil) {
		c.trouble = a
	}
	a.discard()
}

// record is the beginning of a row about the call.
func (c *call) record() Record {
	h := c.req.Header
	return Record{
		ID: c.id, Arrived: c.arrived,
		Provider: c.entry.Name, Credential: c.credential, Account: c.account,
		Scope: c.as.scope, Model: c.demand.Model,
		Observed: c.observed,
		Client:   c.manners.client, Purpose: h.Get("X-Paceline-Purpose"),
		Run: h.Get("X-Paceline-Run"), Priority: c.manners.priority.String(),
	}
}

// logUnsent writes the row of a call that was never sent.
func (c *call) logUnsent(status int, why error) {
	if c.attempts > 0 {
		return // its attempts have their rows
	}
	r := c.record()
	r.Done, r.Status, r.NotSent, r.Error = time.Now(), status, true, c.redacted(why.Error())
	r.Queued = r.Done.Sub(c.arrived)
	r.Aborted = status == statusClientLeft
	c.transport.log(r)
}

// ours reports whether a header is meant for us, and no provider's business.
func ours(name string) bool {
	const prefix = "X-Paceline-"
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// outgoing is the request of one attempt: the caller's own with another body
// and without what is meant for us.
func (c *call) outgoing(ctx context.Context) (*http.Request, error) {
	body, length, err := c.payload.open()
	if err != nil {
		return nil, err
	}
	out := c.req.WithContext(ctx)
	out.Body, out.ContentLength, out.GetBody = body, length, nil
	out.Header = make(http.Header, len(c.req.Header)+1)
	for name, values := range c.req.Header {
		if !ours(name) {
			out.Header[name] = values[:len(values):len(values)]
		}
	}
	if c.with != nil {
		u := *c.req.URL
		out.URL = &u
		c.entry.dialect.SetKey(out.Header, out.URL, c.with.Key)
	}
	return out, nil
}
