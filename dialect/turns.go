package dialect

import "time"

// turn is how long it is from an instant until a window of the calendar or the
// wall clock turns, in a zone so far from UTC; 0 for windows of unknown length.
func turn(window string, now time.Time, zone time.Duration) time.Duration {
	now = now.UTC().Add(zone)
	year, month, day := now.Date()
	switch window {
	case Month:
		return time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC).Sub(now)
	case Day:
		return time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC).Sub(now)
	}
	length := windowLength[window]
	return now.Truncate(length).Add(length).Sub(now)
}

// turning gives the short windows that tell no reset, of a provider whose turn
// with the wall clock, the instant at which they do.
func (p reader) turning(a *answer, buckets []bucket) {
	for i := range buckets {
		b := &buckets[i]
		if p.wall && !b.resetSaid && !b.long && windowLength[b.Window] > 0 {
			b.Recovery = Recovery{Kind: StepAt, Turns: a.Received.Add(turn(b.Window, a.now(), 0))}
		}
	}
}

// spent is how long a window still runs that is spent, as far as the calendar
// tells: that of the longest window that the refusal names or reports empty, else
// of the one that the provider's spending is bounded by.
func (p reader) spent(a *answer, buckets []bucket) time.Duration {
	names := map[string]bool{p.spends: true}
	for _, n := range a.named {
		names[n.window] = true
	}
	for i := range buckets {
		if buckets[i].exhausted() {
			names[buckets[i].Window] = true
		}
	}
	for _, window := range []string{Month, Day} {
		if names[window] {
			return turn(window, a.now(), p.zone)
		}
	}
	return 0
}
