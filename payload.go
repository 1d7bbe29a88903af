package paceline

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
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

// readPayload takes over a request's body. head is its beginning, for the
// dialect to look at.
func readPayload(req *http.Request, most int64) (p *payload, head []byte, err error) {
	if req.Body == nil || req.Body == http.NoBody {
		return &payload{kept: []byte{}}, nil, nil
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
		if head, err = io.ReadAll(io.LimitReader(look, most)); err != nil {
			return nil, nil, fmt.Errorf("paceline: reading the request's body: %w", err)
		}
		return p, head, nil
	}
	read, err := io.ReadAll(io.LimitReader(req.Body, most+1))
	if err != nil {
		req.Body.Close()
		return nil, nil, fmt.Errorf("paceline: reading the request's body: %w", err)
	}
	if int64(len(read)) <= most {
		req.Body.Close()
		p.kept = read
		return p, read, nil
	}
	p.stream = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(read), req.Body), req.Body}
	return p, read, nil
}

// open returns the body for one attempt. It is never nil and never NoBody, by
// which net/http would know that it may repeat the request itself.
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

// close lets go of a body that was never sent.
func (p *payload) close() {
	if p.stream != nil {
		p.stream.Close()
		p.stream = nil
	}
}
