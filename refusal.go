package paceline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/gate"
)

// maxHeldBody bounds the refusals kept for those who meet the pause they made.
const maxHeldBody = 64 << 10

// A refusal is a copy of a provider's answer, kept to be handed back.
type refusal struct {
	status int
	header http.Header
	body   []byte
	until  time.Time // the end of the pause it made
}

// refusal copies the answer of the attempt, nil where there is none or it is
// too large to be kept whole.
func (a *attempt) refusal() *refusal {
	if a.res == nil || !a.whole {
		return nil
	}
	return &refusal{status: a.res.StatusCode, header: a.res.Header.Clone(), body: a.body}
}

// response is the refusal as it came.
func (r *refusal) response(c *call, giveUp bool) *http.Response {
	res := c.reply(r.status, r.header.Clone(), r.body)
	c.mark(res.Header, giveUp)
	return res
}

// rest is the refusal for a request that met only the pause it made: what it
// says of a wait is what is left of it.
func (r *refusal) rest(c *call, why *gate.Refused) *http.Response {
	res := r.response(c, true)
	res.Header.Set("X-Paceline-Refused", string(why.Reason))
	left := time.Until(why.Until)
	res.Header.Set("Retry-After", strconv.FormatInt(wholeSeconds(left), 10))
	if res.Header.Get("Retry-After-Ms") != "" {
		res.Header.Set("Retry-After-Ms", strconv.FormatInt(left.Milliseconds()+1, 10))
	}
	return res
}

// mark adds what the caller may know of the way its answer took.
func (c *call) mark(h http.Header, giveUp bool) {
	values := [...]string{c.id, c.entry.Name, strconv.Itoa(c.attempts), strconv.FormatInt(c.queued.Milliseconds(), 10)}
	for i, name := range [...]string{"X-Paceline-Request-Id", "X-Paceline-Provider", "X-Paceline-Attempts", "X-Paceline-Queued-Ms"} {
		h[name] = values[i : i+1 : i+1]
	}
	if giveUp {
		// An SDK that repeats by itself would multiply what was tried here.
		h.Set("X-Should-Retry", "false")
	}
}

// reply builds an answer that no connection brought.
func (c *call) reply(status int, h http.Header, body []byte) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
		Request: c.req,
	}
}

// longestSaid is the longest Retry-After we make up: several SDKs take no
// notice of a minute or more.
const longestSaid = 59

// synthetic refuses a request that was not sent, in the shape of its API.
func synthetic(c *call, why *gate.Refused) *http.Response {
	now := time.Now()
	message := fmt.Sprintf("paceline did not send this request to %s: %s. It waited %v in paceline's line",
		c.entry.Name, why.Why, now.Sub(c.arrived).Round(time.Millisecond))
	h := http.Header{}
	if again := comeAgain[why.Reason]; again > 0 {
		tell(h, again)
	} else if !why.Until.IsZero() {
		left := max(0, why.Until.Sub(now))
		tell(h, left)
		message += fmt.Sprintf("; a start is possible at %s, in %v", why.Until.UTC().Format(time.RFC3339), left.Round(time.Millisecond))
	}
	message += remedy[why.Reason]
	h.Set("X-Paceline-Refused", string(why.Reason))
	status, kind := http.StatusTooManyRequests, "rate_limit_error"
	if why.Reason == gate.Drain || why.Reason == gate.Bounds {
		status, kind = http.StatusServiceUnavailable, "overloaded_error"
	}
	res := c.failed(status, h, kind, "paceline_"+string(why.Reason), message+".")
	if keepsPlace(why) {
		h.Set("X-Should-Retry", "true")
	}
	return res
}

// tell says a wait in the headers that SDKs read.
func tell(h http.Header, wait time.Duration) {
	h.Set("Retry-After", strconv.FormatInt(min(longestSaid, wholeSeconds(wait)), 10))
	h.Set("Retry-After-Ms", strconv.FormatInt((wait+time.Millisecond-1).Milliseconds(), 10))
}

// comeAgain is after how long those may come again whose turn was not the
// matter.
var comeAgain = map[gate.Reason]time.Duration{gate.Queue: time.Second, gate.Drain: time.Second, gate.Bounds: 5 * time.Second}

// remedy is what a caller can do about a refusal of ours.
var remedy = map[gate.Reason]string{
	gate.Pause:    ". Come again then, or wait for it: X-Paceline-Wait-For-Capacity: 1, or a longer Retry.MaxWait",
	gate.Quota:    ". Come again then, or wait for it: X-Paceline-Quota: wait",
	gate.Queue:    ". Come again with the same request: it goes on from where it stood in line",
	gate.Drain:    ". Come again with the same request",
	gate.Bounds:   ". Send fewer at once, or raise it",
	gate.Deadline: ". Give the request more time (its context, X-Paceline-Max-Wait), or send fewer",
}

// timedOut answers a request whose attempt was cut before its head.
func timedOut(c *call, after time.Duration, what string) *http.Response {
	return c.failed(http.StatusGatewayTimeout, http.Header{}, "timeout_error", "paceline_timeout",
		fmt.Sprintf("paceline cut this request to %s after %v: %s.", c.entry.Name, after, what))
}

// failed is an error in the shape of the request's API.
func (c *call) failed(status int, h http.Header, kind, code, message string) *http.Response {
	var body any
	if c.entry.dialect.API == dialect.AnthropicAPI || strings.HasSuffix(c.req.URL.Path, "/messages") {
		body = map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": message}}
	} else {
		body = map[string]any{"error": map[string]any{"message": message, "type": kind, "param": nil, "code": code}}
	}
	b, err := json.Marshal(body)
	if err != nil {
		b = []byte("{}") // strings always marshal
	}
	h.Set("Content-Type", "application/json")
	c.mark(h, true)
	return c.reply(status, h, b)
}

// wholeSeconds rounds a wait up, so that nobody comes early.
func wholeSeconds(d time.Duration) int64 {
	return int64(max(0, (d+time.Second-1)/time.Second))
}
