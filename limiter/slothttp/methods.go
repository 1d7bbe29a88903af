package slothttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// A method is one of the wire. errors.ErrUnsupported says that the limiter
// has no such power.
type method func(ctx context.Context, l limiter.Limiter, params value) (result []byte, err error)

// methods are those that need an open limiter.
var methods = map[string]method{
	"acquire":      acquire,
	"acquireBatch": acquireBatch,
	"settle":       settle,
	"release":      release,
	"renew":        renew,
	"throttle":     throttle,
	"openKey":      openKey,
	"peek":         peek,
	"seed":         seed,
	"get":          get,
	"swap":         swap,
}

// nothing is the result of what has none.
var nothing = []byte("{}")

func acquire(ctx context.Context, l limiter.Limiter, params value) ([]byte, error) {
	var f faults
	r := f.request(params, nil)
	if err := f.err(); err != nil {
		return nil, err
	}
	d, err := l.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return appendDecision(nil, d), nil
}

func acquireBatch(ctx context.Context, l limiter.Limiter, params value) ([]byte, error) {
	var f faults
	rs := []limiter.Request{}
	f.read(params, nil, field{"requests", true, func(v value, at *path) {
		if !f.list(v, at) {
			return
		}
		var before value
		for i, v := range v.items() {
			if bytes.Equal(v, before) { // a line asks for many of one kind
				rs = append(rs, rs[i-1])
				continue
			}
			here := path{nil, "requests", i}
			rs = append(rs, f.request(v, &here))
			before = v
		}
	}})
	if err := f.err(); err != nil {
		return nil, err
	}
	ds, err := limiter.AcquireBatch(ctx, l, rs)
	if err != nil {
		return nil, err
	}
	b := append(make([]byte, 0, 128*len(ds)), `{"results":[`...)
	for i, d := range ds {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendDecision(b, d)
	}
	return append(b, "]}"...), nil
}

// appendDecision writes a decision as the wire has it.
func appendDecision(b []byte, d limiter.Decision) []byte {
	if d.Granted {
		b = appendText(append(b, `{"granted":true,"permit":`...), d.Permit)
		return append(appendInstant(append(b, `,"now":`...), d.Now), '}')
	}
	b = appendInstant(append(b, `{"granted":false,"now":`...), d.Now)
	b = appendInstant(append(b, `,"retryAt":`...), d.RetryAt)
	// Both instants are rounded, so their difference may be short of it.
	b = appendWhole(b, `,"retryAfterMs":`, max(1, ms(d.RetryAfter())))
	b = append(b, `,"refused":[`...)
	for i, r := range d.Refused {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(append(b, `{"key":`...), r.Key)
		b = appendText(append(b, `,"cause":`...), string(r.Cause))
		b = append(appendInstant(append(b, `,"retryAt":`...), r.RetryAt), '}')
	}
	return append(b, "]}"...)
}

func settle(ctx context.Context, l limiter.Limiter, params value) ([]byte, error) {
	s, ok := l.(limiter.Settler)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	permit, costs, err := settlement(params, true)
	if err != nil {
		return nil, err
	}
	return nothing, s.Settle(ctx, permit, costs)
}

func settlement(params value, needed bool) (permit string, costs []limiter.Cost, err error) {
	var f faults
	f.read(params, nil,
		field{"permit", true, func(v value, at *path) { permit = f.text(v, at) }},
		field{"costs", needed, func(v value, _ *path) { costs = f.costs(v) }})
	return permit, costs, f.err()
}

// release settles first, where there is something to settle and the limiter
// can. A place is given back whatever becomes of that.
func release(ctx context.Context, l limiter.Limiter, params value) ([]byte, error) {
	permit, costs, err := settlement(params, false)
	if err != nil {
		return nil, err
	}
	var settled error
	if s, ok := l.(limiter.Settler); ok && len(costs) > 0 {
		settled = s.Settle(ctx, permit, costs)
	}
	return nothing, errors.Join(settled, l.Release(ctx, permit))
}

func renew(ctx context.Context, l limiter.Limiter, params value) ([]byte, error) {
	n, ok := l.(limiter.Renewer)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	var f faults
	var permits []string
	var hold time.Duration
	f.read(params, nil,
		field{"permits", true, func(v value, at *path) {
			if !f.list(v, at) {
				return
			}
			for i, v := range v.items() {
				permits = append(permits, f.text(v, &path{nil, "permits", i}))
			}
		}},
		field{"holdMs", true, func(v value, at *path) { hold = span(f.whole(v, at, 1, mostMs)) }})
	if err := f.err(); err != nil {
		return nil, err
	}
	return nothing, n.Renew(ctx, permits, hold)
}

// throttle adds what is left of the wait to this machine's clock, where the
// caller says it: clocks differ.
func throttle(ctx context.Context, l limiter.Limiter, params value) ([]byte, error) {
	var f faults
	var key string
	var until time.Time
	var left time.Duration
	f.read(params, nil,
		field{"key", true, func(v value, at *path) { key = f.text(v, at) }},
		field{"until", true, func(v value, at *path) { until = f.instant(v, at) }},
		field{"forMs", false, func(v value, at *path) { left = span(f.whole(v, at, 1, mostMs)) }})
	if err := f.err(); err != nil {
		return nil, err
	}
	if left > 0 {
		until = time.Now().Add(left)
	}
	return nothing, l.Throttle(ctx, key, until)
}

func openKey(ctx context.Context, l limiter.Limiter, params value) ([]byte, error) {
	o, ok := l.(limiter.Opener)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	key, err := keyOf(params)
	if err != nil {
		return nil, err
	}
	return nothing, o.Open(ctx, key)
}

func keyOf(params value) (key string, err error) {
	var f faults
	f.read(params, nil, field{"key", true, func(v value, at *path) { key = f.text(v, at) }})
	return key, f.err()
}

func peek(ctx context.Context, l limiter.Limiter, params value) ([]byte, error) {
	k, ok := l.(limiter.Peeker)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	var f faults
	r := f.request(params, nil)
	if err := f.err(); err != nil {
		return nil, err
	}
	v, err := k.Peek(ctx, r.Key, r.Limits)
	if err != nil {
		return nil, err
	}
	out := peekResult{Now: instant(v.Now), Usage: make([]usage, len(v.Usage))}
	if !v.Throttled.IsZero() {
		until := instant(v.Throttled)
		out.Throttled = &until
	}
	for i, u := range v.Usage {
		out.Usage[i] = usage(u)
	}
	return json.Marshal(out)
}

func seed(ctx context.Context, l limiter.Limiter, params value) ([]byte, error) {
	s, ok := l.(limiter.Seeder)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	var f faults
	var limits []limiter.Limit
	var ago time.Duration
	f.read(params, nil,
		field{"limits", true, func(v value, _ *path) { limits = f.limits(v, nil) }},
		field{"agoMs", true, func(v value, at *path) { ago = span(f.whole(v, at, 0, mostMs)) }})
	if err := f.err(); err != nil {
		return nil, err
	}
	return nothing, s.Seed(ctx, limits, time.Now().Add(-ago))
}

func get(ctx context.Context, l limiter.Limiter, params value) ([]byte, error) {
	b, ok := l.(limiter.Blobs)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	key, err := keyOf(params)
	if err != nil {
		return nil, err
	}
	stored, err := b.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return json.Marshal(getResult{stored})
}

// swap replaces what is stored if it is still what the caller has seen, and
// else says what it is.
func swap(ctx context.Context, l limiter.Limiter, params value) ([]byte, error) {
	b, ok := l.(limiter.Blobs)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	var f faults
	var key string
	var seen, next []byte
	f.read(params, nil,
		field{"key", true, func(v value, at *path) { key = f.text(v, at) }},
		field{"old", false, func(v value, at *path) { seen = f.blob(v, at) }},
		field{"new", false, func(v value, at *path) { next = f.blob(v, at) }})
	if err := f.err(); err != nil {
		return nil, err
	}
	var out swapResult
	err := b.Update(ctx, key, func(stored []byte) []byte {
		if (stored == nil) == (seen == nil) && bytes.Equal(stored, seen) {
			out = swapResult{Swapped: true}
			return next
		}
		out = swapResult{Value: bytes.Clone(stored)}
		return stored
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}
