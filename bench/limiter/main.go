// Command limiter measures the memory limiter against row 6 of the figures in
// DESIGN.md: what an acquire costs beside what it cannot do without, a reading
// of the clock and a mutex, measured in the same run.
//
// Only ratios mean something: every line is measured side by side with what it
// is divided by, several times in turn, and the median is printed.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"text/tabwriter"
)

const help = `Usage, from bench/: go run ./limiter [--json] [--runs 5]

Row 6 of the figures: the limiter in memory. What is measured:

  clock and lock   the baseline: lock a mutex, read time.Since, unlock
  one window       an acquire of one call of one window, granted
  three windows    an acquire over a second, a minute and a day of one bucket
                   and a place of another, granted, and its release
  refused          an acquire that a full window refuses
  x/time/rate      Limiter.Allow, granted: one limit, a token bucket, which lets
                   up to twice its count into one span
  calls a window   one window that always holds about 1,000,000 calls beside one
                   that holds about 100, both taking one in and letting one go
                   at every acquire
  two cores        acquires in all by two goroutines beside one, over three
                   windows and places of 2048 callers, with release; the same
                   for the baseline, each goroutine with a mutex of its own, to
                   show what the machine gives
  bytes a window   heap for each window of a million calls that is full of
                   grants at different instants
  bytes a caller   heap for each of 50,000 callers with three windows and places
                   after one grant and its release
  allocations      for each acquire over three windows and places, with release

Each run measures all of them in turn, each with its divisor just before and
just after; the median of all runs is printed. Where a run is disturbed, only
ratios far from the median suffer.
`

func main() {
	flag.Usage = func() { fmt.Fprint(os.Stderr, help); flag.PrintDefaults() }
	asJSON := flag.Bool("json", false, "print one object a line")
	runs := flag.Int("runs", 5, "how often everything is measured")
	flag.Parse()
	if flag.NArg() > 0 || *runs < 1 {
		flag.Usage()
		os.Exit(2)
	}
	lines := measureAll(*runs)
	if *asJSON {
		out := json.NewEncoder(os.Stdout)
		for _, l := range lines {
			if err := out.Encode(l); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
		return
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "scenario\tsystem\tmeasured\tfigure of row 6\t")
	for _, l := range lines {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t\n", l.Scenario, l.System, l.value(), l.verdict())
	}
	w.Flush()
}

// A line is one figure as measured.
type line struct {
	Row      int     `json:"row"`
	Scenario string  `json:"scenario"`
	System   string  `json:"system"`
	Ratio    float64 `json:"ratio"`
	Unit     string  `json:"unit"` // what the ratio is of
	Lowest   float64 `json:"lowest"`
	Highest  float64 `json:"highest"`
	Figure   string  `json:"figure,omitempty"`
	Met      *bool   `json:"met,omitempty"`
}

func (l line) value() string {
	return fmt.Sprintf("%.2f %s (%.2f to %.2f)", l.Ratio, l.Unit, l.Lowest, l.Highest)
}

func (l line) verdict() string {
	switch {
	case l.Met == nil:
		return ""
	case *l.Met:
		return l.Figure + ": met"
	}
	return l.Figure + ": not met"
}
