package paceline

import (
	"compress/gzip"
	"errors"
	"io"
	"iter"
	"net/http"
	"sync"

	"github.com/paceline-proxy/paceline/dialect"
)

// An observer looks on while an answer passes to its client, for the tokens
// that it says it cost. It has no part in what passes, and when.
type observer struct {
	mu    sync.Mutex
	meter *dialect.Meter // nil once nobody looks any more
	// Where the body is compressed, from its first piece on.
	zipped bool
	plain  *unzipper
}

// observe returns an observer of the answer's body, nil where there is nothing
// to see.
func (a *attempt) observe(status int, h http.Header) *observer {
	if a.call.kind != dialect.Inference {
		return nil
	}
	meter, coding := dialect.MeterOf(status, h), h.Get("Content-Encoding")
	if meter == nil || coding != "" && coding != "identity" && coding != "gzip" {
		return nil
	}
	return &observer{meter: meter, zipped: coding == "gzip"}
}

// see looks at the next piece of the body.
func (o *observer) see(piece []byte) {
	if o == nil || len(piece) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.meter == nil:
	case o.zipped:
		if o.plain == nil {
			o.plain = unzip(o.meter)
		}
		o.plain.write(piece)
	default:
		o.meter.Write(piece)
	}
}

// end stops looking, and returns what has been seen.
func (o *observer) end() bill {
	if o == nil {
		return bill{}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.meter != nil && o.plain != nil {
		o.plain.stop()
	}
	b := o.read()
	o.meter = nil
	return b
}

// sofar is what has been seen so far, nothing once nobody looks any more.
func (o *observer) sofar() bill {
	if o == nil {
		return bill{}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.read()
}

// read reads the meter.
func (o *observer) read() (b bill) {
	if o.meter != nil {
		b.usage, b.told = o.meter.Usage()
		b.produced = o.meter.Produced()
	}
	return b
}

// An unzipper decompresses what is written to it, piece by piece. The reader
// of gzip asks for its input; it runs as a coroutine that stands still wherever
// the next piece has yet to come, so that neither a goroutine nor the body
// waits for the other.
type unzipper struct {
	piece []byte
	more  func() (struct{}, bool)
	stop  func()
}

// errStopped is the end of a body that nobody looks at any more.
var errStopped = errors.New("stopped")

func unzip(to io.Writer) *unzipper {
	u := &unzipper{}
	u.more, u.stop = iter.Pull(func(yield func(struct{}) bool) {
		z, err := gzip.NewReader(awaiting(func(p []byte) (int, error) {
			for len(u.piece) == 0 {
				if !yield(struct{}{}) {
					return 0, errStopped
				}
			}
			n := copy(p, u.piece)
			u.piece = u.piece[n:]
			return n, nil
		}))
		if err == nil {
			io.Copy(to, z) // what is no gzip is nobody's business here
		}
	})
	return u
}

// awaiting is a function that reads.
type awaiting func([]byte) (int, error)

func (f awaiting) Read(p []byte) (int, error) { return f(p) }

// write decompresses the next piece as far as it goes.
func (u *unzipper) write(piece []byte) {
	u.piece = piece
	u.more()
	u.piece = nil
}
