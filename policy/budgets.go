package policy

import (
	"time"

	"github.com/paceline-proxy/paceline/budget"
)

// Headroom is how much of what a provider allows is left for a caller key, from
// 0 for nothing, as in a pause, to 1: the smallest part over its observed
// budgets. A key of which nothing is known has all of it.
func Headroom(r Rules, s *budget.State, starts *budget.Starts, now time.Time) float64 {
	if s.Pause.Active(now) {
		return 0
	}
	left := 1.0
	if r.NoBudgets {
		return left
	}
	for _, l := range s.Levels(starts, now, r.Cost) {
		if l.Limit != nil && *l.Limit > 0 {
			left = min(left, max(0, l.Projected/float64(*l.Limit)))
		}
	}
	return left
}
