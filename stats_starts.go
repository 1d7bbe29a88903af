package paceline

import (
	"slices"
	"sort"
	"time"

	"github.com/paceline-proxy/paceline/budget"
)

// starts are the attempts of one caller key, as the log has them.
type starts struct {
	sent, done []int64 // when each was sent, and when each ended, in nanoseconds
	// What each has cost, in the order of sent, where limits of tokens are
	// declared; once sorted, all up to it together.
	tokens bool
	spent  []spent
}

// spent is what was said of the cost of an attempt sent at an instant.
type spent struct {
	at      int64
	in, out int
}

func (s *starts) add(r *Record, at time.Time) {
	sent := at.UnixNano()
	s.sent = append(s.sent, sent)
	s.done = append(s.done, r.ended(at).UnixNano())
	if s.tokens {
		s.spent = append(s.spent, spent{sent, r.InTokens, r.OutTokens})
	}
}

// ended is when an attempt that belongs to an instant was over.
func (r *Record) ended(at time.Time) time.Time {
	if r.Done.After(at) {
		return r.Done
	}
	return at
}

func (s *starts) sort() {
	slices.Sort(s.sent)
	slices.Sort(s.done)
	slices.SortStableFunc(s.spent, func(a, b spent) int { return int(min(1, max(-1, a.at-b.at))) })
	for i := 1; i < len(s.spent); i++ {
		s.spent[i].in += s.spent[i-1].in
		s.spent[i].out += s.spent[i-1].out
	}
}

// exceed reports whether a configured limit was exceeded when an attempt was
// refused.
func (s *starts) exceed(l Limits, sent, came int64) bool {
	// A span ends when the refusal came, or early enough to hold the refused
	// start itself.
	span := func(per time.Duration) (from, to int) {
		end := min(came, sent+int64(per)-1)
		return after(s.sent, end-int64(per)), after(s.sent, end)
	}
	within := func(per time.Duration) int {
		from, to := span(per)
		return to - from
	}
	spent := func(per time.Duration) budget.Charge {
		from, to := span(per)
		was, is := s.upTo(from), s.upTo(to)
		in, out := is.in-was.in, is.out-was.out
		return budget.Charge{Tokens: in + out, Input: in, Output: out}
	}
	live := after(s.sent, sent) - after(s.done, sent)
	return l.Exceeded(within) || l.ExceededTokens(spent) || l.MaxConcurrent > 0 && live > l.MaxConcurrent
}

// upTo is what the first n attempts have cost.
func (s *starts) upTo(n int) spent {
	if n == 0 {
		return spent{}
	}
	return s.spent[n-1]
}

// after is the index of the first instant after t.
func after(instants []int64, t int64) int {
	return sort.Search(len(instants), func(i int) bool { return instants[i] > t })
}
