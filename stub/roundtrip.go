package stub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"syscall"
)

// ErrReset is wrapped by the error of a round trip, or of reading a body,
// whose connection the stub dropped. It is a connection reset to errors.Is as
// well, or, where part of the body had come, an unexpected end.
var ErrReset = errors.New("stub: connection dropped")

// RoundTrip serves a request without a socket. It returns when the handler has
// written the head; the body comes as the handler writes it.
//
// When the request's context ends, or the body is closed before its end, the
// handler sees a client that left. Then, or once the answer is complete, the
// goroutine it runs in ends, whether or not the body was read. The request's
// body is always closed, perhaps after RoundTrip returns.
func (s *Stub) RoundTrip(r *http.Request) (*http.Response, error) {
	asked := &requestBody{from: r.Body}
	if r.Body == nil {
		asked.from = http.NoBody
	}
	if err := context.Cause(r.Context()); err != nil {
		asked.Close()
		return nil, err
	}
	if r.URL == nil {
		asked.Close()
		return nil, errors.New("stub: the request has no URL")
	}
	ctx, leave := context.WithCancel(r.Context())
	served := r.Clone(ctx)
	served.Body = asked
	served.RequestURI = served.URL.RequestURI()
	served.RemoteAddr = "stub"
	if served.Header == nil {
		served.Header = make(http.Header)
	}
	a := newExchange(ctx, leave)
	// A handler that waits for a body that never comes has to be woken.
	unhook := context.AfterFunc(ctx, func() { asked.Close() })
	go func() {
		defer leave()
		defer asked.Close()
		defer unhook()
		a.finish(s.serveOnce(a, served))
	}()

	select {
	case <-a.headed:
	case <-a.done:
		// Both may be ready: what was written before a loss still counts.
		select {
		case <-a.headed:
		default:
			if err := asked.failed(); err != nil {
				return nil, err
			}
			return nil, a.err
		}
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
	if err := asked.failed(); err != nil {
		// A client whose own body fails has no answer to look for.
		leave()
		return nil, fmt.Errorf("stub: reading the request's body: %w", err)
	}
	return a.response(r), nil
}

// serveOnce runs the handler and returns how the connection ended, io.EOF for
// well.
func (s *Stub) serveOnce(a *exchange, r *http.Request) (end error) {
	defer func() {
		switch cause := recover(); {
		case cause == nil:
		case cause != http.ErrAbortHandler:
			panic(cause)
		case a.begun():
			end = fmt.Errorf("%w in the middle of the answer: %w", ErrReset, io.ErrUnexpectedEOF)
		default:
			end = fmt.Errorf("%w before the answer: %w", ErrReset, syscall.ECONNRESET)
		}
	}()
	s.ServeHTTP(a, r)
	if err := context.Cause(r.Context()); err != nil {
		// The answer may have been given up on the way.
		return err
	}
	return io.EOF
}

// response is the client's side of an exchange whose head is written.
func (a *exchange) response(r *http.Request) *http.Response {
	length := int64(-1)
	if n, err := strconv.ParseInt(a.head.Get("Content-Length"), 10, 64); err == nil {
		length = n
	}
	return &http.Response{
		Status:        strconv.Itoa(a.status) + " " + statusText(a.status),
		StatusCode:    a.status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        a.head,
		Body:          a,
		ContentLength: length,
		Request:       r,
	}
}

// A requestBody is closed once, by whoever is first, and remembers how reading
// it failed.
type requestBody struct {
	from   io.ReadCloser
	close  sync.Once
	mu     sync.Mutex
	broken error
	closed bool
}

func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if err != nil && err != io.EOF {
		b.mu.Lock()
		if !b.closed {
			b.broken = err
		}
		b.mu.Unlock()
	}
	return n, err
}

func (b *requestBody) Close() error {
	var err error
	b.close.Do(func() {
		b.mu.Lock()
		b.closed = true
		b.mu.Unlock()
		err = b.from.Close()
	})
	return err
}

func (b *requestBody) failed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.broken
}
