package sqlite

import (
	"math"
	"slices"

	"github.com/paceline-proxy/paceline/limiter/internal/settling"
	"github.com/paceline-proxy/paceline/limiter/internal/spans"
)

// A bucket is everything counted under one key: a window for each span it has
// been asked with, and what permits hold of it.
type bucket struct {
	id  int64 // of its row; 0 while it has none
	key string

	windows []window
	held    []holding

	changed bool // since it was read
}

// A holding is what a permit holds of one bucket: a place, or what its call
// counts there and can be settled, or both. A permit that has lapsed has lapsed
// in all its buckets.
type holding struct {
	permit  uint64
	expires int64
	place   bool
	share   *settling.Share // nil: nothing can be settled here
}

// seek is the window of a span, or nil.
func (b *bucket) seek(per int64) *window {
	for i := range b.windows {
		if b.windows[i].per == per {
			return &b.windows[i]
		}
	}
	return nil
}

// view is a window over the bucket's history.
func (b *bucket) view(per, now int64) window {
	if i := spans.Source(b, per); i >= 0 {
		return b.windows[i].over(per, now)
	}
	return window{per: per}
}

// ask is the window of a span as a request at now finds it. Windows found before
// may move.
func (b *bucket) ask(per, now int64) *window {
	w := b.seek(per)
	if w == nil {
		b.changed = true
		opened := b.view(per, now)
		opened.asked = now
		if i := spans.Spare(b, per, now); i >= 0 {
			b.windows[i] = opened
		} else {
			b.windows = append(b.windows, opened)
		}
		w = b.seek(per)
	}
	w.expire(now)
	// Not each time, or every refusal would be a write.
	b.changed = b.changed || now-w.asked > per/2
	w.asked = now
	return w
}

// Len and Span are what [spans] has to know of the windows.
func (b *bucket) Len() int                      { return len(b.windows) }
func (b *bucket) Span(i int) (per, asked int64) { return b.windows[i].per, b.windows[i].asked }

// bookUnnamed counts a grant of an instant up to now in those windows that its
// request did not name: they are views of the same history. Windows may move.
func (b *bucket) bookUnnamed(at, cost, now int64, named func(per int64) bool) {
	for i := range b.windows {
		w := &b.windows[i]
		if named(w.per) {
			continue
		}
		w.expire(now)
		// Without regard to its numbers: up to the brim, if need be.
		if cost := min(cost, math.MaxInt64-w.used); cost > 0 && at > now-w.per {
			w.insert(at, cost)
		}
	}
	longest := spans.Longest(b)
	b.windows = slices.DeleteFunc(b.windows, func(w window) bool { return w.per != longest && spans.Stale(w.per, w.asked, now) })
}

// lapse lets go of what permits held whose hold has passed.
func (b *bucket) lapse(now int64) {
	b.held = slices.DeleteFunc(b.held, func(h holding) bool { return h.expires <= now })
}

// places is how many places permits hold, and when the next of them lapses.
func (b *bucket) places() (n int, next int64) {
	next = math.MaxInt64
	for i := range b.held {
		if h := &b.held[i]; h.place {
			n++
			next = min(next, h.expires)
		}
	}
	return n, next
}

// find is what a permit holds of the bucket, or nil.
func (b *bucket) find(permit uint64) *holding {
	for i := range b.held {
		if b.held[i].permit == permit {
			return &b.held[i]
		}
	}
	return nil
}

// idle is from when the bucket counts nothing: no window holds a grant and no
// permit anything.
func (b *bucket) idle() (at int64) {
	for i := range b.windows {
		at = max(at, b.windows[i].idle())
	}
	for i := range b.held {
		at = max(at, b.held[i].expires)
	}
	return at
}
