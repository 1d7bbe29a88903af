package reach

import (
	"context"
	"errors"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// How soon what was not judged is to be asked again: while it is not known
// whether the shared limiter is away, and while nothing is granted without it.
const (
	soon  = 20 * time.Millisecond
	later = 250 * time.Millisecond
)

// booked is the caller key under which grants are kept here, which nobody
// throttles.
const booked = "~booked"

// Acquire asks the shared limiter, or what stands in for it.
func (l *Limiter) Acquire(ctx context.Context, r limiter.Request) (limiter.Decision, error) {
	if d, err, answered := l.stand(r); answered {
		return d, err
	}
	var d limiter.Decision
	err := l.ask(ctx, func(ctx context.Context, shared limiter.Limiter) (err error) {
		d, err = shared.Acquire(ctx, young(r))
		return err
	})
	if err == nil {
		l.book(r, d)
		return d, nil
	}
	return l.without(ctx, r, err)
}

// AcquireBatch asks for all in one go where that is possible.
func (l *Limiter) AcquireBatch(ctx context.Context, rs []limiter.Request) ([]limiter.Decision, error) {
	if !l.whole() {
		return limiter.AcquireBatch(ctx, single{l}, rs)
	}
	var ds []limiter.Decision
	asked := make([]limiter.Request, len(rs))
	for i, r := range rs {
		asked[i] = young(r)
	}
	err := l.ask(ctx, func(ctx context.Context, shared limiter.Limiter) (err error) {
		ds, err = limiter.AcquireBatch(ctx, shared, asked)
		return err
	})
	if err == nil {
		for i, d := range ds {
			l.book(rs[i], d)
		}
		return ds, nil
	}
	ds = make([]limiter.Decision, len(rs))
	refused := make(map[string]limiter.Decision)
	for i, r := range rs {
		d, seen := refused[r.Key]
		if !seen {
			var failed error
			if d, failed = l.without(ctx, r, err); failed != nil {
				return nil, failed
			}
			if !d.Granted {
				refused[r.Key] = d
			}
		}
		ds[i] = d
	}
	return ds, nil
}

// single is a Limiter that is asked for one call at a time.
type single struct{ limiter.Limiter }

// whole reports whether the shared limiter can judge everything by itself.
func (l *Limiter) whole() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.away && len(l.debts.throttles) == 0
}

// stand answers in place of the shared limiter: while it is away, and where it
// has yet to be told of a wait.
func (l *Limiter) stand(r limiter.Request) (d limiter.Decision, err error, answered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		d, err = l.decide(r)
		return d, err, true
	}
	now := time.Now()
	if until, owed := l.debts.throttles[r.Key]; owed && until.After(now) {
		return refusal(r.Key, now, until, limiter.Throttle), nil, true
	}
	return d, nil, false
}

// without answers a request that the shared limiter has not answered.
func (l *Limiter) without(ctx context.Context, r limiter.Request, err error) (limiter.Decision, error) {
	if errors.Is(err, limiter.ErrInvalid) {
		return limiter.Decision{}, err
	}
	if ctx.Err() != nil {
		return limiter.Decision{}, ctx.Err()
	}
	d, err, answered := l.stand(r)
	if !answered { // it may yet answer the next
		now := time.Now()
		d = refusal(r.Key, now, now.Add(soon), limiter.Unreachable)
	}
	return d, err
}

func refusal(key string, now, until time.Time, cause limiter.Cause) limiter.Decision {
	return limiter.Decision{Now: now, RetryAt: until, Refused: []limiter.Refusal{{Key: key, RetryAt: until, Cause: cause}}}
}

// decide answers a request while the shared limiter is away. The lock is held.
func (l *Limiter) decide(r limiter.Request) (limiter.Decision, error) {
	if l.closed {
		return limiter.Decision{}, errClosed
	}
	if err := r.Validate(); err != nil {
		return limiter.Decision{}, err
	}
	now := time.Now()
	if l.returning {
		return refusal(r.Key, now, now.Add(soon), limiter.Unreachable), nil
	}
	own := r
	switch l.o.OnFailure {
	case Closed:
		return refusal(r.Key, now, now.Add(later), limiter.Unreachable), nil
	case Open:
		own.Limits = unlimited(r, 1)
	default:
		own.Limits = scale(r.Limits, l.share())
	}
	d, err := l.local.Acquire(l.ctx, own)
	if err != nil || !d.Granted {
		return d, err
	}
	l.alone.Add(1)
	l.debts.granted.add(r, now)
	if d.Permit != "" {
		l.keep(d.Permit, &permit{local: d.Permit, request: r, at: now, until: now.Add(r.Hold)})
	}
	return d, nil
}

// book keeps here what the shared limiter has answered.
func (l *Limiter) book(r limiter.Request, d limiter.Decision) {
	now := time.Now()
	l.ahead.Store(int64(d.Now.Sub(now)))
	if !d.Granted {
		for _, f := range d.Refused {
			if f.Cause == limiter.Throttle {
				_ = l.local.Throttle(l.ctx, r.Key, now.Add(f.RetryAt.Sub(d.Now))) // it has no error
			}
		}
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	own, err := l.local.Acquire(l.ctx, limiter.Request{Key: booked, Limits: unlimited(r, l.share()), Cost: r.Cost, Hold: r.Hold})
	if err == nil && d.Permit != "" {
		l.keep(d.Permit, &permit{local: own.Permit, shared: d.Permit, request: r, at: now, until: now.Add(r.Hold), lapses: now.Add(young(r).Hold)})
		l.growUp()
	}
}
