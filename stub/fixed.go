package stub

import "time"

// fixed admits at most limit in each window of per. Windows are
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

func (f *fixed) wait(now time.Time, n int) time.Duration {
	f.turn(now)
	if f.used+min(n, f.limit) <= f.limit {
		return 0
	}
	return f.start.Add(f.per).Sub(now)
}

func (f *fixed) take(now time.Time, n int) {
	f.turn(now)
	f.used += n
}

func (f *fixed) penalise(now time.Time, n int) { f.take(now, n) }

// give gives back what counts in the window that still runs.
func (f *fixed) give(now, at time.Time, n int) {
	if f.turn(now); !at.Before(f.start) {
		f.used = max(0, f.used-n)
	}
}

func (f *fixed) budget(now time.Time) budget {
	f.turn(now)
	b := budget{limit: f.limit, remaining: max(0, f.limit-f.used), full: now}
	if b.more = now; f.used > 0 {
		b.full = f.start.Add(f.per)
		b.more = b.full
	}
	return b
}
