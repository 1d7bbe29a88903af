package memory

import (
	"math"
	"slices"
	"sort"
)

// A ring holds this many entries at most: 16 KiB.
const mostEntries = 1024

// An entry is what was granted at one instant, as the running total of its
// window's cost from the start up to and including it. Totals wrap; only their
// differences count, and those stay below 1<<63.
type entry struct {
	at    int64
	total uint64
}

// A window is a rolling log of one bucket over one span, oldest entry first.
//
// Cost is a number in an entry: nothing here takes longer because a call costs
// more. The youngest entry is not in the ring, so that an ask that neither lets
// anything go nor begins an entry finds all it needs side by side.
type window struct {
	per    int64
	asked  int64  // when a request last named this window
	leaves int64  // when the oldest entry does; 0 where drop has to find out
	gone   uint64 // the total up to what has left
	last   entry  // the youngest; of the total gone if there is none

	// quantum is 0 while every grant is an entry of its own. Otherwise new
	// grants are dated at the end of their quantum, where they meet.
	quantum int64

	ring       []entry // a power of two long, or nil
	head, live uint32
}

// entry is the i-th oldest. The one after all in the ring is the youngest.
func (w *window) entry(i uint32) *entry {
	if i == w.live {
		return &w.last
	}
	return &w.ring[(w.head+i)&uint32(len(w.ring)-1)]
}

// used is the cost now in the window, once expire has been called.
func (w *window) used() int64 { return int64(w.last.total - w.gone) }

// expire lets go of what has been in the window for its whole span.
func (w *window) expire(now int64) {
	if w.leaves <= now {
		w.drop(now)
	}
}

func (w *window) drop(now int64) {
	edge := now - w.per
	for w.live > 0 && w.entry(0).at <= edge {
		w.gone = w.entry(0).total
		w.head = (w.head + 1) & uint32(len(w.ring)-1)
		w.live--
	}
	if w.live == 0 && w.last.at <= edge {
		w.gone = w.last.total
	}
	if w.used() == 0 {
		w.last.at = -1 // not at the instant of any grant
		w.leaves = math.MaxInt64
	} else {
		w.leaves = after(w.entry(0).at, w.per)
	}
	w.refine()
}

// refine keeps grants apart again once there is half a ring of room, so that a
// window at the brink is not compacted at every turn.
func (w *window) refine() {
	if w.live <= mostEntries/2 {
		w.quantum = 0
	}
}

// fits says whether cost has room under calls. If not, at is the first instant
// it will, as long as nothing is granted. cost is at most calls.
func (w *window) fits(calls, cost int64) (at int64, ok bool) {
	room := calls - cost
	used := w.used()
	if used <= room {
		return 0, true
	}
	// The first entry with which enough has left.
	leave := uint64(used - room)
	lo, hi := uint32(0), w.live
	for lo < hi {
		mid := (lo + hi) / 2
		if w.entry(mid).total-w.gone >= leave {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return after(w.entry(lo).at, w.per), false
}

// book counts a grant. expire has been called for this instant, and the cost
// keeps the total below 1<<63.
func (w *window) book(now, cost int64) {
	if w.last.at < now { // neither the same instant nor the same quantum
		w.begin(now)
	}
	w.last.total += uint64(cost)
}

// begin sees to it that the youngest entry is one that a grant of this instant
// counts in.
func (w *window) begin(now int64) {
	if w.used() == 0 {
		w.last.at, w.leaves = now, after(now, w.per)
		return
	}
	if w.live == mostEntries {
		w.merge()
		if w.last.at >= now {
			return
		}
	}
	w.push(w.last)
	w.last.at = now
	if w.quantum > 0 {
		w.last.at = endOf(now, w.quantum)
	}
}

func (w *window) push(e entry) {
	switch {
	case w.live == mostEntries:
		// Not reached while entries are dated by this window's own quantum; one
		// copied from a coarser ring may be one too many. The oldest joins its
		// neighbour, which is younger, so nothing leaves early.
		w.head = (w.head + 1) & (mostEntries - 1)
		w.live--
		w.leaves = after(w.entry(0).at, w.per)
	case int(w.live) == len(w.ring):
		ring := make([]entry, max(2, 2*len(w.ring)))
		for i := range w.live {
			ring[i] = *w.entry(i)
		}
		w.ring, w.head = ring, 0
	}
	w.live++
	*w.entry(w.live - 1) = e
}

// merge makes room in a full ring: entries of one quantum become one, dated at
// its end.
//
// Ends lie in (now-per, now+quantum), which is shorter than 1024 quanta of a
// 1023rd of the span, so that many entries always suffice.
func (w *window) merge() {
	w.quantum = (w.per-1)/(mostEntries-1) + 1
	kept, end := uint32(0), int64(-1)
	for i := range w.live + 1 {
		e := *w.entry(i)
		if e.at > end {
			end = endOf(e.at, w.quantum)
			kept++
		}
		e.at = end
		if i == w.live {
			w.last = e
		} else {
			*w.entry(kept - 1) = e
		}
	}
	w.live = kept - 1
	w.leaves = after(w.entry(0).at, w.per)
	w.refine()
}

// endOf is the end of the quantum an instant lies in: itself where it is one.
func endOf(at, quantum int64) int64 {
	if past := at % quantum; past > 0 {
		return after(at, quantum-past)
	}
	return at
}

// insert counts a grant of an instant that others may have followed.
func (w *window) insert(at, cost int64) {
	if w.used() == 0 || at >= w.last.at {
		w.book(at, cost)
		return
	}
	entries := make([]entry, 0, w.live+2)
	for i := range w.live + 1 {
		entries = append(entries, *w.entry(i))
	}
	i := sort.Search(len(entries), func(i int) bool { return entries[i].at >= at })
	if entries[i].at > at {
		total := w.gone
		if i > 0 {
			total = entries[i-1].total
		}
		entries = slices.Insert(entries, i, entry{at, total})
	}
	w.head, w.live = 0, 0
	for n, e := range entries {
		if n >= i {
			e.total += uint64(cost)
		}
		if n < len(entries)-1 {
			w.push(e)
		} else {
			w.last = e
		}
	}
	w.leaves = 0
}

// takeOff takes a cost off what was counted from an instant on. What that was
// may be part of younger entries by now, and what others have counted before
// the last of it goes first: so nothing leaves earlier than it would have.
func (w *window) takeOff(at, cost int64) {
	i := uint32(sort.Search(int(w.live+1), func(i int) bool { return w.entry(uint32(i)).at >= at }))
	before, taken := w.gone, uint64(0)
	if i > 0 {
		before = w.entry(i - 1).total
	}
	for ; i <= w.live; i++ {
		e := w.entry(i)
		taken = min(uint64(cost), e.total-before)
		e.total -= taken
	}
	if w.used() == 0 {
		w.head, w.live = 0, 0
		w.last.at, w.leaves = -1, math.MaxInt64
		w.refine()
	}
}

// each calls f with every entry, the oldest first.
func (w *window) each(f func(at, cost int64)) {
	before := w.gone
	for i := range w.live + 1 {
		if e := w.entry(i); e.total != before {
			f(e.at, int64(e.total-before))
			before = e.total
		}
	}
}

// shift moves what was booked at since or later on by a sleep.
func (w *window) shift(since, sleep int64) {
	for i := int64(w.live); i >= 0 && w.entry(uint32(i)).at >= since; i-- {
		e := w.entry(uint32(i))
		e.at = after(e.at, sleep)
	}
	w.leaves = 0
	if w.asked >= since {
		w.asked += sleep
	}
}

// copyOf is a new window over what another holds of the last per.
func (w *window) copyOf(per, now int64) window {
	w.expire(now)
	first := uint32(0)
	for hi := w.live; first < hi; {
		if mid := (first + hi) / 2; w.entry(mid).at > now-per {
			hi = mid
		} else {
			first = mid + 1
		}
	}
	c := window{per: per, gone: w.gone, last: w.last}
	if first > 0 {
		c.gone = w.entry(first - 1).total
	}
	if first < w.live {
		size := 2
		for size < int(w.live-first) {
			size *= 2
		}
		c.ring = make([]entry, size)
	}
	for ; first < w.live; first++ {
		c.ring[c.live] = *w.entry(first)
		c.live++
	}
	return c // where the youngest is too old as well, drop will see
}
