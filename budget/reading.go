package budget

import (
	"cmp"
	"slices"
	"time"

	"github.com/paceline-proxy/paceline/dialect"
)

// A Reading is a bucket as reported by the answer to a request sent at Sent,
// on our own clock: answers of concurrent requests arrive in any order.
type Reading struct {
	dialect.Snapshot
	Sent time.Time `json:"sent"`
	// Head is when the head of the answer came.
	Head time.Time `json:"head,omitzero"`
	// Drops are how much less the latest readings found than was expected, the
	// latest last: what others took, and what is not understood of the charging.
	Drops []Drop `json:"drops,omitempty"`
	// Base is the reading that the next drop is counted from.
	Base *Reading `json:"base,omitempty"`
	Fill Fill     `json:"fill,omitzero"`
	Late Late     `json:"late,omitzero"`
}

// A Drop is how much less a reading has found than was expected.
type Drop struct {
	At time.Time `json:"at"`
	By float64   `json:"by"`
}

// dropped is how long a drop is remembered: bursts of others come again.
const dropped = 2 * time.Minute

const (
	// maxReadings bounds what a provider can make us remember.
	maxReadings = 32
	maxDrops    = 8
)

// An Observation is what one answer reported.
type Observation struct {
	Sent, Head time.Time
	// Admitted is true where the request was let through.
	Admitted bool
	Buckets  []dialect.Snapshot
}

// Observe keeps the buckets one answer reported: of one bucket the latest
// reading stands, of readings of about the same instant the one that leaves
// less. starts is the log that the request is in. It returns what the request
// itself has taken in tokens, 0 where that does not show.
func (s *State) Observe(starts *Starts, o Observation) (took Charge) {
	starts.answer(o.Sent)
	for _, b := range o.Buckets {
		r := Reading{Snapshot: b, Sent: o.Sent, Head: o.Head}
		told := b.Recovery.At
		i := s.find(b)
		if i < 0 {
			first := r
			first.Recovery.At = first.recovers()
			s.keep(first)
			i = len(s.Readings) - 1
		}
		old := &s.Readings[i]
		if o.Admitted {
			old.took(starts, r, &took)
			old.Late = old.Late.after(*old, r, starts)
		}
		r.Late = old.Late
		r.Recovery.At = r.recovers()
		fill := old.Fill.after(r, told, o.Admitted)
		shape := old.shape()
		r.Fill = fill
		if old.Fill = fill; old.shape() != shape {
			old.Drops, old.Base = nil, nil // what was expected was wrong
		}
		r.Drops, r.Base = old.Drops, old.Base
		if r.stands(*old) {
			if !o.Admitted && old.surprised(starts, r) {
				// Others leave too little to show how much they would take.
				r.noteDrop(max(2, 2*r.largestDrop(r.asOf())))
			}
			r.drop(starts)
			*old = r
		}
	}
	return took
}

// took notes in c what the request of a later reading has taken of the bucket,
// where it was the only one since this reading. Far more than was expected is
// what others have taken.
func (r Reading) took(starts *Starts, next Reading, c *Charge) {
	own := c.of(r.Unit)
	since := starts.since(r.asOf())
	if own == nil || len(since) != 1 || !starts.at(since[0]).Equal(next.Sent) || next.Sent.Before(r.Head) {
		return
	}
	if r.Remaining == nil || next.Remaining == nil || !r.lasts(next.Sent) || r.Late.is() || r.Rounding > 0 {
		return
	}
	took := r.between(starts, r.asOf(), next.Sent.Add(-1)) - float64(*next.Remaining)
	if took > 0 && took <= 4*r.charge(since[0].charge()) {
		*own = int(took)
	}
}

// of is the part of a charge that a bucket of a unit counts, nil for none.
func (c *Charge) of(unit string) *int {
	switch unit {
	case dialect.Tokens:
		return &c.Tokens
	case dialect.InputTokens:
		return &c.Input
	case dialect.OutputTokens:
		return &c.Output
	}
	return nil
}

// keep adds a reading of a bucket that was not known.
func (s *State) keep(r Reading) {
	if len(s.Readings) >= maxReadings {
		oldest := 0
		for i, r := range s.Readings {
			if r.Sent.Before(s.Readings[oldest].Sent) {
				oldest = i
			}
		}
		s.Readings = slices.Delete(s.Readings, oldest, oldest+1)
	}
	s.Readings = append(s.Readings, r)
}

// find returns the index of the reading of b's bucket, or -1.
func (s *State) find(b dialect.Snapshot) int {
	return slices.IndexFunc(s.Readings, func(r Reading) bool { return OneBucket(r.Snapshot, b) })
}

// stands reports whether a reading stands in the place of an older one. Of
// those of about the same instant, the one that left less came last.
func (r Reading) stands(old Reading) bool {
	d := r.asOf().Sub(old.asOf())
	if d.Abs() > transit || r.Remaining == nil || old.Remaining == nil || *r.Remaining == *old.Remaining {
		return d > 0 || d == 0 && old.Remaining == nil
	}
	return *r.Remaining < *old.Remaining
}

func same(a, b *int64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// surprised reports whether the bucket is found empty by a request that the
// reading had enough for.
func (r Reading) surprised(starts *Starts, next Reading) bool {
	at := next.asOf()
	return r.Remaining != nil && next.Empty() && at.After(r.asOf()) && r.lasts(at) && r.between(starts, r.asOf(), at) >= 0
}

// noteDrop notes a drop, if it is one.
func (r *Reading) noteDrop(drop float64) {
	if drop < 0.5 {
		return
	}
	r.Drops = append(slices.Clone(r.Drops), Drop{r.asOf(), drop})
	r.Drops = r.Drops[max(0, len(r.Drops)-maxDrops):]
}

// drop notes how much less a reading has found than one of a while ago led to
// expect. One that finds more is none. What was on its way when either was made,
// or when the window turned, explains nothing.
func (r *Reading) drop(starts *Starts) {
	at, base := r.asOf(), *r
	base.Drops, base.Base = nil, nil
	old := r.Base
	switch {
	case r.Remaining == nil || r.astride():
	case old == nil || !old.lasts(at):
		r.Base = &base
	case at.Sub(old.asOf()) >= apart:
		now := *old
		now.Fill = r.Fill
		unsure := starts.Within(transit, old.asOf()) + starts.Within(transit, at.Add(transit))
		if step := now.stepsAt(); step.After(old.asOf()) && step.Before(at) {
			unsure += starts.Within(2*transit, step.Add(transit))
		}
		r.noteDrop(now.between(starts, now.asOf(), at) - float64(*r.Remaining) - float64(unsure))
		r.Base = &base
	}
}

// astride reports whether the window turned while the request was under way:
// nobody knows on which side it was counted.
func (r Reading) astride() bool {
	step, window := r.stepsAt(), cmp.Or(Window(r.Snapshot), r.Fill.Longest)
	if step.IsZero() || window == 0 {
		return false
	}
	began := step.Add(-window)
	return r.Sent.Before(began.Add(rounding)) && r.Head.After(began.Add(-rounding))
}

// largestDrop is the largest that is remembered at an instant.
func (r Reading) largestDrop(now time.Time) float64 {
	largest := 0.0
	for _, d := range r.Drops {
		if now.Sub(d.At) < dropped {
			largest = max(largest, d.By)
		}
	}
	return largest
}

// charge is what a request takes from the bucket.
func (r Reading) charge(c Charge) float64 {
	if r.Unit == dialect.Requests {
		return 1
	}
	if n := c.of(r.Unit); n != nil && *n > 0 {
		return float64(*n)
	}
	return r.largestDrop(r.asOf()) // nobody has estimated it
}
