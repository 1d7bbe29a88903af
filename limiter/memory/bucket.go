package memory

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

// A bucket keeps this many windows besides those that one request needs. Spans
// that depend on a learned factor come and go.
const mostWindows = 16

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

// view is a window over the bucket's history: what the shortest of the windows
// that reach back far enough holds, since it is the least coarse, or the
// longest of all.
func (b *bucket) view(per, now int64) window {
	source := -1
	for i := range b.windows {
		p := b.windows[i].per
		switch {
		case source < 0,
			p >= per && (p < b.windows[source].per || b.windows[source].per < per),
			p < per && p > b.windows[source].per:
			source = i
		}
	}
	if source < 0 {
		return window{per: per}
	}
	return b.windows[source].copyOf(per, now)
}

// open adds a window over the bucket's history.
func (b *bucket) open(per, now int64) {
	w := b.view(per, now)
	w.asked = now
	if i := b.spare(per, now); i >= 0 {
		b.windows[i] = w
		return
	}
	// Exactly one more: most buckets never get another.
	grown := make([]window, len(b.windows)+1)
	copy(grown, b.windows)
	grown[len(b.windows)] = w
	b.windows = grown
}

// spare is a window that a new one of span per may replace, or -1.
func (b *bucket) spare(per, now int64) int {
	longest := max(per, b.longest())
	oldest := -1
	for i := range b.windows {
		w := &b.windows[i]
		if w.per == longest || w.asked >= now {
			continue
		}
		if w.stale(now) {
			return i
		}
		if oldest < 0 || w.asked < b.windows[oldest].asked {
			oldest = i
		}
	}
	if len(b.windows) >= mostWindows {
		return oldest
	}
	return -1
}

func (b *bucket) longest() int64 {
	var per int64
	for i := range b.windows {
		per = max(per, b.windows[i].per)
	}
	return per
}

// stale says whether a window can go if a longer one stays: for twice its span
// nobody asked for it, so no instant we named to anybody lies ahead, and all
// that it holds is in the longer one.
func (w *window) stale(now int64) bool { return now-w.asked-w.per > w.per }

// prune drops stale windows. The others move.
func (b *bucket) prune(now int64) {
	longest := b.longest()
	kept := b.windows[:0]
	for i := range b.windows {
		w := &b.windows[i]
		if w.per != longest && w.stale(now) {
			continue
		}
		kept = append(kept, *w)
	}
	clear(b.windows[len(kept):])
	b.windows = kept
}
