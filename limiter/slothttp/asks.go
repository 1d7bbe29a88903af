package slothttp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/paceline-proxy/paceline/limiter"
)

// Acquire asks for one call. Spans are rounded up to the millisecond.
func (c *Client) Acquire(ctx context.Context, r limiter.Request) (limiter.Decision, error) {
	if err := sound(r); err != nil {
		return limiter.Decision{}, err
	}
	result, err := c.do(ctx, "acquire", appendRequest(nil, r))
	if err != nil {
		return limiter.Decision{}, err
	}
	return c.decided("acquire", r, result)
}

// AcquireBatch asks for calls in order and answers each: in one round trip
// where the limiter can do that, else in one for each.
func (c *Client) AcquireBatch(ctx context.Context, rs []limiter.Request) ([]limiter.Decision, error) {
	if !c.can["acquireBatch"] {
		return limiter.AcquireBatch(ctx, justLimiter{c}, rs)
	}
	if len(rs) == 0 {
		return nil, nil
	}
	params := append(make([]byte, 0, 256*len(rs)), `{"requests":[`...)
	for i, r := range rs {
		if err := sound(r); err != nil {
			return nil, fmt.Errorf("request %d of %d: %w", i+1, len(rs), err)
		}
		if i > 0 {
			params = append(params, ',')
		}
		params = appendRequest(params, r)
	}
	result, err := c.do(ctx, "acquireBatch", append(params, "]}"...))
	if err != nil {
		return nil, err
	}
	ds := make([]limiter.Decision, 0, len(rs))
	for name, v := range result.fields() {
		if string(name) != "results" || !v.is('[') {
			continue
		}
		for i, v := range v.items() {
			if i == len(rs) {
				return nil, c.nonsense("acquireBatch", "more results than the %d requests", len(rs))
			}
			d, err := c.decided("acquireBatch", rs[i], v)
			if err != nil {
				return nil, err
			}
			ds = append(ds, d)
		}
	}
	if len(ds) < len(rs) {
		return nil, c.nonsense("acquireBatch", "%d results for %d requests", len(ds), len(rs))
	}
	return ds, nil
}

// justLimiter hides that a Client is more.
type justLimiter struct{ limiter.Limiter }

// sound finds what the wire cannot say.
func sound(r limiter.Request) error {
	if err := r.Validate(); err != nil {
		return err
	}
	return soundLimits(r.Key, r.Limits)
}

func soundLimits(key string, limits []limiter.Limit) error {
	if err := soundKey(key); err != nil {
		return err
	}
	for _, l := range limits {
		if err := soundKey(l.Key); err != nil {
			return err
		}
	}
	return nil
}

// soundKey has JSON not make two keys one.
func soundKey(key string) error {
	if !utf8.ValidString(key) {
		return fmt.Errorf("%w: the key %q is not UTF-8, and JSON has no other text", limiter.ErrInvalid, key)
	}
	return nil
}

// appendRequest writes a request as the wire has it.
func appendRequest(b []byte, r limiter.Request) []byte {
	b = appendText(append(b, `{"key":`...), r.Key)
	b = appendLimits(append(b, `,"limits":`...), r.Limits)
	b = appendWhole(b, `,"cost":`, int64(r.Cost))
	return append(appendWhole(b, `,"holdMs":`, ms(r.Hold)), '}')
}

func appendLimits(b []byte, limits []limiter.Limit) []byte {
	b = append(b, '[')
	for i, l := range limits {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(append(b, `{"key":`...), l.Key)
		b = appendWhole(b, `,"calls":`, int64(l.Calls))
		b = appendWhole(b, `,"perMs":`, ms(l.Per))
		b = appendWhole(b, `,"concurrent":`, int64(l.Concurrent))
		b = append(appendWhole(b, `,"cost":`, int64(l.Cost)), '}')
	}
	return append(b, ']')
}

// decided is what an answer means. A limiter that says no more than it has to,
// granted or retryAt, is understood: its clock is then taken to be this one's,
// and every limit of the request to have refused.
func (c *Client) decided(method string, r limiter.Request, v value) (d limiter.Decision, err error) {
	var f faults
	var granted value
	var after int64
	if f.object(v, nil) {
		for name, v := range v.fields() {
			switch string(name) {
			case "granted":
				granted = v
			case "permit":
				d.Permit = f.text(v, &path{nil, "permit", -1})
			case "now":
				d.Now = f.instant(v, &path{nil, "now", -1})
			case "retryAt":
				d.RetryAt = f.instant(v, &path{nil, "retryAt", -1})
			case "retryAfterMs":
				after, _ = v.whole()
			case "refused":
				d.Refused = f.refused(v)
			}
		}
	}
	d.Granted = string(granted) == "true"
	switch {
	case f.errs != nil:
		return d, c.nonsense(method, "the result cannot be read: %w", f.errs[0])
	case !d.Granted && string(granted) != "false":
		return d, c.nonsense(method, "the result does not say whether it is granted")
	case !d.Granted && d.RetryAt.IsZero():
		return d, c.nonsense(method, "a refusal without retryAt")
	}
	if d.Now.IsZero() {
		d.Now = time.Now().Round(0)
	}
	if d.Granted {
		return limiter.Decision{Granted: true, Permit: d.Permit, Now: d.Now}, nil
	}
	wait := d.RetryAfter()
	if after > 0 && after <= mostMs {
		wait = span(after) // both instants are rounded
	}
	// Never at once: whoever asks would spin.
	d.Permit, d.Now = "", d.RetryAt.Add(-max(wait, time.Millisecond))
	for i := range d.Refused {
		if d.Refused[i].RetryAt.IsZero() {
			d.Refused[i].RetryAt = d.RetryAt
		}
	}
	if len(d.Refused) == 0 {
		d.Refused = suspects(r, d.RetryAt)
	}
	return d, nil
}

func (f *faults) refused(v value) (all []limiter.Refusal) {
	if !f.list(v, &path{nil, "refused", -1}) {
		return nil
	}
	for i, v := range v.items() {
		at := path{nil, "refused", i}
		if !f.object(v, &at) {
			continue
		}
		var r limiter.Refusal
		for name, v := range v.fields() {
			switch string(name) {
			case "key":
				r.Key = f.text(v, &path{&at, "key", -1})
			case "cause":
				r.Cause = limiter.Cause(f.text(v, &path{&at, "cause", -1}))
			case "retryAt":
				r.RetryAt = f.instant(v, &path{&at, "retryAt", -1})
			}
		}
		all = append(all, r)
	}
	return all
}

// suspects are all that may have refused a request.
func suspects(r limiter.Request, at time.Time) []limiter.Refusal {
	var all []limiter.Refusal
	for _, l := range r.Limits {
		cause := limiter.Rate
		if l.Concurrent > 0 {
			cause = limiter.Concurrent
		}
		all = append(all, limiter.Refusal{Key: l.Key, Cause: cause, RetryAt: at})
	}
	if all == nil {
		all = []limiter.Refusal{{Key: r.Key, Cause: limiter.Throttle, RetryAt: at}}
	}
	return all
}

// Release gives back the places a permit holds.
func (c *Client) Release(ctx context.Context, permit string) error {
	return c.tell(ctx, "release", `{"permit":`, permit, "}")
}

// tell makes a call whose params are a text and what is around it, and that has
// no result.
func (c *Client) tell(ctx context.Context, method, before, text, after string) error {
	params := append(appendText([]byte(before), text), after...)
	_, err := c.do(ctx, method, params)
	return err
}

// Throttle closes the caller's key until an instant of this machine's clock.
// One that has passed makes no call.
func (c *Client) Throttle(ctx context.Context, key string, until time.Time) error {
	if err := soundKey(key); err != nil {
		return err
	}
	left := ms(time.Until(until))
	if left <= 0 && !c.closed.Load() {
		return nil
	}
	after := appendInstant([]byte(`,"until":`), until)
	after = appendWhole(after, `,"forMs":`, left)
	return c.tell(ctx, "throttle", `{"key":`, key, string(append(after, '}')))
}

// Open ends the throttle of a caller's key.
func (c *Client) Open(ctx context.Context, key string) error {
	if err := soundKey(key); err != nil {
		return err
	}
	return c.tell(ctx, "openKey", `{"key":`, key, "}")
}

// Renew makes each permit last for hold from now.
func (c *Client) Renew(ctx context.Context, permits []string, hold time.Duration) error {
	if hold <= 0 {
		return fmt.Errorf("%w: hold %v is not positive", limiter.ErrInvalid, hold)
	}
	params := []byte(`{"permits":[`)
	for i, permit := range permits {
		if i > 0 {
			params = append(params, ',')
		}
		params = appendText(params, permit)
	}
	params = append(appendWhole(append(params, ']'), `,"holdMs":`, ms(hold)), '}')
	_, err := c.do(ctx, "renew", params)
	return err
}

// Settle says what a permit's call has cost so far.
func (c *Client) Settle(ctx context.Context, permit string, costs []limiter.Cost) error {
	after := []byte(`,"costs":[`)
	for i, cost := range costs {
		if cost.Cost < 0 {
			return fmt.Errorf("%w: cost %d of %q is negative", limiter.ErrInvalid, cost.Cost, cost.Key)
		}
		if err := soundKey(cost.Key); err != nil {
			return err
		}
		if i > 0 {
			after = append(after, ',')
		}
		after = appendText(append(after, `{"key":`...), cost.Key)
		after = append(strconv.AppendInt(append(after, `,"cost":`...), int64(cost.Cost), 10), '}')
	}
	return c.tell(ctx, "settle", `{"permit":`, permit, string(append(after, "]}"...)))
}

// Peek says how full limits are and until when the caller's key is closed.
func (c *Client) Peek(ctx context.Context, key string, limits []limiter.Limit) (limiter.View, error) {
	if err := soundLimits(key, limits); err != nil {
		return limiter.View{}, err
	}
	for _, l := range limits {
		if l.Calls < 0 || l.Per < 0 || l.Concurrent < 0 || l.Cost < 0 {
			return limiter.View{}, fmt.Errorf("%w: limit %q has a negative number", limiter.ErrInvalid, l.Key)
		}
	}
	var out peekResult
	if err := c.look(ctx, "peek", appendRequest(nil, limiter.Request{Key: key, Limits: limits}), &out); err != nil {
		return limiter.View{}, err
	}
	if len(out.Usage) != len(limits) {
		return limiter.View{}, c.nonsense("peek", "usage of %d limits for %d", len(out.Usage), len(limits))
	}
	v := limiter.View{Now: time.Time(out.Now), Usage: make([]limiter.Usage, len(limits))}
	if out.Throttled != nil {
		v.Throttled = time.Time(*out.Throttled)
	}
	for i, u := range out.Usage {
		v.Usage[i] = limiter.Usage(u)
	}
	return v, nil
}

// look makes a call and reads its result with encoding/json.
func (c *Client) look(ctx context.Context, method string, params []byte, into any) error {
	result, err := c.do(ctx, method, params)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(result, into); err != nil {
		return c.nonsense(method, "the result cannot be read: %w", err)
	}
	return nil
}

func (c *Client) nonsense(method, format string, args ...any) *Error {
	return c.at.Load().nonsense(method, format, args...)
}

// Seed counts a call that was granted at an earlier instant of this machine's
// clock.
func (c *Client) Seed(ctx context.Context, limits []limiter.Limit, at time.Time) error {
	if err := soundLimits("", limits); err != nil {
		return err
	}
	params := appendLimits([]byte(`{"limits":`), limits)
	params = append(params, `,"agoMs":`...)
	params = strconv.AppendInt(params, max(0, time.Since(at).Milliseconds()), 10)
	_, err := c.do(ctx, "seed", append(params, '}'))
	return err
}

// Get returns what is stored, nil where nothing is.
func (c *Client) Get(ctx context.Context, key string) ([]byte, error) {
	if err := soundKey(key); err != nil {
		return nil, err
	}
	var out getResult
	err := c.look(ctx, "get", append(appendText([]byte(`{"key":`), key), '}'), &out)
	return out.Value, err
}

// Update replaces what is stored by f of it, again and again until nobody else
// has meanwhile.
func (c *Client) Update(ctx context.Context, key string, f func(old []byte) []byte) error {
	old, err := c.Get(ctx, key)
	for err == nil {
		var params []byte
		params, err = json.Marshal(struct {
			Key string `json:"key"`
			Old []byte `json:"old"`
			New []byte `json:"new"`
		}{key, bytes.Clone(old), f(old)})
		if err != nil {
			return fmt.Errorf("what is to be stored: %w", err)
		}
		var out swapResult
		if err = c.look(ctx, "swap", params, &out); out.Swapped {
			return nil
		}
		old = out.Value
	}
	return err
}
