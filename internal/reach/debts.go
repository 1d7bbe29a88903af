package reach

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// debts are what the shared limiter is yet to be told.
type debts struct {
	granted   ledger
	throttles map[string]time.Time // until when, by caller key
	opens     map[string]bool      // caller keys whose throttle was ended
	releases  map[string]time.Time // when they lapse, by permit
	settles   map[string]settling  // by permit
}

// A settling is what a permit's call has cost, until the permit lapses.
type settling struct {
	costs []limiter.Cost
	until time.Time
}

func newDebts() debts {
	return debts{
		granted: make(ledger), throttles: make(map[string]time.Time), opens: make(map[string]bool),
		releases: make(map[string]time.Time), settles: make(map[string]settling),
	}
}

// none reports whether nothing is owed at now, after it has forgotten what is
// over.
func (d *debts) none(now time.Time) bool {
	maps.DeleteFunc(d.releases, func(_ string, until time.Time) bool { return !until.After(now) })
	maps.DeleteFunc(d.settles, func(_ string, s settling) bool { return !s.until.After(now) })
	maps.DeleteFunc(d.throttles, func(_ string, until time.Time) bool { return !until.After(now) })
	return len(d.granted) == 0 && len(d.throttles) == 0 && len(d.opens) == 0 && len(d.releases) == 0 && len(d.settles) == 0
}

// owe notes what the shared limiter was not told, for the error with which it
// was not, and returns errors that telling it again would not mend.
func (l *Limiter) owe(err error, note func(*debts)) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errClosed), answered(err):
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	note(&l.debts)
	if !l.away {
		l.payLater()
	}
	return nil
}

// payLater has what is owed told while the shared limiter is near. The lock is
// held.
func (l *Limiter) payLater() {
	if l.retry == nil {
		l.schedule(soon)
	}
}

// Throttle closes a caller's key, here and for every host.
func (l *Limiter) Throttle(ctx context.Context, key string, until time.Time) error {
	_ = l.local.Throttle(ctx, key, until) // it has no error
	err := l.ask(ctx, func(ctx context.Context, to limiter.Limiter) error { return to.Throttle(ctx, key, until) })
	return l.owe(err, func(d *debts) {
		if until.After(d.throttles[key]) && until.After(time.Now()) {
			d.throttles[key] = until
		}
	})
}

// Open ends the throttle of a caller's key.
func (l *Limiter) Open(ctx context.Context, key string) error {
	_ = l.local.Open(ctx, key) // it has no error
	l.mu.Lock()
	delete(l.debts.throttles, key)
	l.mu.Unlock()
	err := l.ask(ctx, as(func(ctx context.Context, to limiter.Opener) error { return to.Open(ctx, key) }))
	return l.owe(err, func(d *debts) { d.opens[key] = true })
}

// Seed counts what this host was granted before, as far as it is to be known
// here: the shared limiter has counted it then.
func (l *Limiter) Seed(ctx context.Context, limits []limiter.Limit, at time.Time) error {
	return l.local.Seed(ctx, unlimited(limiter.Request{Limits: limits}, l.share()), at)
}

// Peek says what the shared limiter, or what stands in for it, holds against a
// caller.
func (l *Limiter) Peek(ctx context.Context, key string, limits []limiter.Limit) (v limiter.View, err error) {
	err = l.ask(ctx, as(func(ctx context.Context, from limiter.Peeker) (err error) {
		v, err = from.Peek(ctx, key, limits)
		return err
	}))
	if !errors.Is(err, errAway) {
		return v, err
	}
	v, err = l.local.Peek(ctx, key, limits)
	if again := v.Now.Add(later); l.o.OnFailure == Closed && again.After(v.Throttled) {
		v.Throttled = again // nothing is granted before
	}
	return v, err
}

// Get returns what hosts keep beside the counts.
func (l *Limiter) Get(ctx context.Context, key string) (b []byte, err error) {
	err = l.ask(ctx, as(func(ctx context.Context, from limiter.Blobs) (err error) {
		b, err = from.Get(ctx, key)
		return err
	}))
	return b, err
}

// Update replaces what hosts keep beside the counts.
func (l *Limiter) Update(ctx context.Context, key string, f func([]byte) []byte) error {
	return l.ask(ctx, as(func(ctx context.Context, in limiter.Blobs) error { return in.Update(ctx, key, f) }))
}
