package stub

import (
	"cmp"
	"net/http"
)

// A framing is how the events of a stream are written. The zero value is that
// of server-sent events.
type framing struct {
	contentType          string // empty: that of server-sent events
	open, between, close string // before the first, between two, behind the last
}

var (
	lines = framing{"application/x-ndjson", "", "\n", "\n"}
	list  = framing{"application/json", "[", ",\r\n", "]"}
)

// A streamed answer is written event by event, each flushed by itself.
type streamed struct {
	w http.ResponseWriter
	framing
	begun bool
}

// begin writes the head of a stream.
func (a api) begin(w http.ResponseWriter) *streamed {
	w.Header().Set("Cache-Control", "no-cache")
	head(w, http.StatusOK, cmp.Or(a.framing.contentType, "text/event-stream"))
	return &streamed{w: w, framing: a.framing}
}

// write writes an event.
func (s *streamed) write(e event) {
	var out []byte
	switch {
	case s.contentType == "":
		out = e.sse()
	case e.data == nil:
		return
	default:
		before := s.between
		if !s.begun {
			before = s.open
		}
		out = append([]byte(before), encode(e.data)...)
	}
	s.begun = true
	s.w.Write(out)
	flush(s.w)
}

// end writes what is behind the last event.
func (s *streamed) end() {
	if s.close != "" {
		s.w.Write([]byte(s.close))
		flush(s.w)
	}
}

// sse is the event as a server-sent one.
func (e event) sse() []byte {
	var out []byte
	if e.name != "" {
		out = append(out, "event: "+e.name+"\n"...)
	}
	switch data := e.data.(type) {
	case nil:
		out = append(out, ": ping"...)
	case string:
		out = append(out, "data: "+data...)
	default:
		out = append(append(out, "data: "...), encode(data)...)
	}
	return append(out, "\n\n"...)
}
