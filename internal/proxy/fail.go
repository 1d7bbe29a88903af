package proxy

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// A failure is an answer of the proxy's own.
type failure struct {
	status  int
	code    string // paceline_…
	message string // what is wrong, and what to do
}

// kindOf is the type of error that OpenAI and Anthropic use for a status, or
// the status that Google does.
func kindOf(status int, s shape) string {
	if s == gemini {
		switch status {
		case http.StatusUnauthorized:
			return "UNAUTHENTICATED"
		case http.StatusForbidden:
			return "PERMISSION_DENIED"
		case http.StatusNotFound:
			return "NOT_FOUND"
		case http.StatusServiceUnavailable, http.StatusBadGateway:
			return "UNAVAILABLE"
		case http.StatusGatewayTimeout:
			return "DEADLINE_EXCEEDED"
		case http.StatusInternalServerError:
			return "INTERNAL"
		}
		return "INVALID_ARGUMENT"
	}
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusGatewayTimeout:
		return "timeout_error"
	}
	if status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}

// body is the failure as an API writes it.
func (f *failure) body(s shape) []byte {
	var v any
	switch s {
	case anthropic:
		v = map[string]any{"type": "error", "error": map[string]any{"type": kindOf(f.status, s), "message": f.message}}
	case gemini:
		v = map[string]any{"error": map[string]any{"code": f.status, "message": f.message, "status": kindOf(f.status, s)}}
	default:
		v = map[string]any{"error": map[string]any{"message": f.message, "type": kindOf(f.status, s), "param": nil, "code": f.code}}
	}
	b, err := json.Marshal(v)
	if err != nil {
		return []byte("{}") // strings always marshal
	}
	return b
}

// write answers with the failure. No SDK is to repeat it: what was wrong with
// the request still is, and what could be tried again has been.
func (f *failure) write(w http.ResponseWriter, s shape) {
	body := f.body(s)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Should-Retry", "false")
	if f.status == http.StatusUpgradeRequired { // which has to say what to use
		h.Set("Upgrade", "HTTP/1.1")
		h.Set("Connection", "Upgrade")
	}
	w.WriteHeader(f.status)
	w.Write(body)
}

// asked is the shape of errors that a request expects, as far as one can tell
// without a provider.
func asked(r *http.Request) shape {
	switch path := r.URL.Path; {
	case r.Header.Get("Anthropic-Version") != "", strings.HasSuffix(path, "/messages"), strings.Contains(path, "/messages/"):
		return anthropic
	case r.Header.Get("X-Goog-Api-Key") != "", strings.Contains(path, ":generateContent"), strings.Contains(path, ":streamGenerateContent"):
		return gemini
	}
	return openAI
}
