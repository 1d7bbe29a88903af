package goodput

import (
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/stub"
)

// A Row is one line of the tables: a trial to be run with several seeds.
type Row struct {
	Row      string // of the figures to reach: "1", "3"
	Scenario string // with what is told
	Figure   Figure // what the system is to reach; of the peers nothing is asked
	Trial    Trial
	// PeakWindow is the most that may arrive in one main window, 0 for any.
	PeakWindow int
}

// windows is how many windows row 1 is measured over, after one of start-up.
// With a slack of 2 % a client sends 49 bursts in 50 windows; over fewer the
// place of the span between two bursts would decide the ratio.
const windows = 50

// short is how many windows are enough for a system that keeps nothing from
// one window to the next, and sends so much that more would take long.
const short = 10

// DeclaredRows are those of row 1: everybody is told the limits who can be.
func DeclaredRows(scenarios []Scenario, windows int) (rows []Row) {
	even, burst := Declared(paceline.Even), Declared(paceline.Burst)
	for _, s := range scenarios {
		peak := 0
		if m, counts := s.main(); counts {
			peak = m.Limit
		}
		add := func(f Figure, peak, windows int, systems ...System) {
			for _, sys := range systems {
				rows = append(rows, Row{"1", s.Name, f, Trial{
					Scenario: s, System: sys, Tells: stub.RetryAfterSeconds,
					From: s.window(), To: time.Duration(windows+1) * s.window(),
				}, peak})
			}
		}
		add(declaredFigure, peak, windows, even)
		if !s.EvenOnly {
			add(declaredFigure, peak, windows, burst)
		}
		add(noFigure, 0, windows, Bottleneck, Calendar)
		add(noFigure, 0, min(windows, short), SDK, None)
	}
	return rows
}

// UntoldRows are those of row 3: nobody is told a limit, and refusals say
// nothing or only when to come again. What the others do with a told wait is in
// row 1.
func UntoldRows(scenarios []Scenario) (rows []Row) {
	for _, s := range scenarios {
		add := func(name string, f Figure, tells stub.RetryAfter, to time.Duration, systems ...System) {
			for _, sys := range systems {
				rows = append(rows, Row{"3", name, f, Trial{
					Scenario: s, System: sys, Tells: tells, From: 2 * minute, To: to,
				}, 0})
			}
		}
		add(s.Name, s.Untold, stub.RetryAfterNone, 30*minute, Untold)
		add(s.Name, noFigure, stub.RetryAfterNone, (2+short/2)*minute, SDK, None)
		add(s.Name+", waits told", s.Untold, stub.RetryAfterSeconds, 30*minute, Untold)
	}
	return rows
}
