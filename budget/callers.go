package budget

import (
	"iter"
	"maps"
	"slices"
	"time"
)

// Callers yields the caller keys that are remembered, in no order. Whoever
// ranges over them may use the book.
func (b *Book) Callers() iter.Seq2[string, *Caller] {
	return func(yield func(string, *Caller) bool) {
		b.mu.Lock()
		callers := maps.Clone(b.callers)
		b.mu.Unlock()
		for key, c := range callers {
			if !yield(key, c) {
				return
			}
		}
	}
}

// Flush writes what has gathered between two writes, before the process ends.
func (b *Book) Flush(now time.Time) {
	for _, c := range b.Callers() {
		c.mu.Lock()
		c.written = time.Time{}
		c.flush(now)
		c.mu.Unlock()
	}
}

// Look shows f a copy of the state, and the log of starts, under the caller's
// lock. What f changes is not kept, and looking does not count as use.
func (c *Caller) Look(now time.Time, f func(*State, *Starts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refresh(now)
	s := c.state
	s.Readings = slices.Clone(s.Readings)
	f(&s, &c.starts)
}
