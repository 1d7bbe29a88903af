package stub

import (
	"context"
	"errors"
	"net/http"
	"sync"
)

// An exchange is one answer on its way through memory: the handler's
// http.ResponseWriter at one end, the client's body at the other. The handler
// never waits for the reader, so a reader that stops holds up no goroutine;
// what a stub answers is a few kilobytes.
type exchange struct {
	ctx   context.Context
	leave context.CancelFunc // tells the handler that the client is gone

	headed chan struct{} // closed when status and head are set
	done   chan struct{} // closed when the handler has ended and err is set
	more   chan struct{} // holds one when there may be more to read

	// Set by the handler's goroutine before headed is closed.
	writing http.Header
	status  int
	head    http.Header

	mu     sync.Mutex
	text   []byte
	err    error // how the answer ended, once it has
	closed bool
}

var errClosed = errors.New("stub: read of a closed response body")

func newExchange(ctx context.Context, leave context.CancelFunc) *exchange {
	return &exchange{
		ctx: ctx, leave: leave,
		headed: make(chan struct{}), done: make(chan struct{}), more: make(chan struct{}, 1),
		writing: make(http.Header),
	}
}

// Header, WriteHeader, Write and Flush are the handler's.
func (a *exchange) Header() http.Header { return a.writing }

func (a *exchange) WriteHeader(status int) {
	if a.begun() {
		return
	}
	// The client owns its copy from here on.
	a.status, a.head = status, a.writing.Clone()
	close(a.headed)
}

func (a *exchange) Write(p []byte) (int, error) {
	if !a.begun() {
		a.WriteHeader(http.StatusOK)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return 0, errClosed
	}
	a.text = append(a.text, p...)
	a.signal()
	return len(p), nil
}

// Flush has nothing to do: what is written can be read.
func (a *exchange) Flush() {}

// begun is for the handler's goroutine, which alone writes status.
func (a *exchange) begun() bool { return a.status != 0 }

// finish tells the reader how the answer ended.
func (a *exchange) finish(err error) {
	a.mu.Lock()
	a.err = err
	a.signal()
	a.mu.Unlock()
	close(a.done)
}

func (a *exchange) signal() {
	select {
	case a.more <- struct{}{}:
	default:
	}
}

// Read and Close are the client's.
func (a *exchange) Read(p []byte) (int, error) {
	for {
		n, err := a.take(p)
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		select {
		case <-a.more:
		case <-a.ctx.Done():
			// The handler ends its context too, after its last word.
			if n, err := a.take(p); n > 0 || err != nil {
				return n, err
			}
			return 0, context.Cause(a.ctx)
		}
	}
}

// take hands over what there is, without waiting.
func (a *exchange) take(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return 0, errClosed
	}
	if len(a.text) == 0 {
		return 0, a.err
	}
	n := copy(p, a.text)
	a.text = a.text[n:]
	return n, nil
}

func (a *exchange) Close() error {
	a.mu.Lock()
	a.closed, a.text = true, nil
	a.mu.Unlock()
	a.leave()
	return nil
}
