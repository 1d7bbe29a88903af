package reach

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// A permit is a grant of which something can be given back or settled.
type permit struct {
	local  string // its permit here
	shared string // its permit in the shared limiter; empty where that has none
	// adopted is whether shared stands for its places alone: what it costs is
	// then told as a grant of its own.
	adopted bool
	turn    uint64 // of the return that adopted it
	request limiter.Request
	at      time.Time // of its grant
	until   time.Time // when it lapses, if nobody renews it
	lapses  time.Time // the same in the shared limiter, as far as that is known
	// counted is what its request counts in buckets of costs of their own, where
	// that has been settled.
	counted map[string]int
}

// places are limits that take its places, where there are any, whoever else has
// some.
func (p *permit) places() (limits []limiter.Limit) {
	for _, l := range p.request.Limits {
		if l.Concurrent > 0 {
			limits = merge(limits, limiter.Limit{Key: l.Key, Concurrent: endless})
		}
	}
	return limits
}

// costs reports whether what it costs can be settled.
func (p *permit) costs() bool {
	for _, l := range p.request.Limits {
		if l.Cost > 0 {
			return true
		}
	}
	return false
}

// fewPermits are too few to look for those that lapsed.
const fewPermits = 64

// keep remembers a permit until it is released or lapses. The lock is held.
func (l *Limiter) keep(id string, p *permit) {
	if len(l.permits) >= l.sweepAt {
		now := time.Now()
		maps.DeleteFunc(l.permits, func(_ string, p *permit) bool { return !p.until.After(now) })
		l.sweepAt = max(fewPermits, 2*len(l.permits))
	}
	l.permits[id] = p
}

// Release frees the places of a permit, here and where it was granted. Where
// the shared limiter is away, it is told when it is back.
func (l *Limiter) Release(ctx context.Context, id string) error {
	l.mu.Lock()
	p := l.permits[id]
	delete(l.permits, id)
	l.mu.Unlock()
	shared := id // of another process, or of an earlier one
	until := time.Now().Add(time.Minute)
	if p != nil {
		_ = l.local.Release(ctx, p.local) // it has no error
		shared, until = p.shared, p.until
	}
	if shared == "" {
		return nil
	}
	err := l.ask(ctx, func(ctx context.Context, to limiter.Limiter) error { return to.Release(ctx, shared) })
	return l.owe(err, func(d *debts) { d.releases[shared] = until })
}

// Renew makes permits last for hold from now.
func (l *Limiter) Renew(ctx context.Context, ids []string, hold time.Duration) error {
	if hold <= 0 {
		return l.local.Renew(ctx, ids, hold) // which says what is wrong
	}
	until := time.Now().Add(hold)
	var local, shared []string
	var there []*permit
	l.mu.Lock()
	for _, id := range ids {
		p := l.permits[id]
		if p == nil {
			continue
		}
		p.until = until
		local = append(local, p.local)
		if p.shared != "" {
			shared, there = append(shared, p.shared), append(there, p)
		}
	}
	l.mu.Unlock()
	if err := l.local.Renew(ctx, local, hold); err != nil || len(shared) == 0 {
		return err
	}
	err := l.ask(ctx, as(func(ctx context.Context, to limiter.Renewer) error { return to.Renew(ctx, shared, hold) }))
	switch {
	case errors.Is(err, errAway):
		return nil // its return renews them
	case errors.Is(err, errors.ErrUnsupported):
		return l.replace(ids, hold)
	case err == nil:
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, p := range there {
			p.lapses = until
		}
	}
	return err
}

// replace takes the places of permits anew, where the shared limiter cannot
// prolong them.
func (l *Limiter) replace(ids []string, hold time.Duration) error {
	var moved []string
	var rs []limiter.Request
	l.mu.Lock()
	for _, id := range ids {
		if p := l.permits[id]; p != nil && len(p.places()) > 0 {
			moved = append(moved, id)
			rs = append(rs, limiter.Request{Key: booked, Limits: p.places(), Hold: hold})
		}
	}
	l.mu.Unlock()
	if len(rs) == 0 {
		return nil
	}
	err := l.move(l.askShared, moved, rs)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.away {
		l.payLater()
	}
	return err
}

// Settle says what a permit's call has cost so far.
func (l *Limiter) Settle(ctx context.Context, id string, costs []limiter.Cost) error {
	if err := l.settle(ctx, id, costs); err != nil {
		return err
	}
	l.mu.Lock()
	p := l.permits[id]
	if p == nil || p.shared == "" || p.adopted {
		l.mu.Unlock()
		return nil
	}
	shared, until := p.shared, p.until
	l.mu.Unlock()
	err := l.ask(ctx, as(func(ctx context.Context, to limiter.Settler) error { return to.Settle(ctx, shared, costs) }))
	return l.owe(err, func(d *debts) { d.settles[shared] = settling{costs, until} })
}

// settle settles here, and notes what the shared limiter is to count of it
// where it does not know the permit.
func (l *Limiter) settle(ctx context.Context, id string, costs []limiter.Cost) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.permits[id]
	if p == nil {
		return nil
	}
	if err := l.local.Settle(ctx, p.local, costs); err != nil {
		return err
	}
	now := time.Now()
	own := p.shared == "" || p.adopted
	for _, c := range costs {
		total, before, limits := p.settles(c)
		if limits == nil {
			continue
		}
		if p.counted == nil {
			p.counted = make(map[string]int)
		}
		p.counted[c.Key] = total
		switch {
		case !own || total == before:
		case total > before:
			more := limiter.Request{Limits: limits, Cost: total - before}
			l.debts.granted.add(more, now)
			if !l.away {
				l.payLater()
			}
		case l.away: // what has been told is not taken back
			l.debts.granted.takeOff(c.Key, before-total, p.at)
		}
	}
	return nil
}

// settles is what a total comes to in a bucket that the permit's request named
// with a cost of its own: how much it counts from now on and how much it did.
func (p *permit) settles(c limiter.Cost) (total, before int, limits []limiter.Limit) {
	for _, l := range p.request.Limits {
		if l.Key != c.Key || l.Cost == 0 || l.Calls == 0 {
			continue
		}
		total = max(total, min(c.Cost, l.Calls))
		before = max(before, min(l.Cost, l.Calls))
		l.Cost, l.Concurrent = 0, 0
		limits = append(limits, l)
	}
	if n, settled := p.counted[c.Key]; settled {
		before = n
	}
	return total, before, limits
}
