package policy

import (
	"cmp"
	"math"
	"time"

	"github.com/paceline-proxy/paceline/budget"
)

// factor is the adaptive factor in force at now: what refusals left of it,
// plus a step for each cooldown since.
func (r Rules) factor(s *budget.State, now time.Time) float64 {
	a := r.Limits.Adaptive
	if a.Off || s.Factor.Value == 0 {
		return 1
	}
	calm := s.Factor.Changed
	if s.Factor.Refused.After(calm) {
		calm = s.Factor.Refused
	}
	steps := 0.0
	if a.Cooldown > 0 {
		steps = math.Floor(float64(max(0, now.Sub(calm))) / float64(a.Cooldown))
	}
	return min(1, rounded(s.Factor.Value+steps*a.Increase))
}

// rounded keeps a factor to what a reader of the log would write.
func rounded(f float64) float64 { return math.Round(f*1e4) / 1e4 }

// lower cuts the factor after a refusal that neither our numbers explain nor the
// size of the request, and reports whether it did.
func (r Rules) lower(s *budget.State, a Answer) bool {
	ad := r.Limits.Adaptive
	if ad.Off || !r.Limits.Declared() && !r.Own.Declared() || explained(s, a) || r.Oversize(s) {
		return false
	}
	f := &s.Factor
	now := r.factor(s, a.Now)
	// What the calm up to now has given back is kept before it starts anew.
	f.Value, f.Refused = now, a.Now
	if !f.Changed.IsZero() && (!a.Sent.After(f.Changed) || a.Now.Sub(f.Changed) < ad.Gap) {
		return false
	}
	next := max(ad.Min, rounded(now*ad.Decrease))
	if next >= now {
		return false
	}
	f.Value, f.Changed = next, a.Now
	return true
}

// explained reports whether a refusal says what refused, or a reading does:
// then the told wait is all that follows.
func explained(s *budget.State, a Answer) bool {
	if a.Reading.Named {
		return true
	}
	for _, b := range s.Readings {
		until := b.Recovery.At
		if until.IsZero() { // it lasts for its window, where that is known
			until = b.Sent.Add(cmp.Or(budget.Window(b.Snapshot), time.Minute))
		}
		if b.Empty() && until.After(a.Now) {
			return true
		}
	}
	return false
}
