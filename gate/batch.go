package gate

import (
	"context"
	"slices"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/policy"
)

// recheck is when places refused by a limiter that others share are asked for
// again at the latest: nobody tells that another host has given one back.
const recheck = 100 * time.Millisecond

// asked is a waiter that is asked for, under the plan that was made for it.
type asked struct {
	w    *waiter
	plan policy.Plan
}

// askTogether asks for the head of a line and, in the same call, for those who
// follow it, as many as are likely to be granted. The answers come later.
func (g *Gate) askTogether(l *line, head asked, seen view) answer {
	first := head.w.request(head.plan)
	if err := first.Validate(); err != nil {
		return refusal(unasked(err)) // it must not fail others
	}
	batch, requests := []asked{head}, []limiter.Request{first}
	a := seen.activity
	followers := g.followers(l, head.w)
	for _, f := range followers {
		a.InFlight, a.Waiting, a.Ahead = a.InFlight+1, a.Waiting-1, a.Ahead+1
		if batch[len(batch)-1].w.ask.Priority != Background {
			a.Foreground = time.Now()
		}
		a.Background, a.Anyway = f.background, f.w.anyway()
		next, ok := g.planned(f.w, a)
		if !ok {
			break
		}
		batch, requests = append(batch, next), append(requests, next.w.request(next.plan))
	}
	cut := len(batch) <= len(followers)
	g.carrier.take(load{requests, func(ds []limiter.Decision, err error) { g.arrived(l, batch, cut, ds, err) }})
	return answer{}
}

// A follower is a waiter that would be started next.
type follower struct {
	w          *waiter
	background bool
}

// followers are those who would be the head, one after the other, if the head
// and then each of them were started.
func (g *Gate) followers(l *line, head *waiter) []follower {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	var fs []follower
	undo := []func(){l.pretend(head, now)}
	for len(undo) < l.most {
		w := l.head(now)
		if w == nil {
			break
		}
		fs = append(fs, follower{w, w.priority == Background})
		undo = append(undo, l.pretend(w, now))
	}
	for _, f := range slices.Backward(undo) {
		f()
	}
	return fs
}

// pretend has the order of a line be as if a waiter had been started.
func (l *line) pretend(w *waiter, now time.Time) (undo func()) {
	q, c := w.queue, w.queue.client
	last, turned := c.last, l.turned
	q.pull(w)
	c.last = l.turnAt(now)
	c.count(1)
	return func() {
		c.last, l.turned = last, turned
		c.count(-1)
		q.put(w)
	}
}

// planned makes the plan of a waiter that sleeps, for the head to ask for it too.
// It is false where it has to wait until it is the head itself.
func (g *Gate) planned(w *waiter, a policy.Activity) (asked, bool) {
	if !w.awake.TryLock() {
		return asked{}, false // it may be about to leave
	}
	defer w.awake.Unlock()
	now := time.Now()
	plan := w.ask.Plan(now, a)
	limits, refused := g.unheld(plan.Limits, now)
	if plan.Limits = limits; refused != nil || plan.Free || plan.Full || plan.NotBefore.After(now) || w.request(plan).Validate() != nil {
		return asked{}, false
	}
	return asked{w, plan}, true
}

// arrived hands out the answers to those who were asked for together: the grants
// up to the first refusal, which is what the line meets. cut is whether more
// would have been asked for, had their plans let them.
func (g *Gate) arrived(l *line, batch []asked, cut bool, ds []limiter.Decision, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	refused := -1
	for i, a := range batch {
		switch w := a.w; {
		case err != nil && !w.out:
			w.tell(refusal(unasked(err)))
		case err != nil:
		case ds[i].Granted:
			grant := g.grant(&w.ask, a.plan, ds[i].Permit, now)
			if w.out || refused >= 0 {
				g.giveUp(grant)
				continue
			}
			g.begin(l, w, grant)
			w.tell(answer{came: true, granted: true, grant: grant})
		case refused < 0:
			refused = i
		}
	}
	switch {
	case err != nil:
	case refused >= 0:
		// As many are likely to be granted the next time, and the one beyond them
		// learns when it is worth asking again.
		l.most = max(2, refused+1)
		if f := batch[refused]; !f.w.out {
			b, own, err := meets(f.w, f.plan, ds[refused], now, recheck)
			if l.met(f.w, b, own, l.ended) {
				b.until = now // what it lacked has been given back meanwhile
			}
			f.w.tell(answer{came: true, next: b.until, err: err})
		}
	case cut:
		l.most = len(batch) + 1
	case len(batch) == l.most:
		l.most = min(2*l.most, mostTogether)
	}
	if l.beginning == 0 {
		g.ready(l)
	}
}

// tell hands a waiter what came of asking for it, in the place of what it has
// not heeded yet. The lock is held.
func (w *waiter) tell(a answer) {
	select {
	case <-w.told:
	default:
	}
	w.told <- &a
}

// acquire asks for one request, whatever stands in line. An answer that takes
// long is not waited for, and what it grants is given back.
func (g *Gate) acquire(ctx context.Context, a *Ask, plan policy.Plan, now time.Time) (grant Grant, granted bool) {
	r := limiter.Request{Key: a.Key, Limits: plan.Limits, Hold: a.Hold}
	if g.carrier == nil {
		d, err := g.limiter.Acquire(ctx, r)
		return g.grant(a, plan, d.Permit, now), err == nil && d.Granted
	}
	if r.Validate() != nil {
		return grant, false
	}
	given := make(chan Grant) // closed where it is refused
	left := make(chan struct{})
	g.carrier.take(load{[]limiter.Request{r}, func(ds []limiter.Decision, err error) {
		defer close(given)
		if err != nil || !ds[0].Granted {
			return
		}
		grant := g.grant(a, plan, ds[0].Permit, now)
		select {
		case given <- grant:
		case <-left:
			g.mu.Lock()
			defer g.mu.Unlock()
			g.giveUp(grant)
		}
	}})
	late := time.NewTimer(overdue)
	defer late.Stop()
	select {
	case grant, granted = <-given:
	case <-late.C:
		close(left)
	}
	return grant, granted
}
