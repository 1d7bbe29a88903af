package budget

import (
	"cmp"
	"math"
	"time"

	"github.com/paceline-proxy/paceline/dialect"
)

// A Level is what a budget comes to now: the latest reading, replayed.
type Level struct {
	dialect.Snapshot
	// Sent is when the request was sent whose answer reported it.
	Sent time.Time
	// Own is what the request itself takes, Projected what is left now, Floor
	// what should be before it is sent: its own charge and what others may take
	// meanwhile. A Floor of 0 is that of a bucket without history.
	Own, Projected, Floor float64
	// Unsure is how many requests may have come to the provider after the one of
	// the reading, though they were sent before it.
	Unsure int
	// PerSecond is the rate at which the bucket fills, 0 where it does not fill
	// evenly, and Steps the instant at which it is full at once, zero where there
	// is none.
	PerSecond float64
	Steps     time.Time
	// Enough is when there is enough for the request itself, Safe when the floor
	// is reached, at the latest when the reading says nothing any more.
	Enough, Safe time.Time
}

// OneBucket reports whether two snapshots are of one bucket. The limit is part of
// what a bucket is: a changed plan starts afresh.
func OneBucket(a, b dialect.Snapshot) bool {
	return a.Unit == b.Unit && a.Window == b.Window && a.Scope == b.Scope && same(a.Limit, b.Limit)
}

// Levels replays every reading that still counts up to now, for a request with
// a charge of its own. Buckets that tell but a part of a limit are left out:
// nobody knows what a request takes from them.
func (s *State) Levels(starts *Starts, now time.Time, own Charge) (levels []Level) {
	for _, r := range s.Readings {
		if r.Remaining == nil || !r.lasts(now) {
			continue
		}
		l := Level{Snapshot: r.Snapshot, Sent: r.Sent, PerSecond: r.PerSecond(), Steps: r.stepsAt()}
		most := r.most()
		l.Own = min(r.charge(own), most)
		if drop := r.largestDrop(now); drop > 0 {
			l.Floor = max(l.Own, min(l.Own+drop+float64(r.Rounding), most/2))
		}
		replay := r.replay(starts, r.asOf(), now, true)
		l.Projected = replay.level
		l.Unsure = starts.unanswered(transit, r.asOf())
		l.Enough, l.Safe = replay.reaches(l.Own), replay.reaches(l.Floor)
		levels = append(levels, l)
	}
	return levels
}

// lasts reports whether a reading says anything at now.
func (r Reading) lasts(now time.Time) bool { return now.Before(r.ends()) }

// ends is when a reading has lasted for its window, from when the bucket is
// full.
func (r Reading) ends() time.Time {
	from := r.asOf()
	if r.Recovery.At.After(from) {
		from = r.Recovery.At
	}
	window := cmp.Or(Window(r.Snapshot), time.Minute)
	if r.PerSecond() > 0 || !r.stepsAt().IsZero() {
		window = max(window, time.Minute) // how it fills is known for longer
	}
	return from.Add(window)
}

// most is the most a bucket holds.
func (r Reading) most() float64 {
	if r.Limit == nil {
		return math.Inf(1)
	}
	return float64(*r.Limit)
}

// A replay is the level of a bucket at an instant.
type replay struct {
	Reading
	starts *Starts
	level  float64
	at     time.Time
	// A bucket that fills evenly does so at a rate; one that steps is full at an
	// instant; a window that rolls gets back what was taken a window ago, and
	// what others have taken evenly.
	rate    float64
	step    time.Time
	rolls   time.Duration
	expired []start // what is still to come back, in order
}

// replay is what a reading comes to at an instant, had it spoken of another that
// came before: less what this process has sent meanwhile, with what has come
// back. standing is the reading that stands, at the present: then what was sent
// at this very instant counts too, though it is booked a moment later.
func (r Reading) replay(starts *Starts, as, now time.Time, standing bool) replay {
	p := replay{Reading: r, starts: starts, level: float64(*r.Remaining), at: as, rate: r.PerSecond(), step: r.stepsAt(), rolls: r.rolls()}
	if p.rolls > 0 {
		p.rate = 0
		// What may have come back already does not do so again.
		p.expired = starts.since(as.Add(-p.rolls * rollSlack / (rollSlack + 1)))
		others := r.most() - p.level
		for _, s := range p.expired {
			if starts.at(s).After(as) {
				break
			}
			others -= r.charge(s.charge())
		}
		p.rate = max(0, others) / p.rolls.Seconds()
	}
	for _, s := range starts.since(as) {
		when := starts.at(s)
		if !standing && when.After(now) {
			break
		}
		if standing && s.answered && when.Sub(as) <= transit {
			continue // had it come later, its own reading would stand
		}
		p.fill(when)
		p.level -= r.charge(s.charge())
	}
	p.fill(now)
	return p
}

// fill adds what comes back until an instant.
func (p *replay) fill(to time.Time) {
	most := p.most()
	if p.rate > 0 {
		p.level = min(most, p.level+p.rate*max(0, to.Sub(p.at)).Seconds())
	}
	for len(p.expired) > 0 && !p.starts.at(p.expired[0]).Add(p.rolls).After(to) {
		p.level = min(most, p.level+p.charge(p.expired[0].charge()))
		p.expired = p.expired[1:]
	}
	if !p.step.IsZero() && p.at.Before(p.step) && !to.Before(p.step) {
		p.level = most
	}
	if to.After(p.at) {
		p.at = to
	}
}

// reaches is when the level is to reach a target: where nobody knows, when the
// reading says nothing any more.
func (p replay) reaches(target float64) time.Time {
	evenly := func() time.Time {
		return p.at.Add(time.Duration(math.Ceil((target - p.level) / p.rate * float64(time.Second))))
	}
	switch {
	case p.level >= target:
		return p.at
	case p.rolls > 0:
		for len(p.expired) > 0 {
			next := p.starts.at(p.expired[0]).Add(p.rolls)
			if p.rate > 0 && evenly().Before(next) {
				return evenly()
			}
			if p.fill(next); p.level >= target {
				return next
			}
		}
		if p.rate > 0 {
			return evenly()
		}
	case p.rate > 0:
		return evenly()
	case p.step.After(p.at):
		return p.step
	case !p.step.IsZero():
		// It was full, and has not been seen to fill: one at a time finds out.
		last, _ := p.starts.Back(1)
		return last.Add(transit)
	}
	return p.ends()
}

// between is the level at an instant, had the reading spoken of another. Before
// that one it is what was sent meanwhile more.
func (r Reading) between(starts *Starts, as, at time.Time) float64 {
	if !at.Before(as) {
		return r.replay(starts, as, at, false).level
	}
	level := float64(*r.Remaining)
	for _, s := range starts.since(at) {
		if starts.at(s).After(as) {
			break
		}
		level += r.charge(s.charge())
	}
	return min(level, r.most())
}
