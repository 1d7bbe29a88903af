package paceline

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/paceline-proxy/paceline/budget"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/policy"
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

// uncover holds an answer back while a refusal may hide in its beginning: of a
// stream until its first event, line or sign of life, of a document for its
// first few kilobytes. Answers of other kinds, or of no interest, are left alone.
func (a *attempt) uncover(h dialect.Head) {
	c := a.call
	if h.Status != http.StatusOK || c.kind != dialect.Inference || !c.entry.Mode.enforced() || a.res.Body == http.NoBody {
		return
	}
	var most int
	var enough func([]byte) bool
	kind, _, _ := strings.Cut(h.Header.Get("Content-Type"), ";")
	switch strings.ToLower(strings.TrimSpace(kind)) {
	case "application/json":
		most = heldJSON
	case "text/event-stream":
		var found sign
		most, enough = heldEvents, found.in
		if h.Header.Get("Content-Encoding") == "gzip" {
			z := unzip(&found)
			defer z.stop()
			enough = func(piece []byte) bool { z.write(piece); return found.shown }
		}
	case "application/x-ndjson":
		if h.Header.Get("Content-Encoding") != "" {
			return
		}
		most, enough = heldEvents, func(piece []byte) bool { return bytes.IndexByte(piece, '\n') >= 0 }
	default:
		return
	}
	a.hear()
	p := lookAhead(a.res.Body, a.res.ContentLength, most, heldFor, enough)
	a.res.Body = p
	beginning, err := p.seen()
	a.answered = time.Now()
	if err != nil && err != io.EOF {
		// Lost before anything was handed on, as if it had had no head.
		a.res.Body.Close()
		a.res, a.err = nil, c.redact(err)
		a.fail()
		return
	}
	if beginning = decoded(h.Header, beginning); dialect.MayRefuse(beginning) {
		h.Received = a.answered
		if hidden := c.entry.dialect.ReadHead(h, beginning); hidden.Class != dialect.OK {
			a.reading = hidden
		}
	}
}

// hear tells everyone on the key what the head says of budgets, before the rest
// of the answer comes.
func (a *attempt) hear() {
	c := a.call
	if a.heard = !c.unheeded(); !a.heard {
		return
	}
	c.caller.Use(a.answered, func(s *budget.State, starts *budget.Starts) (changed bool) {
		changed, a.took = c.rules.Hear(s, starts, policy.Answer{Sent: a.booked, Now: a.answered, Reading: a.reading})
		return changed
	})
}

// preliminary are the events that only announce an answer.
var preliminary = [][]byte{
	[]byte(`"message_start"`), []byte(`"message-start"`), // Anthropic, Cohere
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
		case len(s.event) >= heldEvents: // decompressed: it has been held back long enough
			s.shown = true
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
	if s.in(piece) {
		return 0, errStopped // there may be much more, decompressed
	}
	return len(piece), nil
}
