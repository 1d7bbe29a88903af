package budget

import (
	"iter"
	"maps"
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
