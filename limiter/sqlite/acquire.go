package sqlite

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/internal/settling"
)

// Acquire asks for one call.
func (l *Limiter) Acquire(ctx context.Context, r limiter.Request) (d limiter.Decision, err error) {
	if err := r.Validate(); err != nil {
		return d, err
	}
	err = l.update(ctx, func(v *visit) error {
		d, err = v.acquire(&r)
		return err
	})
	if err != nil {
		return limiter.Decision{}, err
	}
	return d, nil
}

// AcquireBatch asks for calls in order, all in one transaction. Each bucket is
// read and written once, so another request over the same buckets costs next to
// nothing.
func (l *Limiter) AcquireBatch(ctx context.Context, rs []limiter.Request) ([]limiter.Decision, error) {
	if err := limiter.ValidateAll(rs); err != nil {
		return nil, err
	}
	ds := make([]limiter.Decision, len(rs))
	err := l.update(ctx, func(v *visit) error {
		refused := make(map[string]limiter.Decision)
		for i := range rs {
			d, known := refused[rs[i].Key]
			if !known {
				var err error
				if d, err = v.acquire(&rs[i]); err != nil {
					return err
				}
				if !d.Granted {
					refused[rs[i].Key] = d
				}
			}
			ds[i] = d
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ds, nil
}

// acquire looks at every limit and then counts in all of them or in none.
func (v *visit) acquire(r *limiter.Request) (d limiter.Decision, err error) {
	d.Now = instant(v.now)
	until, err := v.throttled(r.Key)
	if err != nil {
		return d, err
	}
	buckets := make([]*bucket, len(r.Limits))
	d.Granted = until <= v.now
	for i, l := range r.Limits {
		if buckets[i], err = v.bucket(l.Key); err != nil {
			return d, err
		}
		if _, _, stands := v.obstacle(r, l, buckets[i]); stands {
			d.Granted = false
		}
	}
	if !d.Granted {
		v.explain(&d, r, buckets, until)
		return d, nil
	}
	for i, l := range r.Limits {
		buckets[i].changed = true
		if l.Calls > 0 {
			buckets[i].seek(int64(l.Per)).book(v.now, costOf(r, l))
		}
	}
	v.bookUnnamed(r, buckets, v.now)
	d.Permit, err = v.occupy(r, buckets)
	return d, err
}

// costOf is what a call counts in a window: a cost above calls counts as calls.
func costOf(r *limiter.Request, l limiter.Limit) int64 { return int64(min(r.CostOf(l), l.Calls)) }

// Who is refused for places may ask again this soon: another process may have
// released one, and nobody tells.
const lookAgain = int64(100 * time.Millisecond)

// obstacle is what of a limit stands in the way, and until when.
func (v *visit) obstacle(r *limiter.Request, l limiter.Limit, b *bucket) (until int64, cause limiter.Cause, stands bool) {
	if l.Calls > 0 {
		w := b.ask(int64(l.Per), v.now)
		if until, stands = w.full(int64(l.Calls), costOf(r, l)); stands {
			cause = limiter.Rate
		}
	}
	if l.Concurrent > 0 {
		if n, next := b.places(); n >= l.Concurrent {
			if next = min(next, after(v.now, lookAgain)); next > until {
				until, cause = next, limiter.Concurrent
			}
			stands = true
		}
	}
	return until, cause, stands
}

// explain puts into a refusal what stood in the way: one entry for the caller's
// throttle and one for each bucket, with the latest instant of its limits.
func (v *visit) explain(d *limiter.Decision, r *limiter.Request, buckets []*bucket, until int64) {
	if until > v.now {
		d.Refused = append(d.Refused, limiter.Refusal{Key: r.Key, RetryAt: instant(until), Cause: limiter.Throttle})
	}
	first := len(d.Refused)
	for i, l := range r.Limits {
		until, cause, stands := v.obstacle(r, l, buckets[i])
		if !stands {
			continue
		}
		f := limiter.Refusal{Key: l.Key, RetryAt: instant(until), Cause: cause}
		known := false
		for k := range d.Refused[first:] {
			if e := &d.Refused[first+k]; e.Key == f.Key {
				known = true
				if f.RetryAt.After(e.RetryAt) {
					*e = f
				}
			}
		}
		if !known {
			d.Refused = append(d.Refused, f)
		}
	}
	for _, f := range d.Refused {
		if f.RetryAt.After(d.RetryAt) {
			d.RetryAt = f.RetryAt
		}
	}
}

// bookUnnamed counts a grant in windows that the request did not name, of the
// buckets in which it counts in others: as the most it counts in one of those.
func (v *visit) bookUnnamed(r *limiter.Request, buckets []*bucket, at int64) {
	for i, b := range buckets {
		var cost int64
		earlier := false
		for k, l := range r.Limits {
			if buckets[k] == b && l.Calls > 0 {
				cost = max(cost, costOf(r, l))
			}
			earlier = earlier || buckets[k] == b && k < i
		}
		if cost == 0 || earlier {
			continue
		}
		b.bookUnnamed(at, cost, v.now, func(per int64) bool {
			for k, l := range r.Limits {
				if buckets[k] == b && int64(l.Per) == per {
					return true
				}
			}
			return false
		})
	}
}

// occupy gives a grant its permit, with a place of each bucket that the request
// names with Concurrent. It is empty where there is nothing to hold.
func (v *visit) occupy(r *limiter.Request, buckets []*bucket) (string, error) {
	if r.Hold == 0 {
		return "", nil
	}
	var p permit
	for i, b := range buckets {
		h := holding{expires: after(v.now, int64(r.Hold))}
		if s, ok := settling.Of(r, b.key, v.now); ok {
			h.share = &s
		}
		earlier := false
		for k, l := range r.Limits {
			h.place = h.place || buckets[k] == b && l.Concurrent > 0
			earlier = earlier || buckets[k] == b && k < i
		}
		if earlier || !h.place && h.share == nil {
			continue
		}
		if p.number == 0 {
			p.number = rand.Uint64()
		}
		h.permit = p.number
		b.held = append(b.held, h)
		if err := v.addRow(b); err != nil {
			return "", err
		}
		p.buckets = append(p.buckets, b.id)
	}
	if p.buckets == nil {
		return "", nil
	}
	return p.String(), nil
}
