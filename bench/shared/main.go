// Command shared measures the limiters that hosts share against rows 7, 8 and 9
// of the figures in DESIGN.md: Redis beside redis_rate, PostgreSQL beside pgbench,
// and the wire, each with batches beside without.
//
// Only ratios mean something: every line is measured side by side with what it
// is divided by, several times in turn, and the median is printed.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

const help = `Usage, from bench/: go run ./shared [--json] [--row N] [--runs 5] [--for 1s]

Rows 7, 8 and 9 of the figures: limiters that hosts share. It starts a Redis and a
PostgreSQL of its own, with what they do by default about disks, and needs both
installed (../tools/servers install). What is measured, in calls that were granted
a second:

  row 7  Redis: an acquire over three windows and a place, 32 callers over 16 keys,
         call by call, beside redis_rate, which holds one limit that lets up to
         twice its count into one span; the same with the release of the place,
         which is a second round trip; and 32 callers of one key, who travel
         together in batches as the gate has them, beside the same call by call
  row 8  PostgreSQL: an acquire over three windows, 16 callers of one key, beside
         pgbench updating one row for 16 clients, both not waiting for the disk,
         which is what the limiter does by default, and both waiting for it; and
         batches beside call by call
  row 9  the wire: 8 callers asking a limiter in memory over TCP, each for batches
         of 100, beside single calls

Each run measures all in turn, each just after its divisor; the median of all runs
is printed, with the lowest and the highest.
`

func main() {
	flag.Usage = func() { fmt.Fprint(os.Stderr, help); flag.PrintDefaults() }
	asJSON := flag.Bool("json", false, "print one object a line")
	row := flag.Int("row", 0, "measure only this row")
	runs := flag.Int("runs", 5, "how often everything is measured")
	span := flag.Duration("for", time.Second, "how long each is measured at a time")
	flag.Parse()
	if flag.NArg() > 0 || *runs < 1 || *span <= 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := measure(*row, *runs, *span, *asJSON); err != nil {
		fmt.Fprintln(os.Stderr, "shared:", err)
		os.Exit(1)
	}
}

// A line is one figure as measured.
type line struct {
	Row      int     `json:"row"`
	Scenario string  `json:"scenario"`
	System   string  `json:"system"`
	Ratio    float64 `json:"ratio"`
	Beside   string  `json:"beside"` // what the ratio is of
	Lowest   float64 `json:"lowest"`
	Highest  float64 `json:"highest"`
	Rate     float64 `json:"per_second"` // of the system, median
	// Refusals are none, or the measurement fails: there is room for everything.
	Refusals float64 `json:"refusals_per_100"`
	Seed     int     `json:"seed"` // nothing is random
	Figure   float64 `json:"figure,omitempty"`
	Met      *bool   `json:"met,omitempty"`
}

// A scenario compares two systems.
type scenario struct {
	row            int
	name           string
	system, beside string
	ours, theirs   system
	least          float64 // the figure, 0 for none
}

// A system does as much as it can for a span.
type system func(ctx context.Context, span time.Duration) (perSecond float64, err error)

func measure(row, runs int, span time.Duration, asJSON bool) error {
	ctx := context.Background()
	var lines []line
	for _, r := range []struct {
		row   int
		begin func(context.Context) ([]scenario, func(), error)
	}{{7, redisRow}, {8, postgresRow}, {9, wireRow}} {
		if row != 0 && row != r.row {
			continue
		}
		list, end, err := r.begin(ctx)
		if err == nil {
			var more []line
			more, err = compare(ctx, list, runs, span)
			lines = append(lines, more...)
			end()
		}
		if err != nil {
			return fmt.Errorf("row %d: %w", r.row, err)
		}
	}
	if asJSON {
		out := json.NewEncoder(os.Stdout)
		for _, l := range lines {
			if err := out.Encode(l); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "row\tscenario\tsystem\ta second\tmeasured\tfigure\t")
	for _, l := range lines {
		fmt.Fprintf(w, "%d\t%s\t%s\t%.0f\t%.2f x %s (%.2f to %.2f)\t%s\t\n",
			l.Row, l.Scenario, l.System, l.Rate, l.Ratio, l.Beside, l.Lowest, l.Highest, l.verdict())
	}
	return w.Flush()
}

func (l line) verdict() string {
	switch {
	case l.Met == nil:
		return ""
	case *l.Met:
		return fmt.Sprintf("at least %v: met", l.Figure)
	}
	return fmt.Sprintf("at least %v: not met", l.Figure)
}

func compare(ctx context.Context, list []scenario, runs int, span time.Duration) ([]line, error) {
	ratios, rates := make([][]float64, len(list)), make([][]float64, len(list))
	for range runs {
		for i, s := range list {
			theirs, err := s.theirs(ctx, span)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.beside, err)
			}
			ours, err := s.ours(ctx, span)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.system, err)
			}
			ratios[i], rates[i] = append(ratios[i], ours/theirs), append(rates[i], ours)
		}
	}
	var lines []line
	for i, s := range list {
		slices.Sort(ratios[i])
		slices.Sort(rates[i])
		l := line{
			Row: s.row, Scenario: s.name, System: s.system, Beside: s.beside,
			Ratio: ratios[i][runs/2], Lowest: ratios[i][0], Highest: ratios[i][runs-1], Rate: rates[i][runs/2],
		}
		if s.least > 0 {
			met := l.Ratio >= s.least
			l.Figure, l.Met = s.least, &met
		}
		lines = append(lines, l)
	}
	return lines, nil
}
