package stub

import (
	"slices"
	"time"
)

// weighted admits what comes to at most limit in any span of per, where each
// request weighs as much as it costs.
type weighted struct {
	limit int
	per   time.Duration

	counted []weight // in order
	used    int
}

type weight struct {
	at time.Time
	n  int
}

func (w *weighted) expire(now time.Time) {
	gone := 0
	for gone < len(w.counted) && !w.counted[gone].at.Add(w.per).After(now) {
		w.used -= w.counted[gone].n
		gone++
	}
	w.counted = slices.Delete(w.counted, 0, gone)
}

func (w *weighted) wait(now time.Time, n int) time.Duration {
	w.expire(now)
	left := w.limit - w.used - min(n, w.limit)
	for _, c := range w.counted {
		if left >= 0 {
			break
		}
		if left += c.n; left >= 0 {
			return c.at.Add(w.per).Sub(now)
		}
	}
	return 0
}

func (w *weighted) take(now time.Time, n int) {
	w.expire(now)
	w.counted = append(w.counted, weight{now, n})
	w.used += n
}

func (w *weighted) penalise(now time.Time, n int) { w.take(now, n) }

func (w *weighted) give(now, at time.Time, n int) {
	w.expire(now)
	for i := range w.counted {
		if c := &w.counted[i]; c.at.Equal(at) && c.n > 0 {
			n = min(n, c.n)
			c.n -= n
			w.used -= n
			return
		}
	}
}

func (w *weighted) budget(now time.Time) budget {
	w.expire(now)
	b := budget{limit: w.limit, remaining: max(0, w.limit-w.used), full: now}
	b.more = now
	if n := len(w.counted); n > 0 {
		b.more = w.counted[0].at.Add(w.per)
		b.full = w.counted[n-1].at.Add(w.per)
	}
	return b
}
