package stub

import "time"

// fixed admits at most limit requests in each window of per. Windows are
// aligned to the calendar (whole minutes, hours and days of UTC), so all
// clients get a new one at the same instant.
type fixed struct {
	limit int
	per   time.Duration

	start time.Time
	used  int
}

func (f *fixed) turn(now time.Time) {
	// Truncate counts from the beginning of the calendar, and drops the
	// monotonic reading: these windows follow the wall clock.
	if start := now.Truncate(f.per); !start.Equal(f.start) {
		f.start, f.used = start, 0
	}
}

func (f *fixed) wait(now time.Time) time.Duration {
	f.turn(now)
	if f.used < f.limit {
		return 0
	}
	return f.start.Add(f.per).Sub(now)
}

func (f *fixed) take(now time.Time) {
	f.turn(now)
	f.used++
}

func (f *fixed) penalise(now time.Time) { f.take(now) }

func (f *fixed) budget(now time.Time) budget {
	f.turn(now)
	b := budget{limit: f.limit, remaining: max(0, f.limit-f.used), full: now}
	if f.used > 0 {
		b.full = f.start.Add(f.per)
	}
	return b
}
