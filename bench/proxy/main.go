// Command proxy measures what the proxy costs beside a bare
// httputil.ReverseProxy in its place, each in a process of its own, in one run:
//
//	row 4   throughput of an endpoint that never refuses
//	row 5   processor time per request, bodies of 1 KiB, log and metrics on
//	row 10  10,000 requests that wait: memory, order and lateness
//
// It prints one line a figure, or with -json one object a line. Figures are
// medians; where they are ratios, of runs that took turns.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"
)

var (
	runs     = flag.Int("runs", 5, "`times` that each system is measured")
	duration = flag.Duration("for", 4*time.Second, "how long each throughput is measured")
	requests = flag.Int("requests", 8000, "requests of each measure of processor time")
	callers  = flag.Int("callers", 10000, "requests that wait")
	profiles = flag.String("profiles", "", "`directory` for a CPU and an allocation profile of each system, by its name")
	asJSON   = flag.Bool("json", false, "one JSON object a line")
)

func main() {
	child := flag.String("child", "", "what to be: provider, bare or paceline; for this program itself")
	at := flag.String("at", "", "the provider's address, for a child")
	limit := flag.Int("limit", 0, "starts a second, for a child that is paceline")
	dir := flag.String("home", "", "the home, for a child that is paceline")
	row := flag.String("row", "", "measure only this `row`: 4, 5 or 10")
	flag.Parse()
	err := error(nil)
	if *child != "" {
		err = serveChild(*child, *at, *dir, *limit)
	} else {
		err = measure(*row)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "proxy:", err)
		os.Exit(1)
	}
}

// measure prints the figures of one row, or of all.
func measure(row string) error {
	ctx := context.Background()
	for _, m := range []struct {
		row string
		run func(context.Context) error
	}{{"4", throughput}, {"5", processor}, {"10", waiting}} {
		if row == "" || row == m.row {
			if err := m.run(ctx); err != nil {
				return fmt.Errorf("row %s: %w", m.row, err)
			}
		}
	}
	return nil
}

// A figure is one line of the results.
type figure struct {
	Row      string  `json:"row"`
	Scenario string  `json:"scenario"`
	System   string  `json:"system"`
	Value    float64 `json:"value"`
	Unit     string  `json:"unit"`
	Ratio    float64 `json:"ratio,omitempty"` // to the system it is measured beside
}

func (f figure) print() {
	if *asJSON {
		json.NewEncoder(os.Stdout).Encode(f)
		return
	}
	fmt.Printf("%-3s %-34s %-10s %10.2f %-12s", f.Row, f.Scenario, f.System, f.Value, f.Unit)
	if f.Ratio != 0 {
		fmt.Printf(" %.3f x", f.Ratio)
	}
	fmt.Println()
}

func median[T cmp.Ordered](values []T) T {
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}
