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
	// PerSecond is the rate at which the bucket fills, 0 where it does not fill
	// evenly, and Steps the instant at which it is full at once, zero where there
	// is none.
	PerSecond float64
	Steps     time.Time
	// Enough is when there is enough for the request itself, Safe when the floor
	// is reached; zero where nobody knows.
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
		l.Projected = r.replay(starts, now, now)
		most := math.Inf(1)
		if r.Limit != nil {
			most = float64(*r.Limit)
		}
		l.Own = min(l.Own, most)
		if len(r.Drops) > 0 {
			l.Floor = max(l.Own, min(l.Own+r.largestDrop()+float64(r.Rounding), most/2))
		}
		l.Enough, l.Safe = r.reaches(l, l.Own, now), r.reaches(l, l.Floor, now)
		levels = append(levels, l)
	}
	return levels
}

// lasts reports whether a reading says anything at now: for its window, from
// when the bucket is full.
func (r Reading) lasts(now time.Time) bool {
	from := r.Sent
	if r.Recovery.At.After(from) {
		from = r.Recovery.At
	}
	return now.Sub(from) < cmp.Or(Window(r.Snapshot), time.Minute)
}

// replay is the level at now: what was read, less what this process has sent
// from then until upto, with what has come back meanwhile.
func (r Reading) replay(starts *Starts, upto, now time.Time) float64 {
	level, at := float64(*r.Remaining), r.Sent
	most := math.Inf(1)
	if r.Limit != nil {
		most = float64(*r.Limit)
	}
	rate, step := r.PerSecond(), r.stepsAt()
	fill := func(to time.Time) {
		if rate > 0 {
			level = min(most, level+rate*to.Sub(at).Seconds())
		}
		if !step.IsZero() && at.Before(step) && !to.Before(step) {
			level = most
		}
		at = to
	}
	for _, s := range starts.since(r.Sent) {
		when := starts.base.Add(time.Duration(s.at))
		if when.After(upto) {
			break
		}
		fill(when)
		level -= r.charge(s.charge())
	}
	fill(now)
	return level
}

// reaches is when a level is to reach a target, zero where nobody knows.
func (r Reading) reaches(l Level, target float64, now time.Time) time.Time {
	switch {
	case l.Projected >= target:
		return now
	case l.PerSecond > 0:
		return now.Add(time.Duration(math.Ceil((target - l.Projected) / l.PerSecond * float64(time.Second))))
	case l.Steps.After(now):
		return l.Steps
	}
	return time.Time{}
}
