package goodput

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

var (
	seeds = flag.Int("seeds", 0, "measure with this many seeds (0: do not measure)")
	lines = flag.Bool("json", false, "print one JSON object a line instead of the table")
	only  = flag.String("only", "", "measure only what matches: a regular expression over \"row scenario: system\"")
)

// TestGoodput prints the figures of rows 1 to 3a. It asserts nothing: what a
// figure comes to is for its reader to judge.
func TestGoodput(t *testing.T) {
	if *seeds <= 0 {
		t.Skip("a measurement: give -args -seeds 5")
	}
	rows := slices.Concat(DeclaredRows(Scenarios(), windows), ToldRows(Scenarios()), UntoldRows(Scenarios()), AgentRows())
	if *only != "" {
		wanted := regexp.MustCompile(*only)
		kept := rows[:0]
		for _, r := range rows {
			if wanted.MatchString(fmt.Sprintf("%s %s: %s", r.Row, r.Scenario, r.Trial.System.Name)) {
				kept = append(kept, r)
			}
		}
		rows = kept
	}
	report := measure(t, rows, *seeds)
	if *lines {
		if err := report.WriteJSON(os.Stdout); err != nil {
			t.Error(err)
		}
		return
	}
	fmt.Printf("%d seeds, virtual time; row 1 over %d windows after the first, row 3 from minute 2 to 30 (sdk and none over less);\n"+
		"median and worst seed. \"met\" is by every seed.\n\n", *seeds, windows)
	if err := report.WriteTable(os.Stdout); err != nil {
		t.Error(err)
	}
}

// measure runs each row with seeds 1 to n, every trial in a bubble of its own.
func measure(t *testing.T, rows []Row, n int) Report {
	t.Helper()
	// Memory is small here and time is not.
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	report := Report{Rows: rows, Results: make([][]Result, len(rows))}
	oracles := &oracles{got: make(map[string]int)}
	t.Run("trials", func(t *testing.T) {
		for i, row := range rows {
			report.Results[i] = make([]Result, n)
			for seed := range n {
				t.Run(fmt.Sprintf("%s %s: %s, seed %d", row.Row, row.Scenario, row.Trial.System.Name, seed+1), func(t *testing.T) {
					t.Parallel()
					row := row
					row.Trial.Seed = uint64(seed + 1)
					best := oracles.of(t, row.Trial)
					synctest.Test(t, func(*testing.T) {
						report.Results[i][seed] = row.result(row.Trial.Run(), best)
					})
				})
			}
		}
	})
	return report
}

// oracles remembers what the perfectly informed client gets: it is the same
// for every system.
type oracles struct {
	mu  sync.Mutex
	got map[string]int
}

func (o *oracles) of(t *testing.T, trial Trial) (best int) {
	key := fmt.Sprint(trial.Scenario.Name, trial.From, trial.To, trial.Seed)
	o.mu.Lock()
	best, known := o.got[key]
	o.mu.Unlock()
	if known {
		return best
	}
	synctest.Test(t, func(*testing.T) { best = Oracle(trial) })
	o.mu.Lock()
	o.got[key] = best
	o.mu.Unlock()
	return best
}
