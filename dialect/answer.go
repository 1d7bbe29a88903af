package dialect

import (
	"cmp"
	"maps"
	"slices"
)

// An answer is one response taken apart, for the reader and for what a
// provider adds to it.
type answer struct {
	Head
	fields fields
	fault  fault
	// status is the status that counts: a refusal may hide in a 200, with the
	// real one, or none, in its body.
	status int
	// refused is true where the answer is an error of any kind.
	refused bool
	// named are the limits the refusal names, said those of them that stand in
	// sentences.
	named []namedLimit
	said  []refusedLimit
}

// newAnswer takes a response apart.
func newAnswer(h Head, body []byte) *answer {
	a := &answer{Head: h, fields: newFields(h.Header), status: h.Status}
	if len(body) > 0 {
		a.fault = readFault(body)
	}
	a.refused = h.Status < 100 || h.Status >= 400
	if !a.refused && h.Status >= 200 && a.fault.found {
		a.refused, a.status = true, a.fault.status
	}
	if a.refused {
		for name, value := range a.fault.headers {
			// The real headers know better than copies in the body.
			if len(a.fields[name]) == 0 {
				a.fields.add(name, value)
			}
		}
	}
	return a
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}
