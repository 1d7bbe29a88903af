package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A heartbeat is the ResponseWriter of a stream whose wait is made visible:
// when it has lasted for a while, a 200 and comments go out until the answer
// begins. What comes then instead of a stream is told as an event.
type heartbeat struct {
	j       *journey
	control *http.ResponseController
	header  http.Header // of the answer, until it is known to be sent
	beat    *time.Timer

	mu     sync.Mutex
	w      http.ResponseWriter
	ended  bool // the answer has begun, or there will be none
	early  bool // a 200 has gone out for it
	status int  // of an answer that was no stream, and
	failed *bytes.Buffer
}

// maxFailure bounds the answers that are turned into an event, maxSaid what is
// told of one that is not JSON.
const (
	maxFailure = 64 << 10
	maxSaid    = 1 << 10
)

func newHeartbeat(w http.ResponseWriter, j *journey) *heartbeat {
	h := &heartbeat{j: j, w: w, control: http.NewResponseController(w), header: make(http.Header)}
	// Comments cannot stand in front of a compressed stream.
	j.plain = true
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beat = time.AfterFunc(j.up.StreamHeartbeat, h.tick)
	return h
}

// tick sends a comment.
func (h *heartbeat) tick() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return
	}
	if !h.early {
		h.early = true
		head := h.w.Header()
		head.Set("Content-Type", "text/event-stream")
		head.Set("Cache-Control", "no-cache, no-transform")
		head.Set("X-Accel-Buffering", "no")
		head.Set("X-Paceline-Provider", h.j.up.Name)
		h.w.WriteHeader(http.StatusOK)
	}
	fmt.Fprint(h.w, ": waiting\n\n")
	h.control.Flush()
	h.beat.Reset(h.j.up.StreamHeartbeat)
}

// Header is that of the answer, and of its trailers once it has begun.
func (h *heartbeat) Header() http.Header {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended && h.failed == nil {
		return h.w.Header()
	}
	return h.header
}

// WriteHeader begins the answer.
func (h *heartbeat) WriteHeader(status int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return
	}
	h.ended = true
	h.beat.Stop()
	switch {
	case !h.early:
		head := h.w.Header()
		for name, values := range h.header {
			head[name] = values
		}
		h.w.WriteHeader(status)
	case status != http.StatusOK || !eventStream(h.header):
		h.status, h.failed = status, new(bytes.Buffer)
	}
}

// Write sends what the answer brings, or keeps it for the event.
func (h *heartbeat) Write(p []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	if h.failed != nil {
		h.failed.Write(p[:min(len(p), maxFailure-h.failed.Len())])
		return len(p), nil
	}
	return h.w.Write(p)
}

// FlushError sends what has been written.
func (h *heartbeat) FlushError() error {
	h.mu.Lock()
	begun := h.ended && h.failed == nil
	h.mu.Unlock()
	if !begun {
		return nil
	}
	return h.control.Flush()
}

// Unwrap is for http.ResponseController.
func (h *heartbeat) Unwrap() http.ResponseWriter { return h.w }

// stop ends the answer, with an event where it was none.
func (h *heartbeat) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	h.beat.Stop()
	if h.failed == nil {
		return
	}
	var data bytes.Buffer
	if json.Compact(&data, h.failed.Bytes()) != nil || data.Len() == 0 {
		says := strings.Join(strings.Fields(string(h.failed.Bytes()[:min(h.failed.Len(), maxSaid)])), " ")
		f := &failure{http.StatusBadGateway, "paceline_failed", strings.TrimSuffix(fmt.Sprintf(
			"%s answered %d, and not with a stream: %s", h.j.up.Name, h.status, strings.ToValidUTF8(says, "")), ": ")}
		data.Reset()
		data.Write(f.body(h.j.shape))
	}
	fmt.Fprintf(h.w, "event: error\ndata: %s\n\n", data.Bytes())
	h.control.Flush()
}
