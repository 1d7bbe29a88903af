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

// Levels replays every reading that still counts up to now, for a request with
// a charge of its own. Buckets that tell but a part of a limit are left out:
// nobody knows what a request takes from them.
func (s *State) Levels(starts *Starts, now time.Time, own Charge) (levels []Level) {
	for _, r := range s.Readings {
		if r.Remaining == nil || !r.lasts(now) {
			continue
		}
		l := Level{Snapshot: r.Snapshot, Sent: r.Sent, PerSecond: r.PerSecond(), Steps: r.stepsAt()}
		l.Own = r.charge(own)
		l.Projected = r.replay(starts, now)
		l.Unsure = starts.unanswered(transit, r.asOf())
		most := r.most()
		l.Own = min(l.Own, most)
		if len(r.Drops) > 0 {
			l.Floor = max(l.Own, min(l.Own+r.largestDrop()+float64(r.Rounding), most/2))
		}
		l.Enough, l.Safe = r.reaches(l, l.Own, now), r.reaches(l, l.Floor, now)
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
	return from.Add(cmp.Or(Window(r.Snapshot), time.Minute))
}

// replay is the level at now: what was read, less what this process has sent
// since, with what has come back meanwhile.
func (r Reading) replay(starts *Starts, now time.Time) float64 {
	return r.from(starts, r.asOf(), now, true)
}

// between is the level at an instant, had the reading spoken of another. Before
// that one it is what was sent meanwhile more.
func (r Reading) between(starts *Starts, as, at time.Time) float64 {
	if !at.Before(as) {
		return r.from(starts, as, at, false)
	}
	level := float64(*r.Remaining)
	for _, s := range starts.since(at) {
		if starts.base.Add(time.Duration(s.at)).After(as) {
			break
		}
		level += r.charge(s.charge())
	}
	return min(level, r.most())
}

// most is the most a bucket holds.
func (r Reading) most() float64 {
	if r.Limit == nil {
		return math.Inf(1)
	}
	return float64(*r.Limit)
}

// from is the level at an instant, had the reading spoken of another that came
// before. all takes in what was sent at that very instant, which is booked a
// moment apart.
func (r Reading) from(starts *Starts, as, now time.Time, all bool) float64 {
	level, at, most := float64(*r.Remaining), as, r.most()
	rate, step := r.PerSecond(), r.stepsAt()
	fill := func(to time.Time) {
		if rate > 0 {
			level = min(most, level+rate*max(0, to.Sub(at)).Seconds())
		}
		if !step.IsZero() && at.Before(step) && !to.Before(step) {
			level = most
		}
		if to.After(at) {
			at = to
		}
	}
	for _, s := range starts.since(as) {
		when := starts.base.Add(time.Duration(s.at))
		if !all && when.After(now) {
			break
		}
		fill(when)
		level -= r.charge(s.charge())
	}
	fill(now)
	return level
}

// reaches is when a level is to reach a target: where nobody knows, when the
// reading says nothing any more.
func (r Reading) reaches(l Level, target float64, now time.Time) time.Time {
	switch {
	case l.Projected >= target:
		return now
	case l.PerSecond > 0:
		return now.Add(time.Duration(math.Ceil((target - l.Projected) / l.PerSecond * float64(time.Second))))
	case l.Steps.After(now):
		return l.Steps
	}
	return r.ends()
}
