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
	"strconv"
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
		write(w, `{"ok":true,"result":`, nothing)
		return
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "calls are POSTed, and GET /health answers", http.StatusMethodNotAllowed)
		return
	case !h.authorized(r):
		refuse(w, &callError{Unauthorized, errors.New("show the secret as Authorization: Bearer SECRET")})
		return
	}
	body, err := readAll(http.MaxBytesReader(w, r.Body, mostBytes), r.ContentLength)
	if err != nil {
		status := http.StatusBadRequest
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, "the call cannot be read: "+err.Error(), status)
		return
	}
	c := parse(body)
	if !c.is('{') {
		http.Error(w, `the call is no JSON object: POST {"protocolVersion": "2", "method": …, "params": {…}}`, http.StatusBadRequest)
		return
	}
	result, err := h.answer(r.Context(), c)
	if err != nil {
		refuse(w, h.blame(err))
		return
	}
	write(w, `{"ok":true,"result":`, result)
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

func refuse(w http.ResponseWriter, e *callError) {
	says := strings.ReplaceAll(e.Error(), "\n", "; ") // of several errors in one
	b, err := json.Marshal(fault{Code: e.code, Message: says, Retryable: e.code == Unavailable})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	write(w, `{"ok":false,"error":`, b)
}

// write is an answer around what is in it. Whoever does not read it is gone.
func write(w http.ResponseWriter, opening string, b []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	out := append(make([]byte, 0, len(opening)+len(b)+2), opening...)
	out = append(append(out, b...), "}\n"...)
	w.Header().Set("Content-Length", strconv.Itoa(len(out)))
	_, _ = w.Write(out)
}

// readAll reads what is said to be so long; length may be wrong, or -1.
func readAll(r io.Reader, length int64) ([]byte, error) {
	var b bytes.Buffer
	if length > 0 && length <= mostBytes {
		b.Grow(int(length) + bytes.MinRead) // the end is found without growing
	}
	_, err := b.ReadFrom(r)
	return b.Bytes(), err
}

// answer carries out a call.
func (h *Handler) answer(ctx context.Context, c value) (result []byte, err error) {
	var spoken, method string
	params := value("{}") // which says what is missing
	for name, v := range c.fields() {
		switch string(name) {
		case "protocolVersion":
			spoken = v.ifText()
		case "method":
			method = v.ifText()
		case "params":
			params = v
		}
	}
	if spoken != version {
		return nil, &callError{UnsupportedVersion, fmt.Errorf(`this is adapter protocol 2: write "protocolVersion": %q`, version)}
	}
	switch method {
	case "open":
		return nothing, h.open(ctx, params)
	case "close":
		return nothing, h.Close()
	}
	unknown := &callError{UnknownMethod, fmt.Errorf("there is no method %.40q here", method)}
	m, ok := methods[method]
	if !ok {
		return nil, unknown
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	l := h.current()
	if l == nil {
		return nil, &callError{NotOpen, errors.New("the slot is closed: call open")}
	}
	if result, err = m(ctx, l, params); errors.Is(err, errors.ErrUnsupported) {
		return nil, unknown
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
func (h *Handler) open(ctx context.Context, params value) error {
	settings := make(map[string]string)
	var f faults
	f.read(params, nil, field{"settings", false, func(v value, at *path) {
		if !f.object(v, at) {
			return
		}
		for name, v := range v.fields() {
			settings[string(name)] = f.text(v, &path{at, string(name), -1})
		}
	}})
	if err := f.err(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.Limiter == nil && (h.opened == nil || !maps.Equal(h.settings, settings)) {
		if h.Open == nil {
			return &callError{Unavailable, errors.New("there is no limiter behind this slot")}
		}
		l, err := h.Open(ctx, settings)
		if err != nil {
			return err
		}
		before := h.opened
		h.opened, h.settings = l, settings
		if err := closeIt(before); err != nil && h.Logger != nil {
			h.Logger.Warn("the limiter of other settings was not closed cleanly", "error", err)
		}
	}
	h.closed = false
	return nil
}

// Close closes the slot, as close does: nothing but open is answered then. What
// open has made ends; a Limiter that was given stays as it is: it is its owner's.
func (h *Handler) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.opened
	h.opened, h.settings, h.closed = nil, nil, true
	return closeIt(l)
}

func closeIt(l limiter.Limiter) error {
	if c, ok := l.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
