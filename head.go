package paceline

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"slices"
	"time"

	"github.com/paceline-proxy/paceline/dialect"
)

// A refusal may hide in a 200: as an error object, or as the first event of a
// stream. While nothing of the answer has been handed on it can be told, and
// then it is what any refusal is.

// How much of an answer is held back for that, and for how long.
const (
	heldEvents = 64 << 10
	heldJSON   = 4 << 10
	heldFor    = 2 * time.Second
)

// hold reads the beginning of an answer that may hide a refusal: of a stream
// its first event or sign of life, of a document its first few kilobytes. It
// is nil where there is nothing to be seen: the answer is no document of a
// known kind, or of no interest.
func (a *attempt) hold() (beginning []byte) {
	c := a.call
	if a.res.StatusCode != http.StatusOK || c.kind != dialect.Inference || !c.entry.Mode.enforced() || a.res.Body == http.NoBody {
		return nil
	}
	kind, _, err := mime.ParseMediaType(a.res.Header.Get("Content-Type"))
	most, enough := heldJSON, func([]byte) bool { return false }
	switch {
	case err != nil:
		return nil
	case kind == "text/event-stream":
		var found sign
		most, enough = heldEvents, found.in
		if a.res.Header.Get("Content-Encoding") == "gzip" {
			z := unzip(&found)
			defer z.stop()
			enough = func(piece []byte) bool { z.write(piece); return found.shown }
		}
	case kind != "application/json":
		return nil
	}
	p := lookAhead(a.res.Body, most, heldFor, enough)
	a.res.Body = p
	beginning, err = p.seen()
	if err != nil && err != io.EOF {
		// Lost before anything was handed on, as if it had had no head.
		a.res.Body.Close()
		a.res, a.err = nil, c.redact(err)
		return nil
	}
	if beginning = decoded(a.res.Header, beginning); !mayRefuse(beginning) {
		return nil
	}
	return beginning
}

// preliminary are the events that only announce an answer.
var preliminary = [][]byte{
	[]byte(`"message_start"`), // Anthropic
	[]byte(`"response.created"`), []byte(`"response.in_progress"`), []byte(`"response.queued"`),
}

// A sign is looked for in the beginning of an event stream, by which it shows
// what it is: a whole event that does not only announce the answer, or a
// comment, by which it is alive.
type sign struct {
	shown bool
	event []byte // what there is of the event that the next byte belongs to
	line  int    // bytes of its last line
	cr    bool   // the last byte was a carriage return
}

// in looks at the next piece of the stream.
func (s *sign) in(piece []byte) bool {
	for _, c := range piece {
		switch {
		case s.shown:
			return true
		case c == '\n' && s.cr: // of one line end
		case c != '\n' && c != '\r':
			s.event = append(s.event, c)
			s.line++
		case s.line > 0:
			s.shown = s.event[len(s.event)-s.line] == ':'
			s.line = 0
		default:
			s.shown = len(s.event) > 0 && !slices.ContainsFunc(preliminary, func(name []byte) bool { return bytes.Contains(s.event, name) })
			s.event = s.event[:0]
		}
		s.cr = c == '\r'
	}
	return s.shown
}

func (s *sign) Write(piece []byte) (int, error) {
	s.in(piece)
	return len(piece), nil
}

// mayRefuse reports whether the beginning of an answer is worth reading: most
// name no error at all.
func mayRefuse(beginning []byte) bool {
	return bytes.Contains(beginning, []byte("rror")) || bytes.Contains(beginning, []byte("ERROR"))
}
