package budget

import (
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
	Drops []float64 `json:"drops,omitempty"`
	Fill  Fill      `json:"fill,omitzero"`
}

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
	// Own is what its request was expected to cost.
	Own     Charge
	Buckets []dialect.Snapshot
}

// Observe keeps the buckets one answer reported: of one bucket the reading of
// the request sent last stands, of one instant the smaller remaining. starts
// is the log that the request is in.
func (s *State) Observe(starts *Starts, o Observation) {
	for _, b := range o.Buckets {
		r := Reading{Snapshot: b, Sent: o.Sent, Head: o.Head}
		i := s.find(b)
		if i < 0 {
			s.keep(r)
			i = len(s.Readings) - 1
		}
		old := &s.Readings[i]
		if o.Admitted {
			old.Fill = old.Fill.after(r)
		}
		r.Fill = old.Fill
		if r.stands(*old, starts, o.Head) {
			r.Drops = old.dropped(starts, r, o.Own)
			*old = r
		}
	}
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

// find returns the index of the reading of b's bucket, or -1. The limit is
// part of what a bucket is: a changed plan starts afresh.
func (s *State) find(b dialect.Snapshot) int {
	return slices.IndexFunc(s.Readings, func(r Reading) bool {
		return r.Unit == b.Unit && r.Window == b.Window && r.Scope == b.Scope && same(r.Limit, b.Limit)
	})
}

// transit is how much longer one request may be on its way than another: of
// those sent within it nobody knows which came first.
const transit = 2 * time.Second

// stands reports whether a reading stands in the place of an older one. Of
// requests sent at about the same time, the one that leaves less does.
func (r Reading) stands(old Reading, starts *Starts, now time.Time) bool {
	if d := r.Sent.Sub(old.Sent).Abs(); d == 0 || d > transit || r.Remaining == nil || old.Remaining == nil {
		return r.supersedes(old)
	}
	return r.replay(starts, now, now) < old.replay(starts, now, now)
}

func (r Reading) supersedes(old Reading) bool {
	if !r.Sent.Equal(old.Sent) {
		return r.Sent.After(old.Sent)
	}
	return r.Remaining != nil && (old.Remaining == nil || *r.Remaining < *old.Remaining)
}

func same(a, b *int64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// dropped are the drops after a newer reading of the same bucket. One that
// finds more than was expected counts as no drop, so that what others no longer
// take is forgotten.
func (r Reading) dropped(starts *Starts, next Reading, own Charge) []float64 {
	if r.Remaining == nil || next.Remaining == nil || !next.Sent.After(r.Sent) || !r.lasts(next.Sent) {
		return r.Drops
	}
	own1 := r.charge(own)
	drop := r.replay(starts, next.Sent.Add(-1), next.Sent) - own1 - float64(*next.Remaining)
	drops := append(slices.Clone(r.Drops), max(0, drop))
	return drops[max(0, len(drops)-maxDrops):]
}

// largestDrop is the largest that is remembered.
func (r Reading) largestDrop() float64 {
	largest := 0.0
	for _, d := range r.Drops {
		largest = max(largest, d)
	}
	return largest
}

// charge is what a request takes from the bucket.
func (r Reading) charge(c Charge) float64 {
	n := 0
	switch r.Unit {
	case dialect.Requests:
		return 1
	case dialect.Tokens:
		n = c.Tokens
	case dialect.InputTokens:
		n = c.Input
	case dialect.OutputTokens:
		n = c.Output
	}
	if n == 0 {
		return r.largestDrop() // nobody has estimated it
	}
	return float64(n)
}
