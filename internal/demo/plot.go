package demo

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/paceline-proxy/paceline"
)

// A plot stacks what was sent in each span of time: answered requests below,
// refused ones and failures above.
type plot struct {
	cells []cell
	every time.Duration // a cell covers
}

type cell struct{ answered, refused, failed int }

// The marks of a plot.
const (
	answeredMark = 'o'
	refusedMark  = 'x'
	failedMark   = '!'
)

// plotOf divides the time from start into at most width cells of a second or
// more.
func plotOf(records []paceline.Record, start time.Time, of time.Duration, width int) plot {
	p := plot{every: time.Second}
	for of > time.Duration(width)*p.every {
		p.every += time.Second
	}
	p.cells = make([]cell, max(1, (of+p.every-1)/p.every))
	for _, r := range records {
		i := int(r.Sent.Sub(start) / p.every)
		if i < 0 || i >= len(p.cells) {
			continue
		}
		switch c := &p.cells[i]; {
		case r.Status == http.StatusTooManyRequests:
			c.refused++
		case r.OK():
			c.answered++
		default:
			c.failed++
		}
	}
	return p
}

// height is how high the plot is.
func (p plot) height() int {
	most := 0
	for _, c := range p.cells {
		most = max(most, c.answered+c.refused+c.failed)
	}
	return most
}

// lines draws the plot, height lines from the top and its axis below.
func (p plot) lines(height int) []string {
	lines := make([]string, 0, height+2)
	for level := height - 1; level >= 0; level-- {
		var b strings.Builder
		for _, c := range p.cells {
			b.WriteRune(c.mark(level))
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return append(lines, p.axis()...)
}

// mark is what is in a cell at a level, from 0.
func (c cell) mark(level int) rune {
	switch {
	case level < c.answered:
		return answeredMark
	case level < c.answered+c.refused:
		return refusedMark
	case level < c.answered+c.refused+c.failed:
		return failedMark
	}
	return ' '
}

// axis counts seconds below the plot. A number that does not fit below it is
// left out.
func (p plot) axis() []string {
	const apart = 10
	ticks, numbers := []byte(strings.Repeat("-", len(p.cells))), ""
	for i := 0; i < len(ticks); i += apart {
		ticks[i] = '+'
		text := strconv.Itoa(int(time.Duration(i) * p.every / time.Second))
		if i == 0 {
			text += " s"
		}
		if i == 0 || i+len(text) <= len(ticks) {
			numbers += strings.Repeat(" ", i-len(numbers)) + text
		}
	}
	return []string{string(ticks), numbers}
}
