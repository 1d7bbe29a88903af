package paceline

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/gate"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/policy"
)

// A Queue is how requests wait in a program that serves clients it does not
// control, such as a proxy. The zero Queue is that of a library: how long a
// request waits is said by its context and X-Paceline-Max-Wait, a place in line
// ends with the request, and nothing bounds how many wait.
type Queue struct {
	// ClientTimeout is how long clients are known to wait for an answer, 0 where
	// that is not known. The least of it, the context, X-Paceline-Max-Wait, and
	// X-Stainless-Timeout and X-Stainless-Read-Timeout (which SDKs send, in
	// seconds) is how long a client waits; at 90 % of it a request that waits
	// is answered 429 with Retry-After: 1, X-Should-Retry: true and
	// X-Paceline-Refused: queue, so that it is not left to time out in silence.
	ClientTimeout time.Duration
	// Keep is how long a place in line outlives the connection of its request:
	// the same client that sends the same path, model and body takes it again.
	// X-Paceline-Max-Wait is then counted from when the request first came. 0:
	// not at all.
	Keep time.Duration
	// MaxWaiting bounds the requests that wait, MaxHeldBytes the bodies kept
	// while they may have to be sent again. What goes beyond is answered 503
	// with Retry-After and X-Paceline-Refused: bounds. 0: no bound.
	MaxWaiting   int
	MaxHeldBytes int64
}

// A Client is what is declared for those who name themselves in
// X-Paceline-Client.
type Client struct {
	// MaxConcurrent bounds the client's requests in flight, over all
	// providers. 0: no bound.
	MaxConcurrent int
}

// A Quota is what becomes of requests that meet a spent quota.
type Quota string

// What becomes of them.
const (
	// QuotaFail hands the refusal back where the quota's reset is farther off
	// than Retry.MaxWait. The default, but for background requests.
	QuotaFail Quota = "fail"
	// QuotaWait waits for the reset, without bound.
	QuotaWait Quota = "wait"
)

func (q Quota) validate() error {
	if q != "" && q != QuotaFail && q != QuotaWait {
		return fmt.Errorf("quota is %q: it is %q or %q", q, QuotaFail, QuotaWait)
	}
	return nil
}

// defaultShare is the share of the background.
const defaultShare = 0.7

// validateQueue reports everything impossible in how requests are to wait.
func (t *Transport) validateQueue() error {
	var errs []error
	q := t.Queue
	if q.ClientTimeout < 0 || q.Keep < 0 || q.MaxWaiting < 0 || q.MaxHeldBytes < 0 {
		errs = append(errs, fmt.Errorf("the Queue is %+v: nothing in it is negative; 0 is no bound", q))
	}
	if !(t.Background >= 0 && t.Background <= 1) {
		errs = append(errs, fmt.Errorf("the share Background is %v: give a share from 0 to 1", t.Background))
	}
	for name, c := range t.Clients {
		if c.MaxConcurrent < 0 {
			errs = append(errs, fmt.Errorf("MaxConcurrent of client %q is %d: give a number from 1, or 0 for no bound", name, c.MaxConcurrent))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("paceline: %w", err)
	}
	return nil
}

// ErrHeader is wrapped by the errors of a RoundTrip whose request says
// something impossible in its headers. Nothing was sent.
var ErrHeader = errors.New("a header cannot be understood")

func badHeader(name, value, give string) error {
	return fmt.Errorf("paceline: %w: %s is %q: %s", ErrHeader, name, value, give)
}

// manners are what a request says of how it wants to wait.
type manners struct {
	client   string
	priority gate.Priority
	maxWait  time.Duration // negative: not said
	capacity bool          // wait without bound
	quota    Quota         // empty: not said
	// timeout is after how long its client gives up, 0 where it does not say.
	timeout time.Duration
}

// mannersOf reads the headers of a request.
func mannersOf(h http.Header) (m manners, err error) {
	for _, name := range [...]string{"X-Paceline-Client", "X-Claude-Code-Session-Id", "Session-Id"} {
		if m.client = first(h[name]); m.client != "" {
			break
		}
	}
	if m.priority, err = priorityOf(h); err != nil {
		return m, err
	}
	m.maxWait = -1
	if v := first(h["X-Paceline-Max-Wait"]); v != "" {
		if m.maxWait, err = time.ParseDuration(v); err != nil || m.maxWait < 0 {
			return m, badHeader("X-Paceline-Max-Wait", v, "give a duration such as 90s or 10m")
		}
	}
	switch v := first(h["X-Paceline-Wait-For-Capacity"]); v {
	case "", "0":
	case "1":
		m.capacity = true
	default:
		return m, badHeader("X-Paceline-Wait-For-Capacity", v, "it is 1 or 0")
	}
	v := first(h["X-Paceline-Quota"])
	if m.quota = Quota(v); m.quota.validate() != nil {
		return m, badHeader("X-Paceline-Quota", v, "it is wait or fail")
	}
	for _, name := range [...]string{"X-Stainless-Timeout", "X-Stainless-Read-Timeout"} {
		if d := seconds(first(h[name])); d > 0 && (m.timeout == 0 || d < m.timeout) {
			m.timeout = d
		}
	}
	return m, nil
}

// first is the first value of a header, as its Get gives, but for the time that
// takes to look whether a name is written as it should be.
func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// priorityOf reads a request's priority, or guesses it from what Claude Code
// says of its requests: somebody waits for its conversation.
func priorityOf(h http.Header) (gate.Priority, error) {
	switch v := first(h["X-Paceline-Priority"]); v {
	case "interactive":
		return gate.Interactive, nil
	case "normal":
		return gate.Normal, nil
	case "background":
		return gate.Background, nil
	case "":
	default:
		return 0, badHeader("X-Paceline-Priority", v, "it is interactive, normal or background")
	}
	switch first(h["X-Claude-Code-Request-Class"]) {
	case "main", "compaction":
		return gate.Interactive, nil
	}
	return gate.Normal, nil
}

// seconds reads what an SDK says of its timeout, 0 where that says nothing:
// it is not meant for us, and not worth an error.
func seconds(s string) time.Duration {
	if s == "" || strings.Trim(s, "0123456789.") != "" {
		return 0
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || n >= float64(math.MaxInt64/time.Second) {
		return 0
	}
	return time.Duration(n * float64(time.Second))
}

// comply takes over what the entry says of limits and waiting, as far as the
// request does not say it itself.
func (c *call) comply() {
	e, m := c.entry, c.manners
	e.Budgets.bind(&c.rules)
	c.rules.Reports = e.dialect.Reports && c.kind == dialect.Inference
	c.rules.Retry = e.Retry
	c.rules.Retry.WaitForCapacity = e.WaitForCapacity || m.capacity || waitsForCapacity(c.ctx)
	quota := Quota(orElse(string(m.quota), string(e.Quota)))
	c.rules.WaitForQuota = quota == QuotaWait || quota == "" && m.priority == gate.Background
	if c.kind == dialect.Other {
		c.rules.Limits = Limits{Adaptive: Adaptive{Off: true}}
		return
	}
	c.rules.Limits = e.Limits
	if c.rules.Share = c.transport.Background; c.rules.Share == 0 {
		c.rules.Share = defaultShare
	}
	c.own()
}

// bound sets how long the call waits.
func (c *call) bound() {
	t, m := c.transport, c.manners
	c.deadline, _ = c.ctx.Deadline()
	if m.maxWait >= 0 {
		c.deadline = sooner(c.deadline, c.first.Add(m.maxWait))
	}
	if t.Queue == (Queue{}) {
		return
	}
	var gone time.Time
	for _, d := range []time.Duration{t.Queue.ClientTimeout, m.timeout} {
		if d > 0 {
			gone = sooner(gone, c.arrived.Add(d))
		}
	}
	if gone = sooner(gone, c.deadline); !gone.IsZero() {
		c.leave = c.arrived.Add(gone.Sub(c.arrived) / 10 * 9)
	}
}

// sooner is the earlier of two instants, of which zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// buckets names where the units of a key count. The usual ones are written
// once: plans are made often.
func buckets(key string) func(unit string) string {
	requests, places := key+"/"+policy.Requests, key+"/"+policy.Places
	return func(unit string) string {
		switch unit {
		case policy.Requests:
			return requests
		case policy.Places:
			return places
		}
		return key + "/" + unit
	}
}

// own sets the limits that not all requests of the caller key have, and the
// lane of those that share them.
func (c *call) own() {
	var client, background string
	model := c.entry.own(&c.rules, c.as, c.demand.Model)
	if n := c.transport.Clients[c.manners.client].MaxConcurrent; n > 0 {
		client = c.manners.client
		c.rules.Client = limiter.Limit{Key: "~clients/" + url.PathEscape(client) + "//" + policy.Places, Concurrent: n}
	}
	if c.manners.priority == gate.Background {
		background = policy.Background
	}
	if model+client+background != "" {
		c.lane = strings.Join([]string{model, client, background}, "\x00")
	}
}

// own gives rules the limits that a model has of its own, and returns the
// pattern they are declared for, empty for none.
func (e *entry) own(r *policy.Rules, as callerKey, model string) (pattern string) {
	r.Own, r.OwnBucket = Limits{}, nil
	for _, m := range e.models {
		if m.covers(model) {
			key := callerKey{as.provider, as.account, "~models/" + m.pattern}
			r.Own, r.OwnBucket = m.limits, buckets(key.String())
			return m.pattern
		}
	}
	return ""
}

// reserve counts bytes of a body that are kept, or are about to be. It reports
// whether there is room for them.
func (c *call) reserve(n int64) bool {
	c.held += n
	held, most := c.transport.held.Add(n), c.transport.Queue.MaxHeldBytes
	if n <= 0 || most == 0 || held <= most {
		return true
	}
	c.turnedAway = &gate.Refused{Reason: gate.Bounds, Why: fmt.Sprintf(
		"%d MiB of waiting requests are held already. Queue.MaxHeldBytes (queue.maxHeldBytes) says how many may be", most>>20)}
	return false
}

// waits counts a request that begins to wait.
func (c *call) waits() error {
	if c.waiting {
		return nil // it has but gone to another line
	}
	c.waiting = true
	n, most := c.transport.waiting.Add(1), c.transport.Queue.MaxWaiting
	if most == 0 || n <= int64(most) {
		return nil
	}
	return &gate.Refused{Reason: gate.Bounds, Why: fmt.Sprintf(
		"%d requests wait already. Queue.MaxWaiting (queue.maxWaiting) says how many may", most)}
}
