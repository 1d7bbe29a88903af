package slothttp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// A method is one of the wire. errors.ErrUnsupported says that the limiter
// has no such power.
type method func(ctx context.Context, l limiter.Limiter, params json.RawMessage) (any, error)

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

// read takes params of a shape, and blames them where they have another.
func read(params json.RawMessage, into any) error {
	err := json.Unmarshal(params, into)
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		is := e.Value
		if number, ok := strings.CutPrefix(is, "number "); ok {
			is = number
		} else {
			is = kinds[is]
		}
		return invalid("%s is %s: it has to be %s", cmp.Or(e.Field, "params"), is, kinds[e.Type.Kind().String()])
	}
	if err != nil {
		return invalid("%v", err)
	}
	return nil
}

// kinds are JSON's in words, by what encoding/json calls them and by what they
// are read into.
var kinds = map[string]string{
	"array": "a list", "bool": "true or false", "number": "a number", "object": "an object", "string": "a text",
	"int64": "a whole number", "map": "an object", "slice": "a list", "struct": "an object",
}

// faults gathers what is missing or impossible.
type faults struct{ errs []error }

func (f *faults) add(format string, args ...any) {
	f.errs = append(f.errs, fmt.Errorf(format, args...))
}

func (f *faults) err() error {
	if f.errs == nil {
		return nil
	}
	return &callError{InvalidParams, errors.Join(f.errs...)}
}

// needs takes a value that must be there.
func needs[T any](f *faults, v *T, name string) (value T) {
	if v == nil {
		f.add("%s is missing", name)
		return value
	}
	return *v
}

// positive takes a number from 1 to most, 0 where it is left out.
func (f *faults) positive(n *int64, most int64, path, name string) int64 {
	switch {
	case n == nil:
		return 0
	case *n < 1 || *n > most:
		f.add("%s%s is %d: give a whole number from 1 to %d", path, name, *n, most)
		return 0
	}
	return *n
}

// mostCount is the largest number that every language's JSON keeps exact.
const mostCount = 1<<53 - 1

func (f *faults) limits(ls *[]wireLimit, path string) []limiter.Limit {
	read := needs(f, ls, path+"limits")
	limits := make([]limiter.Limit, len(read))
	for i, l := range read {
		at := fmt.Sprintf("%slimits[%d].", path, i)
		limits[i] = limiter.Limit{
			Key:        needs(f, l.Key, at+"key"),
			Calls:      int(f.positive(l.Calls, mostCount, at, "calls")),
			Per:        span(f.positive(l.PerMs, mostMs, at, "perMs")),
			Concurrent: int(f.positive(l.Concurrent, mostCount, at, "concurrent")),
			Cost:       int(f.positive(l.Cost, mostCount, at, "cost")),
		}
	}
	return limits
}

func (f *faults) request(r wireRequest, path string) limiter.Request {
	return limiter.Request{
		Key:    needs(f, r.Key, path+"key"),
		Limits: f.limits(r.Limits, path),
		Cost:   int(f.positive(r.Cost, mostCount, path, "cost")),
		Hold:   span(f.positive(r.HoldMs, mostMs, path, "holdMs")),
	}
}

func (f *faults) costs(cs []wireCost) []limiter.Cost {
	costs := make([]limiter.Cost, len(cs))
	for i, c := range cs {
		at := fmt.Sprintf("costs[%d].", i)
		n := needs(f, c.Cost, at+"cost")
		if n < 0 || n > mostCount {
			f.add("%scost is %d: give a total from 0 to %d", at, n, int64(mostCount))
		}
		costs[i] = limiter.Cost{Key: needs(f, c.Key, at+"key"), Cost: int(n)}
	}
	return costs
}

func acquire(ctx context.Context, l limiter.Limiter, params json.RawMessage) (any, error) {
	var p wireRequest
	var f faults
	if err := read(params, &p); err != nil {
		return nil, err
	}
	r := f.request(p, "")
	if err := f.err(); err != nil {
		return nil, err
	}
	d, err := l.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return decided(d), nil
}

func acquireBatch(ctx context.Context, l limiter.Limiter, params json.RawMessage) (any, error) {
	var p batchParams
	var f faults
	if err := read(params, &p); err != nil {
		return nil, err
	}
	requests := needs(&f, p.Requests, "requests")
	rs := make([]limiter.Request, len(requests))
	for i, r := range requests {
		rs[i] = f.request(r, fmt.Sprintf("requests[%d].", i))
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	ds, err := limiter.AcquireBatch(ctx, l, rs)
	if err != nil {
		return nil, err
	}
	out := batchResult{Results: make([]decision, len(ds))}
	for i, d := range ds {
		out.Results[i] = decided(d)
	}
	return out, nil
}

// decided is a decision as the wire has it.
func decided(d limiter.Decision) decision {
	out := decision{Granted: d.Granted, Now: at(d.Now)}
	if d.Granted {
		out.Permit = &d.Permit
		return out
	}
	// Both instants are rounded, so their difference may be short of it.
	after := ms(d.RetryAfter())
	out.RetryAt, out.RetryAfterMs = at(d.RetryAt), &after
	out.Refused = make([]refusal, len(d.Refused))
	for i, r := range d.Refused {
		out.Refused[i] = refusal{Key: r.Key, Cause: r.Cause, RetryAt: at(r.RetryAt)}
	}
	return out
}

func settle(ctx context.Context, l limiter.Limiter, params json.RawMessage) (any, error) {
	s, ok := l.(limiter.Settler)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	var p permitParams
	var f faults
	if err := read(params, &p); err != nil {
		return nil, err
	}
	permit, costs := needs(&f, p.Permit, "permit"), f.costs(needs(&f, p.Costs, "costs"))
	if err := f.err(); err != nil {
		return nil, err
	}
	return struct{}{}, s.Settle(ctx, permit, costs)
}

// release settles first, where there is something to settle and the limiter
// can. A place is given back whatever becomes of that.
func release(ctx context.Context, l limiter.Limiter, params json.RawMessage) (any, error) {
	var p permitParams
	var f faults
	if err := read(params, &p); err != nil {
		return nil, err
	}
	permit := needs(&f, p.Permit, "permit")
	var costs []limiter.Cost
	if p.Costs != nil {
		costs = f.costs(*p.Costs)
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	var settled error
	if s, ok := l.(limiter.Settler); ok && len(costs) > 0 {
		settled = s.Settle(ctx, permit, costs)
	}
	return struct{}{}, errors.Join(settled, l.Release(ctx, permit))
}

func renew(ctx context.Context, l limiter.Limiter, params json.RawMessage) (any, error) {
	n, ok := l.(limiter.Renewer)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	var p renewParams
	var f faults
	if err := read(params, &p); err != nil {
		return nil, err
	}
	permits := needs(&f, p.Permits, "permits")
	needs(&f, p.HoldMs, "holdMs")
	hold := span(f.positive(p.HoldMs, mostMs, "", "holdMs"))
	if err := f.err(); err != nil {
		return nil, err
	}
	return struct{}{}, n.Renew(ctx, permits, hold)
}

// throttle adds what is left of the wait to this machine's clock, where the
// caller says it: clocks differ.
func throttle(ctx context.Context, l limiter.Limiter, params json.RawMessage) (any, error) {
	var p throttleParams
	var f faults
	if err := read(params, &p); err != nil {
		return nil, err
	}
	key, until := needs(&f, p.Key, "key"), time.Time(needs(&f, p.Until, "until"))
	left := span(f.positive(p.ForMs, mostMs, "", "forMs"))
	if err := f.err(); err != nil {
		return nil, err
	}
	if left > 0 {
		until = time.Now().Add(left)
	}
	return struct{}{}, l.Throttle(ctx, key, until)
}

func openKey(ctx context.Context, l limiter.Limiter, params json.RawMessage) (any, error) {
	o, ok := l.(limiter.Opener)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	key, err := keyOf(params)
	if err != nil {
		return nil, err
	}
	return struct{}{}, o.Open(ctx, key)
}

func keyOf(params json.RawMessage) (string, error) {
	var p keyParams
	var f faults
	if err := read(params, &p); err != nil {
		return "", err
	}
	return needs(&f, p.Key, "key"), f.err()
}

func peek(ctx context.Context, l limiter.Limiter, params json.RawMessage) (any, error) {
	k, ok := l.(limiter.Peeker)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	var p wireRequest
	var f faults
	if err := read(params, &p); err != nil {
		return nil, err
	}
	key, limits := needs(&f, p.Key, "key"), f.limits(p.Limits, "")
	if err := f.err(); err != nil {
		return nil, err
	}
	v, err := k.Peek(ctx, key, limits)
	if err != nil {
		return nil, err
	}
	out := peekResult{Now: at(v.Now), Usage: make([]usage, len(v.Usage))}
	if !v.Throttled.IsZero() {
		out.Throttled = at(v.Throttled)
	}
	for i, u := range v.Usage {
		out.Usage[i] = usage(u)
	}
	return out, nil
}

func seed(ctx context.Context, l limiter.Limiter, params json.RawMessage) (any, error) {
	s, ok := l.(limiter.Seeder)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	var p seedParams
	var f faults
	if err := read(params, &p); err != nil {
		return nil, err
	}
	limits, ago := f.limits(p.Limits, ""), needs(&f, p.AgoMs, "agoMs")
	if ago < 0 || ago > mostMs {
		f.add("agoMs is %d: give milliseconds from 0 to %d", ago, mostMs)
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	return struct{}{}, s.Seed(ctx, limits, time.Now().Add(-span(ago)))
}

func get(ctx context.Context, l limiter.Limiter, params json.RawMessage) (any, error) {
	b, ok := l.(limiter.Blobs)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	key, err := keyOf(params)
	if err != nil {
		return nil, err
	}
	value, err := b.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return getResult{blob(value)}, nil
}

// blob is null where nothing is stored.
func blob(b []byte) *[]byte {
	if b == nil {
		return nil
	}
	return &b
}

// swap replaces what is stored if it is still what the caller has seen, and
// else says what it is.
func swap(ctx context.Context, l limiter.Limiter, params json.RawMessage) (any, error) {
	b, ok := l.(limiter.Blobs)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	var p swapParams
	var f faults
	if err := read(params, &p); err != nil {
		return nil, err
	}
	key := needs(&f, p.Key, "key")
	if err := f.err(); err != nil {
		return nil, err
	}
	var out swapResult
	err := b.Update(ctx, key, func(stored []byte) []byte {
		out = swapResult{Swapped: same(stored, p.Old)}
		if out.Swapped {
			if p.New == nil {
				return nil
			}
			return *p.New
		}
		out.Value = blob(bytes.Clone(stored))
		return stored
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func same(stored []byte, seen *[]byte) bool {
	if seen == nil {
		return stored == nil
	}
	return stored != nil && bytes.Equal(stored, *seen)
}
