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

// events yields the names and data of the events at the beginning of a stream,
// the last of them possibly cut. Only the first few are looked at: a refusal
// comes before any answer.
func events(body []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		var name string
		var data []byte
		seen := 0
		end := func() bool {
			if name == "" && data == nil {
				return true
			}
			seen++
			more := yield(name, data) && seen < 8
			name, data = "", nil
			return more
		}
		for len(body) > 0 {
			n := bytes.IndexAny(body, "\r\n")
			if n < 0 {
				n = len(body)
			}
			line := body[:n]
			switch rest := body[n:]; {
			case bytes.HasPrefix(rest, []byte("\r\n")):
				body = rest[2:]
			default:
				body = rest[min(1, len(rest)):]
			}
			if len(line) == 0 {
				if !end() {
					return
				}
				continue
			}
			field, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch string(field) {
			case "event":
				name = string(value[:min(len(value), 64)])
			case "data":
				data = append(append(data, value...), '\n')
			}
		}
		end()
	}
}
