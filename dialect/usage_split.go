package dialect

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
)

// eventLines takes the data out of server-sent events.
type eventLines struct {
	name  int  // how many bytes of dataField the line begins with
	inner bool // in the data of a line
	other bool // in a line of another field
	began bool // the line has any byte
	cr    bool // the last byte was a carriage return
}

const dataField = "data:"

func (l *eventLines) read(piece []byte, part func([]byte), end func()) {
	for len(piece) > 0 {
		if c := piece[0]; c == '\n' || c == '\r' {
			if c == '\r' || !l.cr {
				if !l.began {
					end()
				}
				*l = eventLines{}
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
			part(line)
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

// jsonLines takes each line for a document.
type jsonLines struct{}

func (jsonLines) read(piece []byte, part func([]byte), end func()) {
	for len(piece) > 0 {
		line, rest, found := bytes.Cut(piece, []byte("\n"))
		part(line)
		if found {
			end()
		}
		piece = rest
	}
}

// nothing passes a body over.
type nothing struct{}

func (nothing) read([]byte, func([]byte), func()) {}

// mostFrame bounds what is kept of a frame, and what a frame may be.
const (
	keptFrame = 64 << 10
	mostFrame = 24 << 20
)

// awsFrames takes the payloads out of Amazon's event stream: frames of a
// prelude of 12 bytes (length of all, length of the headers, checksum), headers,
// payload and checksum. Bedrock puts a model's own events into the payload in
// base64, {"bytes":"…"}.
type awsFrames struct {
	prelude [12]byte
	n       int // how much of prelude is filled
	headers int // bytes to pass over
	left    int // of the payload
	sum     int // bytes to pass over behind it
	payload []byte
	open    bool // the payload has not been handed on
	broken  bool
}

func (f *awsFrames) read(piece []byte, part func([]byte), end func()) {
	for len(piece) > 0 && !f.broken {
		if f.n < len(f.prelude) {
			n := copy(f.prelude[f.n:], piece)
			f.n, piece = f.n+n, piece[n:]
			if f.n == len(f.prelude) {
				all, headers := binary.BigEndian.Uint32(f.prelude[:]), binary.BigEndian.Uint32(f.prelude[4:])
				f.broken = all > mostFrame || headers > mostFrame || all < headers+16
				f.headers, f.left, f.sum = int(headers), int(all)-int(headers)-16, 4
				f.payload, f.open = f.payload[:0], true
			}
			continue
		}
		n := min(f.headers, len(piece))
		f.headers, piece = f.headers-n, piece[n:]
		n = min(f.left, len(piece))
		f.payload = append(f.payload, piece[:min(n, keptFrame-len(f.payload))]...)
		f.left, piece = f.left-n, piece[n:]
		if f.headers > 0 || f.left > 0 {
			continue
		}
		if f.open {
			f.open = false
			part(modelEvent(f.payload))
			end()
		}
		n = min(f.sum, len(piece))
		if f.sum, piece = f.sum-n, piece[n:]; f.sum == 0 {
			f.n = 0
		}
	}
}

// modelEvent is a payload, or what it holds in base64.
func modelEvent(payload []byte) []byte {
	for name, value := range topLevel(payload) {
		if name == "bytes" && len(value) > 2 {
			if b, err := base64.StdEncoding.AppendDecode(nil, value[1:len(value)-1]); err == nil {
				return b
			}
		}
	}
	return payload
}
