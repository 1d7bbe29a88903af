package stub

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"time"
)

// A Meter is one limit on a stub. The zero Meter never refuses.
type Meter struct {
	Kind MeterKind

	// Unit is what it counts. Empty means requests. What a request costs in
	// tokens is said by [Config.Charge].
	Unit Unit

	// Limit is how much of it Per admits, or, for [Concurrent], how many
	// may be in service at once.
	Limit int

	// Per is the window, and for a bucket the time in which Limit tokens flow
	// in. 0 means one minute.
	Per time.Duration

	// Burst is how many tokens a bucket holds; it starts full. 0 means Limit.
	Burst int
}

// A meter counts requests, or the tokens they cost. Its caller asks in the order of time, one at a
// time, and asks all meters of a request before it counts in any.
type meter interface {
	// wait says how long from now until a request that costs n would be
	// admitted, with nothing else counted meanwhile; 0 means at once. One that
	// costs more than the meter ever has is admitted by a full one. It changes
	// nothing.
	wait(now time.Time, n int) time.Duration

	// take counts a request that was admitted, or what it costs besides.
	take(now time.Time, n int)

	// give takes n off what was counted for a request admitted at an instant.
	give(now, at time.Time, n int)

	// penalise counts a request that was refused.
	penalise(now time.Time, n int)

	// budget says what is left.
	budget(now time.Time) budget
}

// A budget is what headers tell of one meter.
type budget struct {
	unit             Unit
	per              time.Duration
	limit, remaining int
	// full is when remaining is limit again, if nothing else is counted.
	full time.Time
	// more is when there will be more than remaining, and now where all is
	// there.
	more time.Time
}

// counts says whether the meter is one with a count over time, as against
// none at all or a cap on concurrency.
func (m Meter) counts() bool { return m.Kind != "" && m.Kind != Concurrent }

func (m Meter) unit() Unit { return cmp.Or(m.Unit, Requests) }

func (m Meter) per() time.Duration {
	if m.Per == 0 {
		return time.Minute
	}
	return m.Per
}

func (m Meter) burst() int {
	if m.Burst == 0 {
		return m.Limit
	}
	return m.Burst
}

func (m Meter) build() meter {
	switch m.Kind {
	case Fixed:
		return &fixed{limit: m.Limit, per: m.per()}
	case Bucket:
		return newBucket(m)
	}
	if m.Unit != "" && m.Unit != Requests {
		return &weighted{limit: m.Limit, per: m.per()}
	}
	return &rolling{limit: m.Limit, per: m.per()}
}

// validate is told the configuration's own cap, since a concurrent meter may
// leave its number to it.
func (m Meter) validate(places int) error {
	var faults []error
	bad := func(format string, a ...any) { faults = append(faults, fmt.Errorf(format, a...)) }
	unknown := known(m.Kind, meterKinds)
	if unknown != nil {
		bad("kind: %w", unknown)
	}
	if err := known(m.Unit, units); err != nil {
		bad("unit: %w", err)
	}
	if m.Per < 0 {
		bad("per is %v; it must not be negative", m.Per)
	}
	if m.Burst < 0 {
		bad("burst is %d; it must not be negative", m.Burst)
	}
	if m.Burst > 0 && m.Kind != Bucket && unknown == nil {
		bad("burst is for a %s only", Bucket)
	}
	switch {
	case m.Limit < 0:
		bad("limit is %d; it must not be negative", m.Limit)
	case unknown != nil:
		// Nobody knows what such a meter needs.
	case m.Kind == "" && m.Limit > 0:
		bad("a limit of %d without a kind: use %s", m.Limit, alternatives(meterKinds, ", "))
	case m.Kind == Concurrent && m.Limit == 0 && places == 0:
		bad("a %s meter needs a limit of at least 1", Concurrent)
	case m.counts() && m.Limit == 0:
		bad("a %s meter needs a limit of at least 1", m.Kind)
	}
	if len(faults) == 0 && m.Kind == Bucket {
		b := newBucket(m)
		if high, low := bits.Mul64(uint64(b.burst), uint64(b.token)); high > 0 || low > maxLevel {
			bad("a burst of %d at %d per %v is more than can be metered exactly", b.burst, m.Limit, m.per())
		}
	}
	return errors.Join(faults...)
}

// maxLevel leaves room in 64 bits for a full bucket above an empty one, one
// below, and a nanosecond's refill.
const maxLevel = 1 << 60
