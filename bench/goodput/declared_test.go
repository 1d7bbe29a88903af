package goodput

import (
	"testing"
	"testing/synctest"
)

// With declared limits nothing is refused, whatever the provider's meter: not
// once, under either pacing, by arrival. P-51, P-59, P-70.
func TestDeclaredLimitsAreNeverRefused(t *testing.T) {
	for _, row := range DeclaredRows(Scenarios(), 5) {
		if !row.Trial.System.Ours {
			continue
		}
		t.Run(row.Scenario+": "+row.Trial.System.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				row.Trial.Seed, row.Trial.From = 1, 0
				o := row.Trial.Run()
				if o.Refused > 0 || o.Early > 0 {
					t.Errorf("%d refused and %d sent into a told wait, of %d; want none", o.Refused, o.Early, o.Admitted)
				}
				if o.Admitted == 0 {
					t.Error("nothing came through")
				}
				if row.PeakWindow > 0 && o.PeakWindow > row.PeakWindow {
					t.Errorf("%d arrived within one window; want at most %d", o.PeakWindow, row.PeakWindow)
				}
			})
		})
	}
}

// The oracle is what can be said by a formula where there is one.
func TestOracle(t *testing.T) {
	want := map[string]int{
		"rolling 60/min": 300, "fixed 15/min": 75, "bucket 20/10s": 100, "bucket of 3, 15/min": 75,
	}
	for _, s := range Scenarios() {
		n, known := want[s.Name]
		if !known {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			trial := Trial{
				Scenario: s, System: None, Seed: 1,
				From: s.window(), To: 6 * s.window(),
			}
			// A told wait is whole milliseconds, which may cost one at the end.
			if got := Oracle(trial); got < n-1 || got > n {
				t.Errorf("%s: %d in five windows; want %d", s.Name, got, n)
			}
		})
	}
}
