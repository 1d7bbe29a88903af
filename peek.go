package paceline

import (
	"bytes"
	"io"
	"slices"
	"sync"
	"time"
)

// A peek is a body whose beginning has been read ahead, to be judged, and that
// can be read from its start nevertheless.
type peek struct {
	body io.ReadCloser

	mu      sync.Mutex
	changed sync.Cond
	ahead   []byte // read and not yet handed on
	err     error  // how the body ended, if it did
	late    bool   // nobody waits any more for what comes
	done    bool   // nobody is reading ahead any more
}

// lookAhead reads the beginning of a body until it ends, most bytes have been
// read, a piece is the last that is needed (nil: none is), or some time has
// passed. A read that is under way by then goes on: it cannot be stopped
// without losing the body. The body is about as long as size, negative where
// nobody knows.
func lookAhead(body io.ReadCloser, size int64, most int, wait time.Duration, enough func([]byte) bool) *peek {
	if size <= 0 || size > int64(most) {
		size = int64(min(most, firstPiece))
	}
	p := &peek{body: body, ahead: make([]byte, 0, size+bytes.MinRead)}
	p.changed.L = &p.mu
	go p.read(most, enough)
	t := time.AfterFunc(wait, p.giveUp)
	defer t.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.done && !p.late {
		p.changed.Wait()
	}
	return p
}

// firstPiece is how much is read at once of a body of unknown size.
const firstPiece = 4 << 10

// giveUp ends the waiting for what is read ahead.
func (p *peek) giveUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late = true
	p.changed.Broadcast()
}

// read reads ahead.
func (p *peek) read(most int, enough func([]byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for read := 0; !p.done; p.changed.Broadcast() {
		if len(p.ahead) == cap(p.ahead) {
			p.ahead = slices.Grow(p.ahead, firstPiece)
		}
		// Nobody else writes behind the end of what is there.
		space := p.ahead[len(p.ahead):cap(p.ahead)]
		p.mu.Unlock()
		n, err := p.body.Read(space)
		p.mu.Lock()
		p.ahead = p.ahead[:len(p.ahead)+n]
		read += n
		p.err, p.done = err, err != nil || p.late || read >= most || enough != nil && enough(space[:n])
	}
}

// seen is what has been read ahead so far, and how the body ended, if it did.
func (p *peek) seen() (beginning []byte, end error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clip(p.ahead), p.err
}

// Read hands on what was read ahead, and then the rest.
func (p *peek) Read(b []byte) (int, error) {
	p.mu.Lock()
	for len(p.ahead) == 0 && !p.done {
		p.changed.Wait()
	}
	if len(p.ahead) > 0 || p.err != nil {
		n := copy(b, p.ahead)
		p.ahead = p.ahead[n:]
		err := p.err
		if len(p.ahead) > 0 {
			err = nil
		}
		p.mu.Unlock()
		return n, err
	}
	p.mu.Unlock()
	return p.body.Read(b)
}

// Close closes the body, which ends the reading ahead.
func (p *peek) Close() error {
	p.mu.Lock()
	p.late = true
	p.mu.Unlock()
	return p.body.Close()
}
