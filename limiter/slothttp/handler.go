package slothttp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"

	"github.com/paceline-proxy/paceline/limiter"
)

// A Handler serves a limiter. It must not be copied after its first request.
//
// It has no use for a web page: requests that name an Origin are refused.
type Handler struct {
	// Limiter is what is served. With it the slot is open from the start.
	Limiter limiter.Limiter
	// Secret is what callers must show. Empty: none.
	Secret string
	// Open makes the limiter of the settings that open brings, where there is
	// no Limiter. An error that wraps limiter.ErrInvalid blames the settings.
	// What it makes is closed by close, if it is an io.Closer.
	Open func(ctx context.Context, settings map[string]string) (limiter.Limiter, error)
	// Logger gets the errors of the limiter. nil is silence.
	Logger *slog.Logger

	mu       sync.RWMutex // held for reading while the limiter is used
	opened   limiter.Limiter
	settings map[string]string
	closed   bool
}

// mostBytes bounds what is read of a request, and of an answer.
const mostBytes = 4 << 20

// ServeHTTP answers one call.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Header.Get("Origin") != "":
		http.Error(w, "no web page has business here", http.StatusForbidden)
		return
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/health"):
		write(w, answer{OK: true, Result: struct{}{}})
		return
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "calls are POSTed, and GET /health answers", http.StatusMethodNotAllowed)
		return
	case !h.authorized(r):
		write(w, refuse(&callError{Unauthorized, errors.New("show the secret as Authorization: Bearer SECRET")}))
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBytes))
	if err != nil {
		status := http.StatusBadRequest
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, "the call cannot be read: "+err.Error(), status)
		return
	}
	var c map[string]json.RawMessage
	if err := json.Unmarshal(body, &c); err != nil || c == nil {
		http.Error(w, `the call is no JSON object: POST {"protocolVersion": "2", "method": …, "params": {…}}`, http.StatusBadRequest)
		return
	}
	result, err := h.answer(r.Context(), c)
	if err != nil {
		write(w, refuse(h.blame(err)))
		return
	}
	write(w, answer{OK: true, Result: result})
}

// authorized compares secrets in a time that tells nothing of them.
func (h *Handler) authorized(r *http.Request) bool {
	if h.Secret == "" {
		return true
	}
	shown, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	a, b := sha256.Sum256([]byte(shown)), sha256.Sum256([]byte(h.Secret))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// A callError is an error with its code.
type callError struct {
	code string
	err  error
}

func (e *callError) Error() string { return e.err.Error() }

func invalid(format string, args ...any) error {
	return &callError{InvalidParams, fmt.Errorf(format, args...)}
}

// blame gives an error its code, and logs what is not the caller's doing.
func (h *Handler) blame(err error) *callError {
	if e, ok := errors.AsType[*callError](err); ok {
		return e
	}
	if errors.Is(err, limiter.ErrInvalid) {
		return &callError{InvalidParams, err}
	}
	if h.Logger != nil {
		h.Logger.Warn("the limiter failed", "error", err)
	}
	return &callError{Unavailable, err}
}

func refuse(e *callError) answer {
	says := strings.ReplaceAll(e.Error(), "\n", "; ") // of several errors in one
	return answer{Error: &fault{Code: e.code, Message: says, Retryable: e.code == Unavailable}}
}

func write(w http.ResponseWriter, a answer) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(a); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(b.Bytes()) // whoever does not read it is gone
}

// answer carries out a call.
func (h *Handler) answer(ctx context.Context, c map[string]json.RawMessage) (any, error) {
	var spoken, method string
	if json.Unmarshal(c["protocolVersion"], &spoken) != nil || spoken != version {
		return nil, &callError{UnsupportedVersion, fmt.Errorf(`this is adapter protocol 2: write "protocolVersion": %q`, version)}
	}
	unknown := func() error {
		return &callError{UnknownMethod, fmt.Errorf("there is no method %.40q here", method)}
	}
	if json.Unmarshal(c["method"], &method) != nil {
		return nil, unknown()
	}
	params := c["params"]
	switch method {
	case "open":
		return struct{}{}, h.open(ctx, params)
	case "close":
		return struct{}{}, h.close()
	}
	m, ok := methods[method]
	if !ok {
		return nil, unknown()
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	l := h.current()
	if l == nil {
		return nil, &callError{NotOpen, errors.New("the slot is closed: call open")}
	}
	if params == nil {
		params = json.RawMessage("{}") // which says what is missing
	}
	result, err := m(ctx, l, params)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, unknown()
	}
	return result, err
}

// current is the limiter that is open, or nil.
func (h *Handler) current() limiter.Limiter {
	switch {
	case h.closed:
		return nil
	case h.Limiter != nil:
		return h.Limiter
	}
	return h.opened
}

// open makes sure that there is a limiter of these settings. Calls under way
// end with the one they began with.
func (h *Handler) open(ctx context.Context, params json.RawMessage) error {
	var p openParams
	if params != nil {
		if err := read(params, &p); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.Limiter == nil && (h.opened == nil || !maps.Equal(h.settings, p.Settings)) {
		if h.Open == nil {
			return &callError{Unavailable, errors.New("there is no limiter behind this slot")}
		}
		l, err := h.Open(ctx, p.Settings)
		if err != nil {
			return err
		}
		before := h.opened
		h.opened, h.settings = l, p.Settings
		if err := end(before); err != nil && h.Logger != nil {
			h.Logger.Warn("the limiter of other settings was not closed cleanly", "error", err)
		}
	}
	h.closed = false
	return nil
}

// close has nothing but open be answered. A Limiter that was given stays as
// it is: it is its owner's.
func (h *Handler) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.opened
	h.opened, h.settings, h.closed = nil, nil, true
	return end(l)
}

// Close ends what open has made. The slot is closed then.
func (h *Handler) Close() error { return h.close() }

func end(l limiter.Limiter) error {
	if c, ok := l.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
