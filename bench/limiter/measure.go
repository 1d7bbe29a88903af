package main

import (
	"fmt"
	"slices"
	"time"
)

// A scenario yields one number a run.
type scenario struct {
	name, system, unit string
	measure            func() float64
	most, least        float64 // the figure, where row 6 has one
}

func measureAll(runs int) []line {
	list := scenarios()
	found := make([][]float64, len(list))
	for range runs {
		for i, s := range list {
			found[i] = append(found[i], s.measure())
		}
	}
	var lines []line
	for i, s := range list {
		slices.Sort(found[i])
		l := line{
			Row: 6, Scenario: s.name, System: s.system, Unit: s.unit,
			Ratio: found[i][runs/2], Lowest: found[i][0], Highest: found[i][runs-1],
		}
		switch {
		case s.most > 0:
			met := l.Ratio <= s.most
			l.Figure, l.Met = fmt.Sprintf("at most %v", s.most), &met
		case s.least > 0:
			met := l.Ratio >= s.least
			l.Figure, l.Met = fmt.Sprintf("at least %v", s.least), &met
		}
		lines = append(lines, l)
	}
	return lines
}

// How long one thing is measured at a time.
const span = 50 * time.Millisecond

// cost is the nanoseconds of one of n acts, measured for about a span.
func cost(act func(n int)) float64 {
	n := 1000
	act(n) // warm
	for {
		start := time.Now()
		act(n)
		took := time.Since(start)
		if took >= span/2 {
			return float64(took) / float64(n)
		}
		n = int(float64(n) * min(20, 1.2*float64(span)/float64(max(took, 1))))
	}
}

// beside is how often the cost of one act goes into that of another. The
// divisor is measured before and after, so that a machine that changes its pace
// changes both.
func beside(act, divisor func(n int)) float64 {
	before := cost(divisor)
	c := cost(act)
	return 2 * c / (before + cost(divisor))
}
