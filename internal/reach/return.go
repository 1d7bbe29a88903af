package reach

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// How long after it was found to be away the shared limiter is looked for, first
// and at most.
const (
	firstRetry = 250 * time.Millisecond
	lastRetry  = 2 * time.Second
	// greeted is how long it may take for its first answer, for which nobody waits:
	// there may be connections to make.
	greeted = 2 * time.Second
)

// schedule has retry run in a while. The lock is held.
func (l *Limiter) schedule(in time.Duration) {
	if l.closed {
		return
	}
	if l.retry != nil {
		l.retry.Stop()
	}
	l.retry = time.AfterFunc(in, l.look)
}

// look looks whether the shared limiter is there, and tells it what it is owed.
func (l *Limiter) look() {
	l.mu.Lock()
	away := l.away
	l.retry = nil
	l.mu.Unlock()
	var err error
	if away {
		err = l.comeBack()
	} else {
		err = l.pay(l.askShared)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed || l.retry != nil:
	case err != nil:
		l.backoff = min(lastRetry, max(firstRetry, 2*l.backoff))
		l.schedule(l.backoff)
	case !l.debts.none(time.Now()):
		l.schedule(soon)
	default:
		l.backoff = 0
	}
}

// asking has the shared limiter do something.
type asking func(do func(context.Context, limiter.Limiter) error) error

// askShared asks as for a caller.
func (l *Limiter) askShared(do func(context.Context, limiter.Limiter) error) error {
	return l.ask(l.ctx, do)
}

// comeBack goes back to the shared limiter, if it answers: what it has to know
// of the time without it comes before the next question. The most of that it is
// told while requests go on to be answered here; for the rest they wait.
func (l *Limiter) comeBack() error {
	if err := l.open(l.ctx); err != nil {
		return l.stillAway(err)
	}
	l.mu.Lock()
	shared := l.shared
	l.mu.Unlock()
	if shared == nil {
		return errClosed
	}
	ask := func(do func(context.Context, limiter.Limiter) error) error {
		return bounded(l.ctx, l.o.Timeout, shared, do)
	}
	// An empty question counts nothing.
	if err := bounded(l.ctx, max(greeted, l.o.Timeout), shared, func(ctx context.Context, to limiter.Limiter) error {
		d, err := to.Acquire(ctx, limiter.Request{Key: booked})
		l.ahead.Store(int64(time.Until(d.Now)))
		return err
	}); err != nil {
		return l.stillAway(err)
	}
	l.mu.Lock()
	l.turns++
	l.mu.Unlock()
	if err := l.tell(ask); err != nil {
		return l.stillAway(err)
	}
	l.mu.Lock()
	l.returning = true
	l.mu.Unlock()
	err := l.tell(ask)
	l.mu.Lock()
	l.returning = false
	if err == nil && !l.closed {
		l.away, l.failures = false, 0
		l.o.Logger.Info("the shared limiter is back", "url", l.o.URL, "after", time.Since(l.since).Round(time.Millisecond),
			"granted meanwhile", l.alone.Load()-l.granted)
		l.why = nil
	}
	l.mu.Unlock()
	if err != nil {
		return l.stillAway(err)
	}
	l.greet()
	return nil
}

// stillAway notes why.
func (l *Limiter) stillAway(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.why = err
	return err
}

// tell tells the shared limiter what it is owed, and which places are taken.
func (l *Limiter) tell(ask asking) error {
	if err := l.pay(ask); err != nil {
		return err
	}
	return l.adopt(ask)
}

// pay tells the shared limiter what it is owed. What could not be told stays
// owed.
func (l *Limiter) pay(ask asking) error {
	now := time.Now()
	l.mu.Lock()
	l.debts.none(now)
	opens, throttles := maps.Clone(l.debts.opens), maps.Clone(l.debts.throttles)
	releases, settles := maps.Clone(l.debts.releases), maps.Clone(l.debts.settles)
	granted := l.debts.granted.entries(now)
	l.mu.Unlock()

	// paid takes off what has been told, unless it is owed anew.
	paid := func(take func(d *debts)) {
		l.mu.Lock()
		defer l.mu.Unlock()
		take(&l.debts)
	}
	err := payGranted(ask, &granted)
	if err != nil {
		paid(func(d *debts) {
			for _, e := range granted {
				d.granted.restore(e)
			}
		})
		return err
	}
	for key := range opens {
		if err := ask(as(func(ctx context.Context, to limiter.Opener) error { return to.Open(ctx, key) })); !answered(err) {
			return err
		}
		paid(func(d *debts) { delete(d.opens, key) })
	}
	for key, until := range throttles {
		if err := ask(func(ctx context.Context, to limiter.Limiter) error { return to.Throttle(ctx, key, until) }); !answered(err) {
			return err
		}
		paid(func(d *debts) {
			if d.throttles[key].Equal(until) {
				delete(d.throttles, key)
			}
		})
	}
	for id, s := range settles {
		if err := ask(as(func(ctx context.Context, to limiter.Settler) error { return to.Settle(ctx, id, s.costs) })); !answered(err) {
			return err
		}
		paid(func(d *debts) {
			if now := d.settles[id]; slices.Equal(now.costs, s.costs) {
				delete(d.settles, id)
			}
		})
	}
	for id := range releases {
		if err := ask(func(ctx context.Context, to limiter.Limiter) error { return to.Release(ctx, id) }); !answered(err) {
			return err
		}
		paid(func(d *debts) { delete(d.releases, id) })
	}
	return nil
}

// payGranted has the shared limiter count what was granted without it. What is
// left in all when that fails was not counted.
func payGranted(ask asking, all *[]entry) error {
	for len(*all) > 0 {
		e := (*all)[0]
		err := ask(func(ctx context.Context, to limiter.Limiter) error {
			if s, ok := to.(limiter.Seeder); ok {
				if err := s.Seed(ctx, e.limits, e.at); !errors.Is(err, errors.ErrUnsupported) {
					return err
				}
			}
			// Counted later than it was, which exceeds nothing either.
			now := unlimited(limiter.Request{Limits: e.limits}, 1)
			_, err := to.Acquire(ctx, limiter.Request{Key: booked, Limits: now})
			return err
		})
		if !answered(err) {
			return err
		}
		*all = (*all)[1:]
	}
	return nil
}

// adoptAtOnce is how many places are taken in one go.
const adoptAtOnce = 64

// adopt takes the places in the shared limiter of what is under way: it has
// granted some of it, which may have lapsed there or been lost, and some was
// granted without it. A place is taken again before it is given back, so that
// nobody else gets it.
func (l *Limiter) adopt(ask asking) error {
	for {
		ids, rs, renew, hold := l.homeless()
		if len(renew) > 0 {
			if err := ask(as(func(ctx context.Context, to limiter.Renewer) error { return to.Renew(ctx, renew, hold) })); !answered(err) {
				return err
			}
		}
		if len(ids) == 0 {
			return nil
		}
		if err := l.move(ask, ids, rs); err != nil {
			return err
		}
		if err := l.pay(ask); err != nil { // the places that they had before
			return err
		}
	}
}

// move takes the places of permits anew, and has the old ones given back.
func (l *Limiter) move(ask asking, ids []string, rs []limiter.Request) error {
	var ds []limiter.Decision
	if err := ask(func(ctx context.Context, to limiter.Limiter) (err error) {
		ds, err = limiter.AcquireBatch(ctx, to, rs)
		return err
	}); err != nil {
		return err
	}
	if len(ds) != len(rs) {
		return errors.New("the shared limiter has not answered every question")
	}
	for i, id := range ids {
		if !ds[i].Granted {
			return fmt.Errorf("the shared limiter keeps no place for what is under way: %v", ds[i].Refused)
		}
		l.house(id, ds[i].Permit)
	}
	return nil
}

// homeless are the next permits whose places are to be taken anew, and those
// that are renewed as they are: what they cost is settled through them.
func (l *Limiter) homeless() (ids []string, rs []limiter.Request, renew []string, hold time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for id, p := range l.permits {
		if p.turn == l.turns || !p.until.After(now) {
			continue
		}
		places, there := p.places(), p.shared != "" && p.lapses.After(now)
		switch {
		case there && p.costs() && !p.adopted: // it is settled by the permit it has
			p.turn, p.lapses = l.turns, p.until
			renew, hold = append(renew, p.shared), max(hold, p.until.Sub(now))
			continue
		case len(places) == 0:
			p.turn = l.turns
			if !there {
				p.shared = ""
			}
			continue
		}
		ids = append(ids, id)
		rs = append(rs, limiter.Request{Key: booked, Limits: places, Hold: p.until.Sub(now)})
		if len(ids) == adoptAtOnce {
			break
		}
	}
	return ids, rs, renew, hold
}

// house gives a permit its new place. The old one is given back.
func (l *Limiter) house(id, shared string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.permits[id]
	if p == nil { // released meanwhile
		l.debts.releases[shared] = time.Now().Add(time.Minute)
		return
	}
	if p.shared != "" {
		l.debts.releases[p.shared] = p.until
	}
	p.shared, p.turn, p.lapses = shared, l.turns, p.until
	p.adopted = p.costs()
}
