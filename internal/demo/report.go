package demo

import (
	"fmt"
	"io"
	"strings"

	"github.com/paceline-proxy/paceline"
)

// WriteReport writes what a demo showed: the statistics of both sides, the
// plot, and what it says in words, in width columns. Only tables may be wider:
// they keep their numbers.
func WriteReport(w io.Writer, r Result, width int, color bool) error {
	width = min(max(width, leastColumn), Width)
	var b strings.Builder
	for _, side := range []Pacing{Burst, Even} {
		s := StatsOf(side, r)
		s.Hours = nil // they are all in one
		if err := s.WriteTable(&b, width); err != nil {
			return err
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%s\n%s\n", Plot(r, width, color), strings.Join(wrap(width, Words(r)...), "\n"))
	_, err := io.WriteString(w, strings.TrimSpace(b.String())+"\n")
	return err
}

// wrap breaks sentences into lines of at most width, each on lines of its own.
func wrap(width int, sentences ...string) []string {
	var lines []string
	for _, s := range sentences {
		line := ""
		for _, word := range strings.Fields(s) {
			if line != "" && len(line)+1+len(word) > width {
				lines, line = append(lines, line), ""
			}
			line = strings.TrimSpace(line + " " + word)
		}
		lines = append(lines, line)
	}
	return lines
}

// Totals are the results as scripts see them.
type Totals struct {
	Burst paceline.StatsRow `json:"burst"`
	Even  paceline.StatsRow `json:"even"`
}

// TotalsOf are the totals of both sides.
func TotalsOf(r Result) Totals {
	return Totals{StatsOf(Burst, r).Total, StatsOf(Even, r).Total}
}
