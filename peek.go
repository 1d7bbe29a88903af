package paceline

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// A peek is a body whose beginning has been read ahead, to be judged, and that
// can be read from its start nevertheless.
type peek struct {
	body io.ReadCloser

	mu      sync.Mutex
	changed *sync.Cond
	ahead   []byte // read and not yet handed on
	err     error  // how the body ended, if it did
	late    bool   // nobody waits any more for what comes
	done    bool   // nobody is reading ahead any more
}

// lookAhead reads the beginning of a body until it ends, most bytes have been
// read, a piece is the last that is needed (nil: none is), or some time has
// passed. A read that is under way by then goes on: it cannot be stopped
// without losing the body.
func lookAhead(body io.ReadCloser, most int, wait time.Duration, enough func([]byte) bool) *peek {
	p := &peek{body: body}
	p.changed = sync.NewCond(&p.mu)
	go p.read(most, enough)
	t := time.AfterFunc(wait, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.late = true
		p.changed.Broadcast()
	})
	defer t.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.done && !p.late {
		p.changed.Wait()
	}
	return p
}

// read reads ahead.
func (p *peek) read(most int, enough func([]byte) bool) {
	buf := make([]byte, 4<<10)
	for read := 0; ; {
		n, err := p.body.Read(buf)
		read += n
		p.mu.Lock()
		p.ahead = append(p.ahead, buf[:n]...)
		p.err, p.done = err, err != nil || p.late || read >= most || enough != nil && enough(buf[:n])
		done := p.done
		p.changed.Broadcast()
		p.mu.Unlock()
		if done {
			return
		}
	}
}

// seen is a copy of what has been read ahead, and how the body ended, if it
// did.
func (p *peek) seen() (beginning []byte, end error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Clone(p.ahead), p.err
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
