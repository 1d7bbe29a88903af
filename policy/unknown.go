package policy

import (
	"time"

	"github.com/paceline-proxy/paceline/budget"
)

// Learning a rate where nothing is declared and nothing told.

const (
	// memory is how long a refusal or an unused rate is remembered.
	memory = time.Hour
	// The bounds of a spacing; below the least it is forgotten.
	leastSpacing = 250 * time.Millisecond
	mostSpacing  = 30 * time.Second
	// rampEvery spaces those who waited where nothing else does.
	rampEvery = 2 * leastSpacing
	// rampFor is how long nobody may have been started for that to end.
	rampFor = time.Minute
)

// learns reports whether the key has to find its rate out: none is declared
// and no reading names a rate of requests. Who wants no adaptation wants no
// learning either.
func (r Rules) learns(s *budget.State, now time.Time) bool {
	if r.Limits.Adaptive.Off || r.declaresRequests() {
		return false
	}
	for _, b := range s.Readings {
		// What a provider tells in refusals alone says nothing of others' part.
		if toldEvery(b, now) > 0 && !r.NoBudgets && (r.Reports || !b.Refused) {
			return false
		}
	}
	return true
}

// endEpisode draws the lesson of a finished episode. The first has no rate to
// cut: it leaves a spacing, forgiven by a few successes. A second within the
// hour leaves a rate.
func (r Rules) endEpisode(s *budget.State, now time.Time) {
	e := &s.Episode
	if !e.Open {
		return
	}
	if r.learns(s, now) {
		if s.Rate.PerSecond > 0 || !e.Ended.IsZero() && e.Began.Sub(e.Ended) < memory {
			// Too few to measure by are measured with what came before them.
			fresh := e.Admitted >= measurable || e.Since.IsZero()
			if fresh {
				e.Since, e.Through = e.Ended, 0
			}
			e.Through += e.Admitted
			s.Rate = learned(s, now, fresh)
			s.Spacing = budget.Spacing{Changed: now}
		} else {
			e.Since, e.Through = time.Time{}, 0
			s.Spacing = budget.Spacing{Every: spacingAfter(e.Wait), Changed: now}
		}
	}
	*e = budget.Episode{Ended: now, Changed: now, Since: e.Since, Through: e.Through}
}

// measurable is how many admissions make a rate: fewer are chance. Just after
// an episode the window may still be full of what was admitted before it.
const measurable = 10

// spacingAfter is the spacing that follows a wait.
func spacingAfter(wait time.Duration) time.Duration {
	return min(max(wait, leastSpacing), mostSpacing)
}

// learned is the rate after an episode that ends at now: what was let through
// since the one before, pauses included, under what was refused, and not under
// half of what held before. Where the limit is, a rate says only that has been
// in force for long enough to be refused by itself: neither the first one does,
// which nothing had paced, nor one that is cut again at once.
func learned(s *budget.State, now time.Time, fresh bool) budget.Rate {
	e, former := s.Episode, s.Rate.PerSecond
	rate := float64(max(1, e.Through)) / max(now.Sub(e.Since), time.Millisecond).Seconds()
	if former > 0 {
		rate = max(min(0.95*former, rate), former/2)
	}
	refused := former
	if !fresh {
		refused = s.Rate.Refused
	}
	return budget.Rate{PerSecond: rate, Refused: refused, Changed: now, Since: s.Rate.Since, Used: s.Rate.Used}
}

// raise lifts a learned rate with every ten admissions: slowly near the rate
// that was refused, faster away from it.
func (r Rules) raise(s *budget.State, a Answer) {
	if s.Rate.PerSecond == 0 || s.Episode.Open || !a.Sent.After(s.Rate.Changed) {
		return
	}
	if s.Rate.Admitted++; s.Rate.Admitted < 10 {
		return
	}
	step := 1.1
	if s.Rate.Refused == 0 {
		step = 1.2
	}
	if r, refused := s.Rate.PerSecond, s.Rate.Refused; r >= 0.9*refused && r <= 1.1*refused {
		step = 1.01
	}
	s.Rate.PerSecond *= step
	s.Rate.Admitted, s.Rate.Changed = 0, a.Now
}

// relax halves the spacing with each success.
func (r Rules) relax(s *budget.State, a Answer) {
	if s.Spacing.Every == 0 || !a.Sent.After(s.Spacing.Changed) {
		return
	}
	every := s.Spacing.Every / 2
	if every < leastSpacing {
		// Forgiven, but those who waited for it are not let go in a herd.
		every = 0
		s.Ramp = budget.Ramp{Left: a.Activity.Waiting, Until: a.Now.Add(rampFor), Every: rampEvery}
	}
	s.Spacing = budget.Spacing{Every: every, Changed: a.Now}
}

// use counts starts under a learned rate, and forgets it after an hour of
// using less than half.
func (r Rules) use(s *budget.State, now time.Time) {
	if s.Rate.PerSecond == 0 {
		return
	}
	switch {
	case s.Rate.Since.IsZero():
		s.Rate.Since, s.Rate.Used = now, 0
	case now.Sub(s.Rate.Since) >= memory:
		if float64(s.Rate.Used) < s.Rate.PerSecond*memory.Seconds()/2 {
			s.Rate = budget.Rate{Changed: now}
			return
		}
		s.Rate.Since, s.Rate.Used = now, 0
	}
	s.Rate.Used++
}
