package dialect

import (
	"bytes"
	"iter"
)

// isEventStream is true for a body that begins as server-sent events do.
func isEventStream(body []byte) bool {
	for _, start := range []string{"event:", "data:", ":", "id:", "retry:"} {
		if bytes.HasPrefix(body, []byte(start)) {
			return true
		}
	}
	return false
}

// events yields the data of the complete events at the beginning of a stream.
// Only the first few are looked at: a refusal comes before any answer.
func events(body []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var data []byte
		seen := 0
		for line := range bytes.Lines(append(bytes.Clone(body), '\n', '\n')) {
			line = bytes.TrimRight(line, "\r\n")
			if part, ok := bytes.CutPrefix(line, []byte("data:")); ok {
				data = append(append(data, bytes.TrimPrefix(part, []byte(" "))...), '\n')
				continue
			}
			if len(line) > 0 || len(data) == 0 {
				continue
			}
			if seen++; seen > 4 || !yield(data) {
				return
			}
			data = nil
		}
	}
}
