package budget

import (
	"sort"
	"time"
)

// maxStarts bounds the log of starts: 512 KiB a caller key. Beyond it the
// oldest are forgotten, and a count over them is a lower bound.
const maxStarts = 1 << 16

// Starts is the log of when this process sent requests of a caller key. It is
// evidence, asked after a refusal; it never decides whether to send. A provider
// that says it is full is given half of what it shows.
type Starts struct {
	base time.Time // instants are kept as nanoseconds since the first
	at   []int64   // ascending; the live part begins at gone
	gone int
}

// Add books a start and forgets those older than keep.
func (s *Starts) Add(at time.Time, keep time.Duration) {
	if s.base.IsZero() {
		s.base = at
	}
	ns := int64(at.Sub(s.base))
	if n := len(s.at); n > s.gone {
		ns = max(ns, s.at[n-1]) // concurrent sends may book a moment apart
	}
	s.at = append(s.at, ns)
	for s.at[s.gone] < ns-int64(keep) || len(s.at)-s.gone > maxStarts {
		s.gone++
	}
	if s.gone > 64 && s.gone > len(s.at)/2 {
		s.at = append(s.at[:0], s.at[s.gone:]...)
		s.gone = 0
	}
}

// Within counts the starts of the span of length per that ends at end.
func (s *Starts) Within(per time.Duration, end time.Time) int {
	live := s.at[s.gone:]
	if len(live) == 0 {
		return 0
	}
	to := int64(end.Sub(s.base))
	from := to - int64(per)
	first := sort.Search(len(live), func(i int) bool { return live[i] > from })
	last := sort.Search(len(live), func(i int) bool { return live[i] > to })
	return last - first
}

// Back is the n-th latest start, 1 for the latest; false where there were not
// so many.
func (s *Starts) Back(n int) (time.Time, bool) {
	live := s.at[s.gone:]
	if n < 1 || n > len(live) {
		return time.Time{}, false
	}
	return s.base.Add(time.Duration(live[len(live)-n])), true
}
