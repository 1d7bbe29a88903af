package policy

import (
	"slices"
	"time"

	"github.com/paceline-proxy/paceline/budget"
	"github.com/paceline-proxy/paceline/dialect"
)

// An Answer is what became of one request that was sent.
type Answer struct {
	Sent time.Time
	// Booked is the instant that stands for its start alone, zero for Sent.
	Booked  time.Time
	Now     time.Time // when its head came, what hides behind it was read, or its connection was lost
	Reading dialect.Reading
	// Lost is true where no head came.
	Lost bool
	// Heard is true where what its head says of budgets has been taken in
	// already.
	Heard bool
	// Activity of the line, the answered request still in flight.
	Activity Activity
	// Recent counts the starts of the last ten seconds.
	Recent int
}

// A Lesson is what an answer changed.
type Lesson struct {
	// ThrottleUntil is the end of a wait the provider stated, zero for none.
	ThrottleUntil time.Time
	// Paused is true where this answer is one for which the key is paused.
	Paused bool
	// Lowered is true where this answer lowered the adaptive factor.
	Lowered bool
	// Factor in force after the answer.
	Factor float64
	// Changed is true where other processes should know.
	Changed bool
	// Took is what the request has taken in tokens, as far as what is left of
	// budgets shows it.
	Took budget.Charge
	// Moved is true where the next request may start at another instant.
	Moved bool
}

// holds are the parts of a state that hold requests up.
type holds struct {
	pause   budget.Pause
	probe   budget.Probe
	spacing time.Duration
	rate    float64
	places  int
	heard   bool
}

func holdsOf(s *budget.State) holds {
	return holds{s.Pause, s.Probe, s.Spacing.Every, s.Rate.PerSecond, s.Places.N, s.Heard}
}

// Hear takes in what the head of an answer says of budgets, which holds whatever
// comes behind it. It reports whether other processes should know, and what the
// request has taken as far as it shows.
func (r Rules) Hear(s *budget.State, starts *budget.Starts, a Answer) (changed bool, took budget.Charge) {
	if r.NoBudgets {
		return false, took
	}
	took = s.Observe(starts, budget.Observation{Sent: later(a.Sent, a.Booked), Head: a.Now, Admitted: a.Reading.Class == dialect.OK, Wait: a.Reading.Wait, Buckets: a.Reading.Buckets})
	return len(a.Reading.Buckets) > 0, took
}

// Learn takes in an answer; starts is the log that its request is in. Each rule
// is a few lines of its own below; all of them obey that one answer teaches once.
func (r Rules) Learn(s *budget.State, starts *budget.Starts, a Answer) Lesson {
	before := holdsOf(s)
	r.expireProbe(s, a.Now, a.Activity)
	s.Heard = s.Heard || !a.Lost
	var l Lesson
	if !a.Lost && !a.Heard {
		l.Changed, l.Took = r.Hear(s, starts, a)
	}
	if told := a.Reading; told.Told && told.Wait > 0 && pauses(told) {
		until := a.Now.Add(told.Wait)
		l.ThrottleUntil = until
		l.Changed = s.Close(a.Now, until, reasons[told.Class], budget.Told) || l.Changed
	}
	l.Paused = !l.ThrottleUntil.IsZero()
	switch g := a.Reading; g.Class {
	case dialect.OK, dialect.Rejected:
		l.Changed = r.admitted(s, a) || l.Changed
	case dialect.RateLimited:
		switch {
		case g.TooLarge:
			// Nothing to learn: it says nothing of what else would pass.
		case g.Concurrent:
			r.losePlace(s, a)
			r.resetProbe(s, a)
		default:
			r.refused(s, a)
			l.Paused = true
			l.Lowered = r.lower(s, a)
		}
		l.Changed = true
	case dialect.QuotaExhausted:
		if !g.Told || g.Wait == 0 {
			r.spent(s, a)
		}
		l.Paused, l.Changed = true, true
	case dialect.Billing:
		// One request a minute may find out whether somebody has paid.
		s.Close(a.Now, a.Now.Add(time.Minute), budget.Billing, budget.Learned)
		l.Paused, l.Changed = true, true
	case dialect.Overloaded:
		r.overloaded(s, a)
		r.resetProbe(s, a)
		l.Changed = true
	case dialect.Unavailable:
		r.resetProbe(s, a)
	}
	l.Factor = r.factor(s, a.Now)
	l.Moved = holdsOf(s) != before
	return l
}

var reasons = map[dialect.Class]budget.Reason{
	dialect.RateLimited:    budget.RateLimit,
	dialect.QuotaExhausted: budget.Quota,
	dialect.Overloaded:     budget.Overloaded,
	dialect.Unavailable:    budget.Down,
}

// ReasonOf is the reason of the pause that a told wait makes in an answer of a
// class, false where it makes none.
func ReasonOf(c dialect.Class) (budget.Reason, bool) {
	reason, ok := reasons[c]
	return reason, ok
}

// pauses reports whether a told wait closes the caller key.
func pauses(g dialect.Reading) bool {
	_, ok := reasons[g.Class]
	return ok && !g.TooLarge
}

// probed reports whether an answer is the one of the probe under way.
func probed(s *budget.State, a Answer) bool {
	return s.Probe.Needed && !s.Probe.Sent.IsZero() && !a.Sent.Before(s.Probe.Sent)
}

// Unanswered takes in that a request sent at an instant will have no answer,
// for no fault of the provider. It reports whether that changed anything.
func (r Rules) Unanswered(s *budget.State, sent, now time.Time) bool {
	a := Answer{Sent: sent, Now: now}
	was := probed(s, a)
	r.resetProbe(s, a)
	return was
}

// resetProbe lets the next request probe where this one found nothing out.
func (r Rules) resetProbe(s *budget.State, a Answer) {
	if probed(s, a) {
		s.Probe = budget.Probe{Needed: true, Changed: a.Now}
	}
}

// refused opens an episode, or goes on with it.
func (r Rules) refused(s *budget.State, a Answer) {
	e := &s.Episode
	if !a.Sent.After(e.Changed) {
		return
	}
	e.Changed = a.Now
	if !e.Open {
		e.Open, e.Began, e.Refusals = true, a.Now, 0
	}
	r.resetProbe(s, a)
	g := a.Reading
	if e.Wait = g.Wait; !g.Told || g.Wait == 0 {
		base, most := max(r.base(s), g.Least), maxBackoff
		if g.Least > 0 {
			most = mostLeast
		}
		e.Wait = jitterless(base, e.Refusals, most)
		s.Close(a.Now, latest(a.Now.Add(jittered(e.Wait)), turned(s, a)), budget.RateLimit, budget.Learned)
	}
	e.Refusals++
}

// lookEvery is how often a pause is looked at whose end is worked out.
const lookEvery = 10 * time.Minute

// spent pauses for a quota of which nobody says when it comes back: until its
// window turns, where that is known, else by backoff.
func (r Rules) spent(s *budget.State, a Answer) {
	turns := a.Reading.Turns
	if turns == 0 {
		r.refused(s, a)
		s.Pause.Reason = budget.Quota
		return
	}
	s.Close(a.Now, a.Now.Add(turns), budget.Quota, budget.Learned)
	if s.Pause.Source == budget.Learned && s.Pause.Until.Sub(a.Now) > lookEvery {
		s.Pause.Look = a.Now.Add(lookEvery)
	}
	r.resetProbe(s, a)
}

// turned is when the short windows turn that an answer reported empty, zero
// where none is known to.
func turned(s *budget.State, a Answer) (at time.Time) {
	for _, b := range s.Readings {
		if b.Empty() && b.Head.Equal(a.Now) && b.Recovery.Kind == dialect.StepAt && b.Recovery.At.Sub(a.Now) <= longestFit {
			at = latest(at, b.Recovery.At)
		}
	}
	return at
}

// base is the first untold wait: two intervals of a fast learned rate, and at
// least one of a slow rate, which was too fast already.
func (r Rules) base(s *budget.State) time.Duration {
	base := r.Retry.Base
	if s.Rate.PerSecond > 0 {
		interval := time.Duration(float64(time.Second) / s.Rate.PerSecond)
		base = min(max(min(base, 2*interval), interval), maxBackoff)
	}
	return max(base, time.Millisecond)
}

// admitted counts what was let through. It reports whether that is worth
// telling other processes at once.
func (r Rules) admitted(s *budget.State, a Answer) bool {
	s.Episode.Admitted++
	r.relax(s, a)
	r.raise(s, a)
	r.gainPlace(s, a)
	if !probed(s, a) || s.Pause.Active(a.Now) && s.Pause.Look.IsZero() {
		return false
	}
	if s.Pause.Active(a.Now) {
		s.Reopen(a.Now)
	}
	r.leavePause(s, a.Now, a.Activity)
	return true
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// losePlace learns how many run at once from a refusal that says it is about
// that: what is in flight here without the refused one. The refusals of one
// burst come one after the other, and the last of them sees how many were not
// refused; so the least number of a burst stands.
func (r Rules) losePlace(s *budget.State, a Answer) {
	p := &s.Places
	n := max(1, a.Activity.InFlight-1)
	fresh := a.Sent.After(p.Changed)
	if burst := a.Now.Sub(p.Changed) < probeFor; !fresh && !(burst && n < p.N) {
		return
	}
	if p.N > 0 {
		n = min(n, p.N)
	}
	*p = budget.Places{N: n, Changed: a.Now}
}

// gainPlace adds a place for every twenty admissions while all are in use.
func (r Rules) gainPlace(s *budget.State, a Answer) {
	p := &s.Places
	if p.N == 0 || a.Activity.InFlight < p.N || !a.Sent.After(p.Changed) {
		return
	}
	if p.Admitted++; p.Admitted >= 20 {
		*p = budget.Places{N: p.N + 1, Changed: a.Now}
	}
}

// overloaded halves the starts for half a minute after three answers within
// ten seconds that the provider is full.
func (r Rules) overloaded(s *budget.State, a Answer) {
	o := &s.Overload
	o.Recent = append(slices.DeleteFunc(o.Recent, func(t time.Time) bool { return a.Now.Sub(t) > 10*time.Second }), a.Now)
	if len(o.Recent) < 3 {
		return
	}
	o.Recent = nil
	o.Until = a.Now.Add(30 * time.Second)
	o.Every = 2 * 10 * time.Second / time.Duration(max(1, a.Recent))
}
