package stub

import "time"

// peakWindow counts what was admitted within the last per.
type peakWindow struct {
	per   time.Duration
	cells []cell // the oldest first, from head on
	head  int
	sum   int
}

// A cell is some arrivals taken together, normally one.
type cell struct {
	first, last time.Time
	n           int
}

// maxCells is how many cells are kept apart exactly.
const maxCells = 1 << 16

// add counts an arrival and returns how many there were within per up to it.
func (p *peakWindow) add(now time.Time) int {
	for p.head < len(p.cells) && !p.cells[p.head].last.Add(p.per).After(now) {
		p.sum -= p.cells[p.head].n
		p.head++
	}
	if p.head > len(p.cells)/2 {
		// Moving what is left to the front costs less than was dropped.
		p.cells = p.cells[:copy(p.cells, p.cells[p.head:])]
		p.head = 0
	}
	p.sum++
	if live := len(p.cells) - p.head; live > 0 {
		last := &p.cells[len(p.cells)-1]
		// A cell leaves with its last arrival, so taking arrivals together can
		// only count one for too long.
		if now.Equal(last.first) || live >= maxCells && now.Sub(last.first) < p.per/maxCells {
			last.last = now
			last.n++
			return p.sum
		}
	}
	p.cells = append(p.cells, cell{first: now, last: now, n: 1})
	return p.sum
}
