package memory

import (
	"slices"

	"github.com/paceline-proxy/paceline/limiter/internal/spans"
)

// A bucket is everything counted under one key: a window for each span it has
// been asked with, and the places that permits hold.
type bucket struct {
	next *bucket // in the same slot of its shard
	hash uint64
	key  string

	number uint64 // of the key in the journal; 0: it is not known there

	windows []window
	held    []uint32 // places, as a heap: the next to lapse first
}

// window is the window of a span, or nil. It is most likely the nth: requests
// tend to name a bucket's windows in one order.
func (b *bucket) window(per int64, nth int) *window {
	if nth < len(b.windows) && b.windows[nth].per == per {
		return &b.windows[nth]
	}
	return b.seek(per)
}

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
		return b.windows[i].copyOf(per, now)
	}
	return window{per: per}
}

// open adds a window over the bucket's history.
func (b *bucket) open(per, now int64) {
	w := b.view(per, now)
	w.asked = now
	if i := spans.Spare(b, per, now); i >= 0 {
		b.windows[i] = w
		return
	}
	// Exactly one more: most buckets never get another.
	grown := make([]window, len(b.windows)+1)
	copy(grown, b.windows)
	grown[len(b.windows)] = w
	b.windows = grown
}

// prune drops stale windows. The others move.
func (b *bucket) prune(now int64) {
	longest := spans.Longest(b)
	b.windows = slices.DeleteFunc(b.windows, func(w window) bool { return w.per != longest && spans.Stale(w.per, w.asked, now) })
}

// Len and Span are what [spans] has to know of the windows.
func (b *bucket) Len() int                      { return len(b.windows) }
func (b *bucket) Span(i int) (per, asked int64) { return b.windows[i].per, b.windows[i].asked }
