package memory

import "math"

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
// more.
type window struct {
	per   int64
	asked int64  // when a request last named this window
	gone  uint64 // the total up to what has left

	// quantum is 0 while every grant is an entry of its own. Otherwise new
	// grants are dated at the end of their quantum, where they meet.
	quantum int64

	ring       []entry // a power of two long, or nil
	head, live uint32
}

// entry is the i-th oldest.
func (w *window) entry(i uint32) *entry {
	return &w.ring[(w.head+i)&uint32(len(w.ring)-1)]
}

// used is the cost now in the window, once expire has been called.
func (w *window) used() int64 {
	if w.live == 0 {
		return 0
	}
	return int64(w.entry(w.live-1).total - w.gone)
}

// expire lets go of what has been in the window for its whole span.
func (w *window) expire(now int64) {
	edge := now - w.per
	for w.live > 0 {
		e := &w.ring[w.head]
		if e.at > edge {
			break
		}
		w.gone = e.total
		w.head = (w.head + 1) & uint32(len(w.ring)-1)
		w.live--
	}
	// Half a ring of room before grants are kept apart again, so that a window
	// at the brink is not compacted at every turn.
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
	lo, hi := uint32(0), w.live-1
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

// book counts a grant. expire has been called for this instant.
func (w *window) book(now, cost int64) {
	total := w.gone
	if w.live > 0 {
		last := w.entry(w.live - 1)
		total = last.total
		// A window that others' numbers overfilled: counted up to the brim.
		cost = min(cost, math.MaxInt64-int64(total-w.gone))
		if last.at >= now { // the same instant, or the same quantum
			last.total += uint64(cost)
			return
		}
		if w.live == mostEntries {
			w.merge()
		}
	}
	at := now
	if w.quantum > 0 {
		at = endOf(now, w.quantum)
		if w.live > 0 && w.entry(w.live-1).at >= at {
			w.entry(w.live - 1).total += uint64(cost)
			return
		}
	}
	w.push(entry{at, total + uint64(cost)})
}

func (w *window) push(e entry) {
	switch {
	case w.live == mostEntries:
		// Not reached while entries are dated by this window's own quantum; one
		// copied from a coarser ring may be one too many. The oldest joins its
		// neighbour, which is younger, so nothing leaves early.
		w.head = (w.head + 1) & (mostEntries - 1)
		w.live--
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
	kept := uint32(0)
	for i := range w.live {
		e := *w.entry(i)
		e.at = endOf(e.at, w.quantum)
		if kept > 0 && w.entry(kept-1).at >= e.at {
			w.entry(kept - 1).total = e.total
			continue
		}
		*w.entry(kept) = e
		kept++
	}
	w.live = kept
}

// endOf is the end of the quantum an instant lies in: itself where it is one.
func endOf(at, quantum int64) int64 {
	if past := at % quantum; past > 0 {
		return after(at, quantum-past)
	}
	return at
}

// shift moves what was booked at since or later on by a sleep.
func (w *window) shift(since, sleep int64) {
	for i := w.live; i > 0 && w.entry(i-1).at >= since; i-- {
		w.entry(i - 1).at = after(w.entry(i-1).at, sleep)
	}
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
	c := window{per: per, gone: w.gone}
	if first > 0 {
		c.gone = w.entry(first - 1).total
	}
	size := 2
	for size < int(w.live-first) {
		size *= 2
	}
	if first < w.live {
		c.ring = make([]entry, size)
	}
	for ; first < w.live; first++ {
		c.ring[c.live] = *w.entry(first)
		c.live++
	}
	return c
}
