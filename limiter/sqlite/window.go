package sqlite

import (
	"math"
	"slices"
	"sort"
)

// A window holds this many entries at most.
const mostEntries = 1024

// An entry is what was granted at one instant.
type entry struct{ at, cost int64 }

// A window is a rolling log of one bucket over one span, oldest entry first. The
// sum of its costs is below 1<<63.
type window struct {
	per     int64
	asked   int64 // when a request last named it; where it is stored, up to half a span earlier
	used    int64 // the sum of its costs
	entries []entry
}

// expire lets go of what has been in the window for its whole span.
func (w *window) expire(now int64) {
	gone := 0
	for gone < len(w.entries) && w.entries[gone].at <= now-w.per {
		w.used -= w.entries[gone].cost
		gone++
	}
	w.entries = w.entries[gone:]
}

// full says whether a cost has no room under calls, and when it will, as long
// as nothing is granted. cost is at most calls.
func (w *window) full(calls, cost int64) (until int64, full bool) {
	used := w.used
	for _, e := range w.entries {
		if used <= calls-cost {
			break
		}
		used -= e.cost
		until, full = after(e.at, w.per), true
	}
	return until, full
}

// book counts a grant. The cost keeps the sum below 1<<63.
func (w *window) book(at, cost int64) {
	w.used += cost
	if n := len(w.entries); n > 0 && w.entries[n-1].at >= at { // the same instant, or quantum
		w.entries[n-1].cost += cost
		return
	}
	w.entries = append(w.entries, entry{at, cost})
	w.bound()
}

// insert counts a grant of an instant that others may have followed.
func (w *window) insert(at, cost int64) {
	i := sort.Search(len(w.entries), func(i int) bool { return w.entries[i].at >= at })
	if i == len(w.entries) {
		w.book(at, cost)
		return
	}
	w.used += cost
	if w.entries[i].at == at {
		w.entries[i].cost += cost
		return
	}
	w.entries = slices.Insert(w.entries, i, entry{at, cost})
	w.bound()
}

// bound keeps the number of entries: those of one quantum become one, dated at
// its end.
//
// Ends lie in (now-per, now+quantum), which is at most 1024 quanta of a 1023rd of
// the span. Where a clock was set back they may reach further; then the oldest join
// their neighbours, which are younger, so that nothing leaves early.
func (w *window) bound() {
	if len(w.entries) <= mostEntries {
		return
	}
	quantum := (w.per-1)/(mostEntries-1) + 1
	kept := w.entries[:0]
	for _, e := range w.entries {
		e.at = endOf(e.at, quantum)
		if n := len(kept); n > 0 && kept[n-1].at == e.at {
			kept[n-1].cost += e.cost
		} else {
			kept = append(kept, e)
		}
	}
	for len(kept) > mostEntries {
		kept[1].cost += kept[0].cost
		kept = kept[1:]
	}
	w.entries = kept
}

// takeOff takes a cost off what was counted from an instant on. What that was
// may be part of younger entries by now, and what others have counted before
// the last of it goes first: so nothing leaves earlier than it would have.
func (w *window) takeOff(at, cost int64) {
	for i := range w.entries {
		if e := &w.entries[i]; e.at >= at {
			less := min(cost, e.cost)
			e.cost -= less
			w.used -= less
			cost -= less
		}
	}
	w.entries = slices.DeleteFunc(w.entries, func(e entry) bool { return e.cost == 0 })
}

// over is a window of another span over what this one holds.
func (w *window) over(per, now int64) window {
	w.expire(now)
	c := window{per: per, used: w.used, entries: slices.Clone(w.entries)}
	c.expire(now)
	return c
}

// idle is from when a window counts nothing.
func (w *window) idle() int64 {
	if n := len(w.entries); n > 0 {
		return after(w.entries[n-1].at, w.per)
	}
	return 0
}

// after is t+d, or the end of time. Neither may be negative.
func after(t, d int64) int64 {
	if d > math.MaxInt64-t {
		return math.MaxInt64
	}
	return t + d
}

// endOf is the end of the quantum an instant lies in: itself where it is one.
func endOf(at, quantum int64) int64 {
	if past := at % quantum; past > 0 {
		return after(at, quantum-past)
	}
	return at
}
