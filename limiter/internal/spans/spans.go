// Package spans decides which of a bucket's windows, one for each span that it has
// been asked with, a new one begins from, and which can go.
package spans

// Windows are a bucket's: how many there are, and the span of each and when a
// request last named it.
type Windows interface {
	Len() int
	Span(i int) (per, asked int64)
}

// Most is how many windows a bucket keeps besides those that one request needs.
// Spans that depend on a learned factor come and go.
const Most = 16

// Source is the window whose history a new one of span per begins with, or -1:
// the shortest of those that reach back far enough, since it is the least coarse,
// or the longest of all.
func Source(ws Windows, per int64) int {
	source, best := -1, int64(0)
	for i := range ws.Len() {
		p, _ := ws.Span(i)
		switch {
		case source < 0, p >= per && (p < best || best < per), p < per && p > best:
			source, best = i, p
		}
	}
	return source
}

// Spare is a window that a new one of span per may replace, or -1.
func Spare(ws Windows, per, now int64) int {
	longest := max(per, Longest(ws))
	oldest, since := -1, int64(0)
	for i := range ws.Len() {
		p, asked := ws.Span(i)
		if p == longest || asked >= now {
			continue
		}
		if Stale(p, asked, now) {
			return i
		}
		if oldest < 0 || asked < since {
			oldest, since = i, asked
		}
	}
	if ws.Len() >= Most {
		return oldest
	}
	return -1
}

// Longest is the longest span, 0 where there is no window.
func Longest(ws Windows) (per int64) {
	for i := range ws.Len() {
		p, _ := ws.Span(i)
		per = max(per, p)
	}
	return per
}

// Stale says whether a window can go if a longer one stays: for more than its span
// nobody asked for it, even if asked is half a span early, so no instant that
// anybody was told lies ahead, and all that it holds is in the longer one.
func Stale(per, asked, now int64) bool { return now-asked-per > per }
