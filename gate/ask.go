package gate

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/policy"
)

// An answer is what came of asking for a request.
type answer struct {
	came    bool // else nothing has come of it yet
	granted bool
	grant   Grant
	err     error // with which the request leaves
	// next is when to ask again, zero where only somebody's waking tells.
	next time.Time
}

// refusal is the answer that has a request leave.
func refusal(err error) answer { return answer{came: true, err: err} }

// ask puts the head's question. Over a limiter that answers several in one go
// the answer comes later, to each for whom it was asked.
func (g *Gate) ask(ctx context.Context, l *line, w *waiter, seen view) answer {
	if err := ctx.Err(); err != nil {
		return refusal(err)
	}
	select {
	case <-w.ask.Stop:
		return refusal(stopped())
	default:
	}
	now := time.Now()
	plan := w.ask.Plan(now, seen.activity)
	if plan.Full || plan.NotBefore.After(now) {
		b, next := unplanned(w, plan, now)
		g.blocked(l, w, b, false, seen.ended)
		return answer{came: true, next: next, err: w.bears(b, now)}
	}
	d := limiter.Decision{Granted: plan.Free, Now: now}
	if limits, refused := g.unheld(plan.Limits, now); refused != nil {
		d.Refused = refused
	} else if plan.Limits = limits; !plan.Free {
		if g.carrier != nil {
			return g.askTogether(l, asked{w, plan}, seen)
		}
		var err error
		if d, err = g.limiter.Acquire(ctx, w.request(plan)); err != nil {
			return refusal(cmp.Or(ctx.Err(), unasked(err)))
		}
	}
	now = time.Now() // the answer may have taken its time
	if d.Granted {
		return g.letThrough(l, w, g.grant(&w.ask, plan, d.Permit, now))
	}
	b, own, err := meets(w, plan, d, now, 0)
	g.blocked(l, w, b, own, seen.ended)
	return answer{came: true, next: b.until, err: err}
}

// unasked is why a limiter could not be asked.
func unasked(err error) error { return fmt.Errorf("asking the limiter: %w", err) }

func (w *waiter) request(plan policy.Plan) limiter.Request {
	return limiter.Request{Key: w.ask.Key, Limits: plan.Limits, Hold: w.ask.Hold}
}

// unplanned is what stands before who may not be asked for yet by its plan, and
// when to plan again.
func unplanned(w *waiter, plan policy.Plan, now time.Time) (b block, next time.Time) {
	b.why = plan.Why
	if plan.Full {
		b.full = true
		return b, time.Time{}
	}
	b.limits = everybodys(plan)
	b.until, b.closed, b.quota = plan.NotBefore, plan.Closed, plan.Quota
	b.ordered, b.budget = plan.Ordered, plan.Budget
	if plan.Paused {
		b.firm = plan.NotBefore
		if !plan.Ordered {
			b.pause = plan.NotBefore
		}
	}
	next = plan.NotBefore
	if plan.Look.After(now) {
		next = sooner(next, plan.Look)
	}
	if w.ask.Reread > 0 && plan.Budget != nil {
		next = sooner(next, now.Add(w.ask.Reread))
	}
	return b, next
}

// everybodys are the lasting limits of a plan that all of the line have to fit.
func everybodys(plan policy.Plan) []limiter.Limit {
	return plan.Limits[plan.Own : len(plan.Limits)-plan.Passing]
}

// meets is what stands before who was refused, whether those are limits of its
// own alone, and an error where it does not bear them. Places are worth asking
// for again after recheck at the latest, 0 for when the limiter says.
func meets(w *waiter, plan policy.Plan, d limiter.Decision, now time.Time, recheck time.Duration) (b block, own bool, err error) {
	// Its clock may be another than ours, so only differences count, from an
	// instant after the answer: asking early would only be refused again.
	mine := block{refused: d.Refused, limits: plan.Limits[:plan.Own], why: describe(d.Refused, plan.Limits[:plan.Own])}
	b = block{refused: d.Refused, limits: everybodys(plan), why: describe(d.Refused, plan.Limits[plan.Own:])}
	own = len(d.Refused) > 0
	for _, f := range d.Refused {
		wait := f.RetryAt.Sub(d.Now)
		if f.Cause == limiter.Concurrent && recheck > 0 && wait >= recheck {
			wait = recheck/2 + rand.N(recheck/2) // hosts do not meet
		}
		at := now.Add(wait)
		to := &b
		if names(mine.limits, f.Key) {
			if to = &mine; !plan.Eases.IsZero() {
				at = sooner(at, plan.Eases)
			}
		} else {
			own = false
		}
		to.until = later(to.until, at)
		if f.Cause == limiter.Throttle {
			to.pause = at
		}
		// Places and tokens may be given back before.
		if f.Cause != limiter.Concurrent && !counts(plan.Limits, f.Key) {
			to.firm = later(to.firm, at)
		}
	}
	err = w.bears(mine, now)
	// What the line meets holds everybody up; then only its lane waits on.
	if own {
		b = mine
	}
	if !b.until.After(now) {
		b.until = now.Add(time.Millisecond) // not all the time for what has passed
	}
	return b, own, cmp.Or(err, w.bears(b, now))
}

// names reports whether one of these limits counts in a bucket.
func names(limits []limiter.Limit, bucket string) bool {
	return slices.ContainsFunc(limits, func(l limiter.Limit) bool { return l.Key == bucket })
}

// counts reports whether a bucket is one of tokens, in which a request counts
// with a cost that may yet change.
func counts(limits []limiter.Limit, bucket string) bool {
	return slices.ContainsFunc(limits, func(l limiter.Limit) bool { return l.Key == bucket && l.Cost > 0 })
}

// holdsOf names the buckets in which a grant of these limits holds a place or
// counts with a cost that can be settled.
func holdsOf(limits []limiter.Limit) (keys []string) {
	for _, l := range limits {
		if l.Concurrent > 0 || l.Cost > 0 {
			keys = append(keys, l.Key)
		}
	}
	return keys
}
