package budget

import (
	"slices"
	"sort"
	"time"
)

// maxStarts bounds the log of starts: 2 MiB a caller key. Beyond it the
// oldest are forgotten, and a count over them is a lower bound.
const maxStarts = 1 << 16

// A Charge is what one request is expected to cost, in the units of tokens.
// Requests are always one.
type Charge struct {
	// Tokens are input and output together.
	Tokens int `json:"tokens,omitempty"`
	Input  int `json:"input,omitempty"`
	Output int `json:"output,omitempty"`
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
	at                    int64 // when it was
	ns                    int64 // what stands for it, which is the same, or a moment later
	tokens, input, output int32
	answered              bool
}

func (s start) charge() Charge { return Charge{int(s.tokens), int(s.input), int(s.output)} }

// Add books a start with what it is expected to cost, and forgets those older
// than keep. It returns an instant that stands for this start and no other, since
// several may be at one instant, and a reading speaks of one of them.
func (s *Starts) Add(at time.Time, keep time.Duration, c Charge) time.Time {
	if s.base.IsZero() {
		s.base = at
	}
	was := int64(at.Sub(s.base))
	ns := was
	if n := len(s.all); n > s.gone {
		last := s.all[n-1]
		was, ns = max(was, last.at), max(ns, last.ns+1) // concurrent sends may book a moment apart
	}
	s.all = append(s.all, start{was, ns, most32(c.Tokens), most32(c.Input), most32(c.Output), false})
	for s.all[s.gone].at < was-int64(keep) || len(s.all)-s.gone > maxStarts {
		s.gone++
	}
	if s.gone > 64 && s.gone > len(s.all)/2 {
		s.all = append(s.all[:0], s.all[s.gone:]...)
		s.gone = 0
	}
	return s.base.Add(time.Duration(ns))
}

// at is the instant of a start.
func (s *Starts) at(l start) time.Time { return s.base.Add(time.Duration(l.ns)) }

// answer notes that the head of a start's answer has come.
func (s *Starts) answer(at time.Time) {
	live := s.live()
	if len(live) == 0 {
		return
	}
	ns := int64(at.Sub(s.base))
	if i := after(live, ns) - 1; i >= 0 && live[i].ns == ns {
		live[i].answered = true
	}
}

// unanswered counts the starts of the span of length per that ends at end whose
// answers have not come.
func (s *Starts) unanswered(per time.Duration, end time.Time) (n int) {
	live := s.live()
	if len(live) == 0 || end.Before(s.base) || per <= 0 {
		return 0
	}
	to := int64(end.Sub(s.base))
	for _, l := range live[after(live, to-int64(per)):after(live, to)] {
		if !l.answered {
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
func (s *Starts) Within(per time.Duration, end time.Time) int {
	live := s.live()
	if len(live) == 0 {
		return 0
	}
	to := int64(end.Sub(s.base))
	until := func(ns int64) int { return sort.Search(len(live), func(i int) bool { return live[i].at > ns }) }
	return until(to) - until(to-int64(per))
}

// after is the index of the first start after an instant.
func after(live []start, ns int64) int {
	return sort.Search(len(live), func(i int) bool { return live[i].ns > ns })
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

// Since yields the starts after an instant, in order.
func (s *Starts) since(t time.Time) []start {
	live := s.live()
	if len(live) == 0 {
		return nil
	}
	return slices.Clip(live[after(live, int64(t.Sub(s.base))):])
}
