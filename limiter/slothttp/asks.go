package slothttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/paceline-proxy/paceline/limiter"
)

// Acquire asks for one call. Spans are rounded up to the millisecond.
func (c *Client) Acquire(ctx context.Context, r limiter.Request) (limiter.Decision, error) {
	if err := sound(r); err != nil {
		return limiter.Decision{}, err
	}
	var d decision
	if err := c.do(ctx, "acquire", requested(r), &d); err != nil {
		return limiter.Decision{}, err
	}
	return c.decided("acquire", r, d)
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
	requests := make([]wireRequest, len(rs))
	for i, r := range rs {
		if err := sound(r); err != nil {
			return nil, fmt.Errorf("request %d of %d: %w", i+1, len(rs), err)
		}
		requests[i] = requested(r)
	}
	var out batchResult
	if err := c.do(ctx, "acquireBatch", batchParams{&requests}, &out); err != nil {
		return nil, err
	}
	if len(out.Results) != len(rs) {
		return nil, c.at.Load().nonsense("acquireBatch", "%d results for %d requests", len(out.Results), len(rs))
	}
	ds := make([]limiter.Decision, len(rs))
	for i, d := range out.Results {
		var err error
		if ds[i], err = c.decided("acquireBatch", rs[i], d); err != nil {
			return nil, err
		}
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

func requested(r limiter.Request) wireRequest {
	limits := limited(r.Limits)
	return wireRequest{Key: &r.Key, Limits: &limits, Cost: unlessZero(int64(r.Cost)), HoldMs: unlessZero(ms(r.Hold))}
}

func limited(limits []limiter.Limit) []wireLimit {
	out := make([]wireLimit, len(limits))
	for i := range limits {
		l := &limits[i]
		out[i] = wireLimit{
			Key:        &l.Key,
			Calls:      unlessZero(int64(l.Calls)),
			PerMs:      unlessZero(ms(l.Per)),
			Concurrent: unlessZero(int64(l.Concurrent)),
			Cost:       unlessZero(int64(l.Cost)),
		}
	}
	return out
}

func unlessZero(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

// decided is what an answer means. A limiter that says no more than it has to,
// granted or retryAt, is understood: its clock is then taken to be this one's,
// and every limit of the request to have refused.
func (c *Client) decided(method string, r limiter.Request, w decision) (limiter.Decision, error) {
	d := limiter.Decision{Granted: w.Granted, Now: time.Now().Round(0)}
	if w.Now != nil {
		d.Now = time.Time(*w.Now)
	}
	if w.Granted {
		if w.Permit != nil {
			d.Permit = *w.Permit
		}
		return d, nil
	}
	if w.RetryAt == nil {
		return d, c.at.Load().nonsense(method, "a refusal without retryAt")
	}
	d.RetryAt = time.Time(*w.RetryAt)
	after := d.RetryAfter()
	if n := w.RetryAfterMs; n != nil && *n > 0 && *n <= mostMs {
		after = span(*n)
	}
	// Never at once: whoever asks would spin.
	d.Now = d.RetryAt.Add(-max(after, time.Millisecond))
	for _, f := range w.Refused {
		refused := limiter.Refusal{Key: f.Key, Cause: f.Cause, RetryAt: d.RetryAt}
		if f.RetryAt != nil {
			refused.RetryAt = time.Time(*f.RetryAt)
		}
		d.Refused = append(d.Refused, refused)
	}
	if len(d.Refused) == 0 {
		d.Refused = suspects(r, d.RetryAt)
	}
	return d, nil
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
	return c.do(ctx, "release", permitParams{Permit: &permit}, nil)
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
	return c.do(ctx, "throttle", throttleParams{Key: &key, Until: at(until), ForMs: &left}, nil)
}

// Open ends the throttle of a caller's key.
func (c *Client) Open(ctx context.Context, key string) error {
	if err := soundKey(key); err != nil {
		return err
	}
	return c.do(ctx, "openKey", keyParams{&key}, nil)
}

// Renew makes each permit last for hold from now.
func (c *Client) Renew(ctx context.Context, permits []string, hold time.Duration) error {
	if hold <= 0 {
		return fmt.Errorf("%w: hold %v is not positive", limiter.ErrInvalid, hold)
	}
	if permits == nil {
		permits = []string{}
	}
	n := ms(hold)
	return c.do(ctx, "renew", renewParams{&permits, &n}, nil)
}

// Settle says what a permit's call has cost so far.
func (c *Client) Settle(ctx context.Context, permit string, costs []limiter.Cost) error {
	out := make([]wireCost, len(costs))
	for i, cost := range costs {
		if cost.Cost < 0 {
			return fmt.Errorf("%w: cost %d of %q is negative", limiter.ErrInvalid, cost.Cost, cost.Key)
		}
		if err := soundKey(cost.Key); err != nil {
			return err
		}
		n := int64(cost.Cost)
		out[i] = wireCost{&cost.Key, &n}
	}
	return c.do(ctx, "settle", permitParams{&permit, &out}, nil)
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
	asked := limited(limits)
	var out peekResult
	if err := c.do(ctx, "peek", wireRequest{Key: &key, Limits: &asked}, &out); err != nil {
		return limiter.View{}, err
	}
	if out.Now == nil || len(out.Usage) != len(limits) {
		return limiter.View{}, c.at.Load().nonsense("peek", "usage of %d limits for %d", len(out.Usage), len(limits))
	}
	v := limiter.View{Now: time.Time(*out.Now), Usage: make([]limiter.Usage, len(limits))}
	if out.Throttled != nil {
		v.Throttled = time.Time(*out.Throttled)
	}
	for i, u := range out.Usage {
		v.Usage[i] = limiter.Usage(u)
	}
	return v, nil
}

// Seed counts a call that was granted at an earlier instant of this machine's
// clock.
func (c *Client) Seed(ctx context.Context, limits []limiter.Limit, at time.Time) error {
	if err := soundLimits("", limits); err != nil {
		return err
	}
	asked := limited(limits)
	ago := max(0, time.Since(at).Milliseconds())
	return c.do(ctx, "seed", seedParams{&asked, &ago}, nil)
}

// Get returns what is stored, nil where nothing is.
func (c *Client) Get(ctx context.Context, key string) ([]byte, error) {
	if err := soundKey(key); err != nil {
		return nil, err
	}
	var out getResult
	if err := c.do(ctx, "get", keyParams{&key}, &out); err != nil || out.Value == nil {
		return nil, err
	}
	return *out.Value, nil
}

// Update replaces what is stored by f of it, again and again until nobody else
// has meanwhile.
func (c *Client) Update(ctx context.Context, key string, f func(old []byte) []byte) error {
	old, err := c.Get(ctx, key)
	for err == nil {
		var out swapResult
		err = c.swap(ctx, swapParams{Key: &key, Old: blob(bytes.Clone(old)), New: blob(f(old))}, &out)
		if err != nil || out.Swapped {
			return err
		}
		if old = nil; out.Value != nil {
			old = *out.Value
		}
	}
	return err
}

// swap is asked for where get is there.
func (c *Client) swap(ctx context.Context, p swapParams, out *swapResult) error {
	err := c.do(ctx, "swap", p, out)
	if errors.Is(err, errors.ErrUnsupported) {
		return c.at.Load().nonsense("swap", "it knows get, and not swap")
	}
	return err
}
