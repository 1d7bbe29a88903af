package dialect

import (
	"cmp"
	"maps"
	"slices"
	"strings"
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
	switch {
	case h.Status < 100 || h.Status >= 400:
		a.refused, a.fault = true, readFault(body)
	case h.Status < 300 && len(body) > 0:
		if f, found := hiddenFault(h.Header.Get("Content-Type"), body); found {
			a.refused, a.fault, a.status = true, f, f.status
		}
	}
	if a.refused {
		// Reasons that some put into a header: a sentence, an exception's name.
		a.fault.text(a.fields.get("x-error-message"), maxDepth)
		exception, _, _ := strings.Cut(a.fields.get("x-amzn-errortype"), ":")
		a.fault.code(exception)
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
