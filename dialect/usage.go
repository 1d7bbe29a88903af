package dialect

import (
	"bytes"
	"net/http"
	"strings"
)

// A Meter looks on while an answer passes and finds what it says that it cost.
// It is given the body as it comes, in pieces of any size, keeps a few
// kilobytes at most, and ends with what it has found where it makes no sense of
// the rest.
type Meter struct {
	events bool // the body is server-sent events: one document after another
	lines  lineReader
	doc    usageReader
	usage  Usage
	found  bool
}

// MeterOf returns a meter for an answer with this head, nil where its body is
// not of a kind that tells.
func MeterOf(status int, h http.Header) *Meter {
	if status != http.StatusOK {
		return nil
	}
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	switch strings.ToLower(strings.TrimSpace(kind)) {
	case "application/json":
		return &Meter{}
	case "text/event-stream":
		return &Meter{events: true}
	}
	return nil
}

// Write looks at the next piece of the body. It keeps nothing of it.
func (m *Meter) Write(piece []byte) (int, error) {
	if m.events {
		m.lines.read(piece, m.data, m.next)
	} else {
		m.data(piece)
	}
	return len(piece), nil
}

// data is a part of a document.
func (m *Meter) data(part []byte) {
	for len(part) > 0 {
		if part = m.doc.read(part); m.doc.done {
			m.take(usageOf(m.doc.value))
			m.doc.done, m.doc.value = false, m.doc.value[:0]
		}
	}
}

// next is the end of a document.
func (m *Meter) next() { m.doc = usageReader{value: m.doc.value[:0]} }

// take keeps the largest number of each kind: streams say it several times,
// each in total so far, and not always all of it.
func (m *Meter) take(u Usage) {
	m.found = m.found || u != Usage{}
	m.usage = Usage{
		Input:       max(m.usage.Input, u.Input),
		CachedInput: max(m.usage.CachedInput, u.CachedInput),
		CacheWrites: max(m.usage.CacheWrites, u.CacheWrites),
		Output:      max(m.usage.Output, u.Output),
	}
}

// Usage is what has been found so far, false for nothing.
func (m *Meter) Usage() (Usage, bool) { return m.usage, m.found }

// usageOf reads a usage object as OpenAI's two APIs and Anthropic write it.
func usageOf(object []byte) (u Usage) {
	apart := 0 // of the input, counted beside it
	for name, value := range topLevel(object) {
		switch name {
		case "prompt_tokens", "input_tokens":
			u.Input = max(u.Input, value.natural())
		case "completion_tokens", "output_tokens":
			u.Output = max(u.Output, value.natural())
		case "prompt_tokens_details", "input_tokens_details":
			for name, value := range topLevel(value) {
				if name == "cached_tokens" {
					u.CachedInput = max(u.CachedInput, value.natural())
				}
			}
		case "cache_read_input_tokens":
			u.CachedInput = value.natural()
			apart += u.CachedInput
		case "cache_creation_input_tokens":
			u.CacheWrites = value.natural()
			apart += u.CacheWrites
		}
	}
	u.Input += apart
	return u
}

// A lineReader takes the data out of server-sent events.
type lineReader struct {
	name  int  // how many bytes of dataField the line begins with
	inner bool // in the data of a line
	other bool // in a line of another field
	began bool // the line has any byte
	cr    bool // the last byte was a carriage return
}

const dataField = "data:"

// read hands on the data in a piece of a stream, and the ends of its events.
func (l *lineReader) read(piece []byte, data func([]byte), end func()) {
	for len(piece) > 0 {
		if c := piece[0]; c == '\n' || c == '\r' {
			if c == '\r' || !l.cr {
				if !l.began {
					end()
				}
				*l = lineReader{}
			}
			l.cr = c == '\r'
			piece = piece[1:]
			continue
		}
		l.cr, l.began = false, true
		n := endOfLine(piece)
		line := piece[:n]
		piece = piece[n:]
		for !l.inner && !l.other && len(line) > 0 {
			l.other = line[0] != dataField[l.name]
			l.name++
			l.inner = !l.other && l.name == len(dataField)
			line = line[1:]
		}
		if l.inner && len(line) > 0 {
			data(line)
		}
	}
}

// endOfLine is the length of a line as far as it is there.
func endOfLine(b []byte) int {
	n := len(b)
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		n = i
	}
	if i := bytes.IndexByte(b[:n], '\r'); i >= 0 {
		n = i
	}
	return n
}

// The bounds of what a usageReader keeps.
const (
	mostUsage = 4 << 10 // of a usage object
	mostName  = 16      // of a field's name: enough to tell those that matter
)

// A usageReader finds the object called usage in a JSON document that comes in
// pieces: at its top, in the response of an OpenAI event, or in the message of
// an Anthropic one.
type usageReader struct {
	depth   int
	text    bool           // in a string
	escaped bool           // behind a backslash in it
	name    [mostName]byte // the beginning of the latest string
	n       int            // how much of name is filled
	long    bool           // the string is longer
	// inside is whether the object at depth 2 is one to look into; kept what the
	// object that is being kept stands at, 0 for none.
	inside bool
	kept   int
	value  []byte
	done   bool // value is whole
}

// read looks at a part of the document, and returns what is left of it once
// value is whole.
func (r *usageReader) read(part []byte) (rest []byte) {
	for i := 0; i < len(part); i++ {
		c := part[i]
		if r.kept > 0 {
			if len(r.value) == mostUsage {
				r.kept, r.value = 0, r.value[:0] // no usage is so long
			} else {
				r.value = append(r.value, c)
			}
		}
		if r.text {
			i = r.readText(part, i)
			continue
		}
		switch c {
		case '"':
			r.text, r.n, r.long = true, 0, false
		case '{', '[':
			r.depth++
			name := ""
			if c == '{' && !r.long {
				name = string(r.name[:r.n])
			}
			switch {
			case r.kept > 0:
			case name == "usage" && (r.depth == 2 || r.depth == 3 && r.inside):
				if r.value == nil {
					r.value = make([]byte, 0, 256)
				}
				r.kept, r.value = r.depth, append(r.value[:0], c)
			case r.depth == 2:
				r.inside = name == "response" || name == "message"
			}
			r.n = 0
		case '}', ']':
			r.depth--
			if r.kept > r.depth {
				r.kept, r.done = 0, true
				return part[i+1:]
			}
		case ',':
			r.n = 0
		}
	}
	return nil
}

// readText goes on in a string, and returns the index of the last byte it has
// looked at. Answers are mostly text, so what is not kept is passed over.
func (r *usageReader) readText(part []byte, i int) int {
	if r.long && r.kept == 0 && !r.escaped {
		for i < len(part) && part[i] != '"' && part[i] != '\\' {
			i++
		}
		if i == len(part) {
			return i
		}
	}
	switch c := part[i]; {
	case r.escaped:
		r.escaped, r.long = false, true
	case c == '\\':
		r.escaped = true
	case c == '"':
		r.text = false
	case r.n < mostName:
		r.name[r.n] = c
		r.n++
	default:
		r.long = true
	}
	return i
}
