package paceline

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/paceline-proxy/paceline/dialect"
)

// defaultMaxReplay bounds the request bodies kept for a repeat.
const defaultMaxReplay = 32 << 20

// A payload is a request's body, which knows whether it can be sent again.
type payload struct {
	kept   []byte                        // the whole body, where it is kept
	again  func() (io.ReadCloser, error) // the request's GetBody
	stream io.ReadCloser                 // a body too large to keep: sent once
	length int64
}

// empty is the body of a request without one. It is neither nil nor NoBody, by
// which net/http would know that it may repeat the request itself.
type empty struct{}

func (empty) Read([]byte) (int, error) { return 0, io.EOF }
func (empty) Close() error             { return nil }

// remodel has the body ask for the model that the call's Route names.
func (c *call) remodel(head []byte) ([]byte, error) {
	if c.model == "" || c.kind != dialect.Inference {
		return head, nil
	}
	with, ok := dialect.SetModel(head, c.model)
	if !ok {
		return nil, fmt.Errorf("paceline: Route asks for model %q, and the request's body names none to replace: it must be JSON with a \"model\"", c.model)
	}
	c.payload.replace(head, with)
	return with, nil
}

// readPayload takes over a request's body. head is its beginning, for the
// dialect to look at.
func readPayload(req *http.Request, most int64) (p *payload, head []byte, err error) {
	if req.Body == nil || req.Body == http.NoBody {
		none := io.ReadCloser(empty{})
		if !replayed(req) {
			// net/http repeats these only where nothing was written, and writes
			// a length for them: not every server takes an empty chunked body.
			none = http.NoBody
		}
		return &payload{again: func() (io.ReadCloser, error) { return none, nil }}, nil, nil
	}
	p = &payload{again: req.GetBody, length: req.ContentLength}
	if p.again != nil {
		// It can be had again whatever its size: look at it and let it go.
		defer req.Body.Close()
		look, err := p.again()
		if err != nil {
			return nil, nil, fmt.Errorf("paceline: reading the request's body: %w", err)
		}
		defer look.Close()
		var buf bytes.Buffer
		buf.Grow(int(max(0, min(req.ContentLength, most, defaultMaxReplay))) + bytes.MinRead)
		if _, err := buf.ReadFrom(io.LimitReader(look, most)); err != nil {
			return nil, nil, fmt.Errorf("paceline: reading the request's body: %w", err)
		}
		return p, buf.Bytes(), nil
	}
	// A body that does not come is given up with the request's context.
	ctx := req.Context()
	stop := context.AfterFunc(ctx, func() { req.Body.Close() })
	defer stop()
	read, err := readAll(io.LimitReader(req.Body, most+1), req.ContentLength)
	if ctx.Err() != nil {
		req.Body.Close()
		return nil, nil, ctx.Err()
	}
	if err != nil {
		req.Body.Close()
		return nil, nil, fmt.Errorf("paceline: reading the request's body: %w", err)
	}
	if int64(len(read)) <= most {
		req.Body.Close()
		if req.ContentLength > 0 && req.ContentLength != int64(len(read)) {
			return nil, nil, fmt.Errorf("paceline: the request says ContentLength %d and its body has %d bytes", req.ContentLength, len(read))
		}
		p.kept = read
		return p, read, nil
	}
	p.stream = prefixed(read, req.Body)
	return p, read, nil
}

// readAll reads to the end of what is said to be so long, or a negative number
// where nobody knows.
func readAll(r io.Reader, length int64) ([]byte, error) {
	// What is only said takes no more memory than this.
	const most = 64 << 10
	// With a byte more the end shows without another buffer.
	read := bytes.NewBuffer(make([]byte, 0, min(max(0, length), most)+bytes.MinRead))
	_, err := read.ReadFrom(r)
	return read.Bytes(), err
}

// replayed reports whether net/http by itself repeats requests like this one
// on another connection after one that it has written.
func replayed(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return req.Header["Idempotency-Key"] != nil || req.Header["X-Idempotency-Key"] != nil
}

// replace has the body begin with other bytes than its head.
func (p *payload) replace(head, with []byte) {
	whole := p.stream == nil && (p.kept != nil || int64(len(head)) == p.length)
	if p.length > 0 { // else nobody knows it
		p.length += int64(len(with) - len(head))
	}
	switch {
	case whole:
		p.kept, p.again = with, nil
	case p.again != nil:
		again := p.again
		p.again = func() (io.ReadCloser, error) {
			body, err := again()
			if err != nil {
				return nil, err
			}
			return spliced(body, len(head), with)
		}
	default:
		// Its head is in memory, so that nothing fails.
		p.stream, _ = spliced(p.stream, len(head), with)
	}
}

// spliced is a body with other bytes in place of its first n.
func spliced(body io.ReadCloser, n int, with []byte) (io.ReadCloser, error) {
	if _, err := io.CopyN(io.Discard, body, int64(n)); err != nil {
		body.Close()
		return nil, err
	}
	return prefixed(with, body), nil
}

// prefixed is a body with bytes before it.
func prefixed(with []byte, body io.ReadCloser) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(with), body), body}
}

// open returns the body for one attempt.
func (p *payload) open() (io.ReadCloser, int64, error) {
	switch {
	case p.stream != nil:
		s := p.stream
		p.stream = nil
		return s, p.length, nil
	case p.again != nil:
		b, err := p.again()
		if err != nil {
			return nil, 0, fmt.Errorf("paceline: having the request's body again: %w", err)
		}
		return b, p.length, nil
	case p.kept != nil:
		return io.NopCloser(bytes.NewReader(p.kept)), int64(len(p.kept)), nil
	}
	return nil, 0, fmt.Errorf("paceline: the request's body is larger than MaxReplayBytes and has been sent already")
}

// repeatable reports whether open may be called again.
func (p *payload) repeatable() bool { return p.again != nil || p.kept != nil }

// copyTo writes the body, and reports whether it could do so without losing
// it.
func (p *payload) copyTo(w io.Writer) bool {
	if !p.repeatable() {
		return false
	}
	body, _, err := p.open()
	if err != nil {
		return false
	}
	defer body.Close()
	_, err = io.Copy(w, body)
	return err == nil
}

// close lets go of the body, which is not sent any more.
func (p *payload) close() {
	p.kept = nil
	if p.stream != nil {
		p.stream.Close()
		p.stream = nil
	}
}
