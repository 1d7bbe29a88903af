package goodput

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// A Result is one trial of a row, as -json prints it.
type Result struct {
	Row            string  `json:"row"`
	Scenario       string  `json:"scenario"`
	System         string  `json:"system"`
	Ratio          float64 `json:"ratio"`
	RefusalsPer100 float64 `json:"refusals_per_100"`
	Seed           uint64  `json:"seed"`

	early, peak int
}

// result sets an outcome against what the oracle got.
func (r Row) result(o Outcome, oracle int) Result {
	return Result{
		Row: r.Row, Scenario: r.Scenario, System: r.Trial.System.Name, Seed: r.Trial.Seed,
		Ratio: float64(o.Charged) / float64(max(1, oracle-o.Taken)),
		// A system that got nothing through was refused, not divided by zero.
		RefusalsPer100: 100 * float64(o.Refused) / float64(max(1, o.Admitted)),
		early:          o.Early, peak: o.PeakWindow,
	}
}

// A Report is the rows with what came of them.
type Report struct {
	Rows    []Row
	Results [][]Result // by row, by seed
}

// WriteJSON prints one object a line.
func (p Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	for _, results := range p.Results {
		for _, r := range results {
			if err := enc.Encode(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// WriteTable prints the one table.
func (p Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "row\tscenario\tsystem\tof the oracle\tworst\trefusals/100\tworst\tfigure\t")
	previous := ""
	for i, row := range p.Rows {
		s := summarise(p.Results[i])
		if name := row.Row + row.Scenario; name != previous {
			if previous != "" {
				fmt.Fprintln(t, "\t\t\t\t\t\t\t\t")
			}
			previous = name
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%.1f %%\t%.1f %%\t%s\t%s\t%s\t\n", row.Row, row.Scenario, row.Trial.System.Name,
			100*s.ratio, 100*s.worstRatio, per100(s.refusals), per100(s.worstRefusals), row.judge(s))
	}
	return t.Flush()
}

// per100 writes refusals per 100 successes. Beyond a point the number says
// only that next to nothing came through.
func per100(n float64) string {
	if n >= 10000 {
		return "all"
	}
	return fmt.Sprintf("%.2f", n)
}

// A summary is a row over all its seeds.
type summary struct {
	ratio, worstRatio       float64
	refusals, worstRefusals float64
	early, peak             int
}

func summarise(results []Result) (s summary) {
	var ratios, refusals []float64
	for _, r := range results {
		ratios, refusals = append(ratios, r.Ratio), append(refusals, r.RefusalsPer100)
		s.early, s.peak = max(s.early, r.early), max(s.peak, r.peak)
	}
	s.ratio, s.worstRatio = median(ratios), slices.Min(ratios)
	s.refusals, s.worstRefusals = median(refusals), slices.Max(refusals)
	return s
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// judge says whether the figure is met, as measured: by every seed, by the
// median only, or not.
func (r Row) judge(s summary) string {
	verdict := "missed"
	f := r.Figure
	switch {
	case f == noFigure:
		verdict = ""
	case s.worstRatio >= f.Ratio && s.worstRefusals <= f.Refusals:
		verdict = "met"
	case s.ratio >= f.Ratio && s.refusals <= f.Refusals:
		verdict = "met by the median"
	}
	// Nobody asks this of the peers, but of ourselves always.
	if r.Trial.System.Ours && s.early > 0 {
		verdict += fmt.Sprintf(" %d sent into a told wait!", s.early)
	}
	if r.PeakWindow > 0 && s.peak > r.PeakWindow {
		verdict += fmt.Sprintf(" %d arrived in one window!", s.peak)
	}
	return verdict
}
