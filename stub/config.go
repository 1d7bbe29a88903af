package stub

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Config says how a stub behaves. The zero value is a provider without meters
// that answers everything at once.
type Config struct {
	// Meters that all have to admit a request. A refused request counts in
	// none of them, unless Penalise is set. What can be told of only one is
	// told of the first; the others are limits that nobody told the client of.
	Meters []Meter

	// Charge is how a request counts in meters of tokens. Empty means
	// [ChargeProduced].
	Charge Charge

	// Concurrent is the most requests in service at once, on top of any meter.
	// 0 means no such cap.
	Concurrent int

	// Penalise lets refused requests count too: in a rolling or fixed window
	// like an admitted one, in a bucket as a token, down to Burst tokens below
	// empty. Asking again too soon then makes it worse.
	Penalise bool

	// Other is another client that spends from the same meters.
	Other Other

	// Jitter is the longest time a request is in transit before it arrives at
	// the meters: each draws from [0, Jitter).
	Jitter time.Duration

	// Service is how long a generation takes. ServiceSpread adds to each a
	// draw from [0, ServiceSpread).
	Service, ServiceSpread time.Duration

	// Ping is how long a streamed answer stays silent before it shows that it
	// is alive: by Anthropic's ping event, in the other APIs by a comment. 0
	// means never.
	Ping time.Duration

	// StopsWithClient ends a generation when its client leaves. Without it the
	// generation goes on, and keeps its place until its service is over, which
	// is what providers do.
	StopsWithClient bool

	// RetryAfter is how a refusal tells the wait until the meters would admit
	// one request. Empty means [RetryAfterSeconds].
	RetryAfter RetryAfter

	// Headers is whose budget headers answers and refusals carry. Empty means
	// [HeadersNone]. A cap on concurrency has none.
	Headers Headers

	// Refusals is whose way of refusing a meter has: status, body and whether
	// there is a Retry-After. Empty means that of Headers; where it has none of
	// its own, the API's.
	Refusals Refusals

	// HeadersAt is the instant the budget headers speak of. Empty means
	// [AtAdmission].
	HeadersAt HeadersAt

	// Faults that strike requests the meters admitted. The first that applies
	// to a request wins.
	Faults Faults

	// Script is used up from the front, one step for each generation request,
	// before any meter is asked. After its end the meters decide.
	Script []Step

	// Seed of everything drawn at random. Equal seeds draw equal numbers, in
	// the order in which the requests enter.
	Seed uint64

	// TrackRepeats recognises repeated requests that carry neither an
	// Idempotency-Key nor an X-Stub-Request header by their bodies. Leave it
	// off where equal bodies are ordinary, as in a load test.
	TrackRepeats bool

	// Window is the span [Counts.PeakWindow] is taken over. 0 means the Per of
	// the first meter, or one minute where there is none.
	Window time.Duration
}

func (c Config) clone() Config {
	c.Meters = slices.Clone(c.Meters)
	c.Faults = slices.Clone(c.Faults)
	c.Script = slices.Clone(c.Script)
	for i := range c.Script {
		c.Script[i].Header = c.Script[i].Header.Clone()
	}
	return c
}

func (c Config) validate() error {
	var faults []error
	bad := func(format string, a ...any) { faults = append(faults, fmt.Errorf("stub: "+format, a...)) }
	add := func(where string, err error) {
		if err != nil {
			bad("%s: %w", where, err)
		}
	}
	for i, m := range c.Meters {
		add(fmt.Sprintf("meter %d", i+1), m.validate(c.Concurrent))
	}
	if c.Concurrent < 0 {
		bad("concurrent is %d; it must be 0 (no cap) or more", c.Concurrent)
	}
	for _, d := range []struct {
		name string
		is   time.Duration
	}{
		{"jitter", c.Jitter}, {"service", c.Service}, {"service spread", c.ServiceSpread}, {"ping", c.Ping}, {"window", c.Window},
	} {
		if d.is < 0 {
			bad("%s is %v; it must not be negative", d.name, d.is)
		}
	}
	if c.Service >= 0 && c.ServiceSpread >= 0 && c.Service+c.ServiceSpread < 0 {
		bad("service and its spread are too long: %v and %v", c.Service, c.ServiceSpread)
	}
	add("retry-after", known(c.RetryAfter, retryAfters))
	add("other client", c.Other.validate())
	if c.Other.Share > 0 && !slices.ContainsFunc(c.Meters, Meter.counts) {
		bad("another client needs a meter to spend from")
	}
	add("charge", known(c.Charge, charges))
	add("headers", known(c.Headers, headersWords))
	add("refusals", known(c.Refusals, refusalsWords))
	add("headers-at", known(c.HeadersAt, headersAts))
	for i, f := range c.Faults {
		add(fmt.Sprintf("fault %d", i+1), f.validate())
	}
	for i, s := range c.Script {
		add(fmt.Sprintf("script step %d", i+1), s.validate())
	}
	return errors.Join(faults...)
}

// places is the tightest cap on concurrency, 0 for none.
func (c Config) places() int {
	n := c.Concurrent
	for _, m := range c.Meters {
		if m.Kind == Concurrent && m.Limit > 0 && (n == 0 || m.Limit < n) {
			n = m.Limit
		}
	}
	return n
}

// window is the span the peak is taken over.
func (c Config) window() time.Duration {
	if c.Window > 0 {
		return c.Window
	}
	for _, m := range c.Meters {
		if m.counts() {
			return m.per()
		}
	}
	return time.Minute
}
