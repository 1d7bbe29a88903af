package budget

import (
	"sort"
	"time"
)

// maxStarts bounds the log of starts: 3 MiB a caller key. Beyond it the
// oldest are forgotten, and a count over them is a lower bound.
const maxStarts = 1 << 16

// A Charge is what one request is expected to cost, in the units of tokens.
// Requests are always one.
type Charge struct {
	// Tokens are input and output together.
	Tokens, Input, Output int
}

// Starts is the log of when this process sent requests of a caller key, and
// what they were expected to cost. It is evidence, asked after a refusal, and
// what a reading is replayed with; by itself it never decides whether to send.
// A provider that says it is full is given half of what it shows. A nil Starts
// is empty.
type Starts struct {
	base time.Time // instants are kept as nanoseconds since the first
	all  []start   // ascending; the live part begins at gone
	gone int
}

type start struct {
	at int64
	// as is the instant that stands for this start alone, a moment later where
	// several were booked at one.
	as                    int64
	tokens, input, output int32
	answered              bool
	spent                 [3]int32 // what it has cost as far as one knows: tokens, input and output
}

func (s start) charge() Charge { return Charge{int(s.tokens), int(s.input), int(s.output)} }

// Replayed is how long starts are to be kept to replay readings with: a window
// of a minute, before a reading that is as old.
const Replayed = 3 * time.Minute

// Add books a start with what it is expected to cost, and forgets those older
// than keep. It returns the instant that stands for this start alone.
func (s *Starts) Add(at time.Time, keep time.Duration, c Charge) time.Time {
	if s.base.IsZero() {
		s.base = at
	}
	ns := int64(at.Sub(s.base))
	as := ns
	if n := len(s.all); n > s.gone {
		ns = max(ns, s.all[n-1].at) // concurrent sends may book a moment apart
		as = max(ns, s.all[n-1].as+1)
	}
	cost := [3]int32{most32(c.Tokens), most32(c.Input), most32(c.Output)}
	s.all = append(s.all, start{ns, as, cost[0], cost[1], cost[2], false, cost})
	for s.all[s.gone].at < ns-int64(keep) || len(s.all)-s.gone > maxStarts {
		s.gone++
	}
	if s.gone > 64 && s.gone > len(s.all)/2 {
		s.all = append(s.all[:0], s.all[s.gone:]...)
		s.gone = 0
	}
	return s.base.Add(time.Duration(as))
}

// at is the instant that stands for a start.
func (s *Starts) at(l start) time.Time { return s.base.Add(time.Duration(l.as)) }

// Settle notes what a start has cost, by the instant that stands for it. What a
// reading is replayed with stays what had been expected: that is what it is
// compared with.
func (s *Starts) Settle(as time.Time, c Charge) {
	if live := s.until(as); len(live) > 0 && s.at(live[len(live)-1]).Equal(as) {
		live[len(live)-1].spent = [3]int32{most32(c.Tokens), most32(c.Input), most32(c.Output)}
	}
}

// Spent is what the starts of the span of length per that ends at end have cost,
// as far as their answers have said it, else what was expected.
func (s *Starts) Spent(per time.Duration, end time.Time) (c Charge) {
	for _, l := range s.span(per, end) {
		c.Tokens, c.Input, c.Output = c.Tokens+int(l.spent[0]), c.Input+int(l.spent[1]), c.Output+int(l.spent[2])
	}
	return c
}

// answer notes that the head of a start's answer has come.
func (s *Starts) answer(as time.Time) {
	if live := s.until(as); len(live) > 0 && s.at(live[len(live)-1]).Equal(as) {
		live[len(live)-1].answered = true
	}
}

// unanswered counts the starts of the span of length per that ends at end whose
// answers have not come.
func (s *Starts) unanswered(per time.Duration, end time.Time) (n int) {
	live := s.until(end)
	for i := len(live) - 1; i >= 0 && end.Sub(s.at(live[i])) < per; i-- {
		if !live[i].answered {
			n++
		}
	}
	return n
}

func most32(n int) int32 { return int32(min(max(0, n), 1<<31-1)) }

// live are the starts that are remembered.
func (s *Starts) live() []start {
	if s == nil {
		return nil
	}
	return s.all[s.gone:]
}

// Within counts the starts of the span of length per that ends at end.
func (s *Starts) Within(per time.Duration, end time.Time) int { return len(s.span(per, end)) }

// span are the starts of the span of length per that ends at end.
func (s *Starts) span(per time.Duration, end time.Time) []start {
	live := s.live()
	if len(live) == 0 {
		return nil
	}
	to := int64(end.Sub(s.base))
	from := to - int64(per)
	first := sort.Search(len(live), func(i int) bool { return live[i].at > from })
	last := sort.Search(len(live), func(i int) bool { return live[i].at > to })
	return live[first:last]
}

// First is the oldest start that is remembered, zero where there is none.
func (s *Starts) First() time.Time {
	if live := s.live(); len(live) > 0 {
		return s.base.Add(time.Duration(live[0].at))
	}
	return time.Time{}
}

// Back is the n-th latest start, 1 for the latest; false where there were not
// so many.
func (s *Starts) Back(n int) (time.Time, bool) {
	live := s.live()
	if n < 1 || n > len(live) {
		return time.Time{}, false
	}
	return s.base.Add(time.Duration(live[len(live)-n].at)), true
}

// until are the starts up to an instant, since those after it, in order.
func (s *Starts) until(t time.Time) []start {
	live := s.live()
	return live[:len(live)-len(s.since(t))]
}

func (s *Starts) since(t time.Time) []start {
	live := s.live()
	if len(live) == 0 {
		return nil
	}
	ns := int64(t.Sub(s.base))
	return live[sort.Search(len(live), func(i int) bool { return live[i].as > ns }):]
}
