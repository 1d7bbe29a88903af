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

// An event is one of a stream of them; not whole where the stream was cut before
// its end.
type event struct {
	name  string
	data  []byte
	whole bool
}

// events yields the events at the beginning of a stream. Only the first few are
// looked at: a refusal comes before any answer.
func events(body []byte) iter.Seq[event] {
	return func(yield func(event) bool) {
		var e event
		seen := 0
		end := func(whole bool) bool {
			if e.name == "" && e.data == nil {
				return true
			}
			seen++
			e.whole = whole
			more := yield(e) && seen < 8
			e = event{}
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
				if !end(true) {
					return
				}
				continue
			}
			field, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch string(field) {
			case "event":
				e.name = string(value[:min(len(value), 64)])
			case "data":
				e.data = append(append(e.data, value...), '\n')
			}
		}
		end(false)
	}
}
