package paceline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/paceline-proxy/paceline/dialect"
)

// A stream is the body of an answer on its way to the caller, byte for byte.
// It watches for the end, by which the attempt is settled, and for silence.
type stream struct {
	body    io.ReadCloser
	attempt *attempt
	events  bool // server-sent events

	mu     sync.Mutex
	tail   []byte // the latest bytes of an event stream
	err    error  // what every Read returns from now on
	closed bool
}

// lastTail is how much of an event stream is remembered to see its end, with an
// error that it may end in.
const lastTail = 2 << 10

// stream wraps the body of the answer.
func (a *attempt) stream(h http.Header, body io.ReadCloser) io.ReadCloser {
	if body == http.NoBody {
		a.settle(nil)
		return body
	}
	s := &stream{
		body: body, attempt: a,
		events: strings.HasPrefix(h.Get("Content-Type"), "text/event-stream"),
	}
	// Where the attempt is cut, and nobody reads, its place is freed
	// nevertheless; so it is where the caller forgets the body altogether.
	// Neither refers to the stream, which would keep it from being forgotten.
	// The garbage collector, though, must not reach into a bubble.
	stop := context.AfterFunc(a.ctx, func() { a.settle(a.cutBy()) })
	a.unwatch.Store(&stop)
	if !inBubble() {
		runtime.AddCleanup(s, func(a *attempt) { a.cancel(errLeft) }, a)
	}
	return s
}

// cutBy is why the attempt's context has ended.
func (a *attempt) cutBy() error {
	if a.call.ctx.Err() != nil {
		return errLeft
	}
	return context.Cause(a.ctx)
}

// Read hands on the next bytes as they came.
func (s *stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	err := s.err
	s.mu.Unlock()
	if err != nil {
		return 0, err
	}
	s.attempt.alarms.set(idling, s.attempt.call.entry.Idle)
	n, err := s.body.Read(p)
	s.attempt.alarms.clear(idling)
	s.attempt.observer.see(p[:max(0, n)])
	s.attempt.meter()
	if s.events && n > 0 {
		latest := p[max(0, n-lastTail):n]
		s.mu.Lock()
		s.tail = append(s.tail[:0], s.tail[max(0, len(s.tail)+len(latest)-lastTail):]...)
		s.tail = append(s.tail, latest...)
		s.mu.Unlock()
	}
	if err != nil {
		err = s.ended(err)
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
	}
	return n, err
}

// ended settles the attempt by how its body ended, and says so to the reader.
func (s *stream) ended(err error) error {
	a := s.attempt
	if errors.Is(err, io.EOF) {
		s.mu.Lock()
		fault := s.fault()
		s.mu.Unlock()
		a.settle(fault)
		return err
	}
	cause := fmt.Errorf("the answer was cut: %w", err)
	if a.ctx.Err() != nil {
		cause = a.cutBy()
	}
	a.settle(cause)
	switch cause {
	case errCapped:
		return fmt.Errorf("paceline: %w: the answer took longer than %v", errCapped, a.call.entry.Total)
	case errIdle:
		return fmt.Errorf("paceline: %w: nothing for %v", errIdle, a.call.entry.Idle)
	}
	return a.call.redact(err)
}

// fault is the error that an event stream has come to behind what has been
// handed on, nil where it has not: a client sees it, and so does the log.
func (s *stream) fault() error {
	if s.attempt.reading.Class != dialect.OK || !dialect.MayRefuse(s.tail) {
		return nil
	}
	h := dialect.Head{Status: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}}
	for event := range bytes.SplitSeq(bytes.ReplaceAll(s.tail, []byte("\r\n"), []byte("\n")), []byte("\n\n")) {
		if !bytes.HasPrefix(event, []byte("event:")) && !bytes.HasPrefix(event, []byte("data:")) {
			continue // its beginning is not remembered
		}
		if g := s.attempt.call.entry.dialect.ReadHead(h, append(bytes.Clone(event), "\n\n"...)); g.Class != dialect.OK {
			return fmt.Errorf("refused in mid-stream (%s)", g.Class)
		}
	}
	return nil
}

// linger is how long Close waits for the end of an answer that may have come
// already: readers of JSON often stop at the last brace.
const linger = 100 * time.Millisecond

// Close ends the answer. Before its end that is the client leaving.
func (s *stream) Close() error {
	s.mu.Lock()
	read, over := s.err != nil, !s.events || finished(string(s.tail))
	fault := s.fault()
	first := !s.closed
	s.closed = true
	if s.err == nil {
		s.err = http.ErrBodyReadAfterClose
	}
	s.mu.Unlock()
	if !first {
		return nil
	}
	if !read && (over || fault != nil) {
		late := time.AfterFunc(linger, func() { s.attempt.cancel(errLeft); s.body.Close() })
		n, err := io.Copy(io.Discard, io.LimitReader(s.body, 64<<10))
		late.Stop()
		if err == nil && n < 64<<10 || s.events {
			s.attempt.settle(fault)
		}
	}
	err := s.body.Close()
	s.attempt.settle(errLeft)
	return err
}

// finished reports whether an event stream has said all it has to say.
func finished(tail string) bool {
	return strings.Contains(tail, "data: [DONE]") || strings.Contains(tail, "data:[DONE]") ||
		strings.Contains(tail, "message_stop") || strings.Contains(tail, "response.completed")
}
