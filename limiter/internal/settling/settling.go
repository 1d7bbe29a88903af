// Package settling is the arithmetic of what a call counts whose cost is put
// right after its grant.
package settling

import "github.com/paceline-proxy/paceline/limiter"

// A Share is what a permit's call counts in a bucket, where that can be settled.
type Share struct {
	Granted int64   // when
	Since   int64   // when it first cost more; 0 where it never did
	Tallies []Tally // the last one is for windows that its request did not name
}

// A Tally is what the call counts in one window, or, where Per is 0, in each
// that its request did not name.
type Tally struct {
	Per, Calls int64
	First      int64 // counted when it was granted
	Later      int64 // counted since
}

// Of notes what a grant counts in a bucket that the request names with a cost of
// a limit's own. It is not ok where the request does not.
func Of(r *limiter.Request, bucket string, now int64) (s Share, ok bool) {
	names := 0 // windows of the bucket
	for i := range r.Limits {
		if l := &r.Limits[i]; l.Calls > 0 && l.Key == bucket {
			names++
			ok = ok || l.Cost > 0
		}
	}
	if !ok {
		return s, false
	}
	s = Share{Granted: now, Tallies: make([]Tally, 0, names+1)}
	var unnamed Tally
	for _, l := range r.Limits {
		if l.Calls > 0 && l.Key == bucket {
			c := Tally{Per: int64(l.Per), Calls: int64(l.Calls), First: int64(min(r.CostOf(l), l.Calls))}
			s.Tallies = append(s.Tallies, c)
			unnamed.Calls, unnamed.First = max(unnamed.Calls, c.Calls), max(unnamed.First, c.First)
		}
	}
	s.Tallies = append(s.Tallies, unnamed)
	return s, true
}

// In is what the call counts in the window of a span.
func (s *Share) In(per int64) Tally {
	for _, c := range s.Tallies {
		if c.Per == per {
			return c
		}
	}
	return s.Tallies[len(s.Tallies)-1]
}

// Settle has the share count a total from now on.
func (s *Share) Settle(total, now int64) {
	for i := range s.Tallies {
		c := &s.Tallies[i]
		more, first, later := c.Change(total)
		c.First, c.Later = c.First-first, c.Later+more-later
		if more > 0 && s.Since == 0 {
			s.Since = now
		}
	}
}

// Change is what a total counts more than the tally, or what is taken off what
// the grant counted and off what was counted later.
func (c Tally) Change(total int64) (more, first, later int64) {
	more = min(total, c.Calls) - c.First - c.Later
	if more >= 0 {
		return more, 0, 0
	}
	first = min(-more, c.First)
	return 0, first, -more - first
}
