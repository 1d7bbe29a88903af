// Command history measures the request log against row 12 of the figures in
// DESIGN.md: how long it takes to open a log of a million rows, and to make
// the statistics of a day of it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/internal/history"
)

const help = `Usage, from bench/: go run ./history [--json] [--runs 5] [--rows 1000000]

Row 12 of the figures: the request log. It makes a log in a temporary
directory, its rows spread over 7 days, and measures:

  write            what a row costs, from Add until it is in the file
  start            Open, to write: what a proxy does before it takes requests
  stats            what "paceline stats --since 24h" does: open, count, write
                   the table
  last             what "paceline log --last 20" does

The median of all runs is printed. All but write are in seconds.

`

func main() {
	flag.Usage = func() { fmt.Fprint(os.Stderr, help); flag.PrintDefaults() }
	asJSON := flag.Bool("json", false, "print one object a line")
	runs := flag.Int("runs", 5, "how often everything is measured")
	rows := flag.Int("rows", 1_000_000, "how many rows the log has")
	flag.Parse()
	if flag.NArg() > 0 || *runs < 1 || *rows < 1 {
		flag.Usage()
		os.Exit(2)
	}
	lines, err := measure(*rows, *runs)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
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
	fmt.Fprintln(w, "scenario\tmeasured\tfigure of row 12\t")
	for _, l := range lines {
		verdict := ""
		if l.Met != nil {
			verdict = l.Figure + map[bool]string{true: ": met", false: ": not met"}[*l.Met]
		}
		fmt.Fprintf(w, "%s\t%.3f %s (%.3f to %.3f)\t%s\t\n", l.Scenario, l.Ratio, l.Unit, l.Lowest, l.Highest, verdict)
	}
	w.Flush()
}

// A line is one figure as measured.
type line struct {
	Row      int     `json:"row"`
	Scenario string  `json:"scenario"`
	System   string  `json:"system"`
	Ratio    float64 `json:"ratio"`
	Unit     string  `json:"unit"` // of the ratio
	Lowest   float64 `json:"lowest"`
	Highest  float64 `json:"highest"`
	Figure   string  `json:"figure,omitempty"`
	Met      *bool   `json:"met,omitempty"`
}

func lineOf(scenario, unit string, limit float64, measured ...float64) line {
	slices.Sort(measured)
	l := line{
		Row: 12, Scenario: scenario, System: "history", Unit: unit,
		Ratio: measured[len(measured)/2], Lowest: measured[0], Highest: measured[len(measured)-1],
	}
	if limit > 0 {
		met := l.Ratio <= limit
		l.Figure, l.Met = fmt.Sprintf("at most %g %s", limit, unit), &met
	}
	return l
}

// week is what the rows are spread over.
const week = 7 * 24 * time.Hour

func measure(rows, runs int) (lines []line, err error) {
	dir, err := os.MkdirTemp("", "paceline-history-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "log.db")
	until := time.Now()
	took, err := fill(path, rows, until)
	if err != nil {
		return nil, err
	}
	lines = append(lines, lineOf("write", "µs a row", 0, float64(took.Microseconds())/float64(rows)))
	for _, s := range []struct {
		name  string
		limit float64
		run   func() error
	}{
		{"start", 1, func() error {
			l, err := history.Open(path, history.Options{})
			if err != nil {
				return err
			}
			return l.Close()
		}},
		{"stats", 1, func() error { return stats(path, until) }},
		{"last", 0, func() error { return last(path) }},
	} {
		var measured []float64
		for range runs {
			began := time.Now()
			if err := s.run(); err != nil {
				return nil, err
			}
			measured = append(measured, time.Since(began).Seconds())
		}
		lines = append(lines, lineOf(s.name, "s", s.limit, measured...))
	}
	return lines, nil
}

// fill makes a log of so many rows.
func fill(path string, rows int, until time.Time) (time.Duration, error) {
	began := time.Now()
	l, err := history.Open(path, history.Options{})
	if err != nil {
		return 0, err
	}
	l.Declare([]paceline.Provider{{Name: "openai", Limits: paceline.Limits{MaxPerMinute: 500, MaxPerHour: 20_000}}})
	r := rand.New(rand.NewPCG(1, 2))
	for i := range rows {
		sent := until.Add(-week + time.Duration(float64(i)/float64(rows)*float64(week)))
		row := paceline.Record{
			ID: fmt.Sprintf("%016x", r.Uint64()), Attempt: 1,
			Arrived: sent.Add(-time.Duration(r.IntN(2000)) * time.Millisecond), Sent: sent, Done: sent.Add(time.Duration(r.IntN(60)) * time.Second),
			Provider: []string{"openai", "anthropic", "openference"}[r.IntN(3)], Credential: "openai#1", Account: "org-1234567890abcdef",
			Model: fmt.Sprintf("model-%d", r.IntN(12)), Status: 200, Class: dialect.OK, Queued: time.Duration(r.IntN(2000)) * time.Millisecond,
			Client: fmt.Sprintf("agent-%d", r.IntN(40)), Priority: "normal", InTokens: r.IntN(100_000), OutTokens: r.IntN(4000),
		}
		if r.IntN(50) == 0 {
			row.Status, row.Class, row.Told, row.Wait = 429, dialect.RateLimited, true, 3*time.Second
			row.Evidence = &paceline.Evidence{UnderLimit: true, Sent60s: 12, Sent1s: 1, Factor: 1}
		}
		// A row for which there is no room is given again.
		for lost := l.Lost(); ; lost = l.Lost() {
			if l.Add(row); l.Lost() == lost {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	err = l.Close()
	return time.Since(began), err
}

func stats(path string, until time.Time) error {
	r, err := history.OpenReader(path)
	if err != nil {
		return err
	}
	defer r.Close()
	s, err := r.Stats(context.Background(), paceline.StatsQuery{Since: until.Add(-24 * time.Hour), Until: until})
	if err != nil {
		return err
	}
	if s.Total.Sent == 0 {
		return errors.New("the statistics are empty")
	}
	return s.WriteTable(io.Discard, 0)
}

func last(path string) error {
	r, err := history.OpenReader(path)
	if err != nil {
		return err
	}
	defer r.Close()
	n := 0
	for _, err := range r.Records(context.Background(), history.Query{Last: 20}) {
		if err != nil {
			return err
		}
		n++
	}
	if n != 20 {
		return fmt.Errorf("%d rows read, want 20", n)
	}
	return nil
}
