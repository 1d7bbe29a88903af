package stub

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"
)

// deltas is in how many pieces a streamed answer's text comes.
const deltas = 5

// completionTokens is what every answer is said to cost.
const completionTokens = 12

// An api is the shape of one provider's answers and errors.
type api struct {
	// requestID is the name of the header that carries one.
	requestID string
	// failure is the body of an error, and failed the event that ends a stream
	// in one, after so many others.
	failure func(status int, message string) any
	failed  func(status int, message string, after int) event
	// whole is the body of an answer that is not streamed.
	whole func(reply) any
	// start, delta and finish are the events of a streamed answer, and ping is
	// one that says nothing, a comment where it is empty. An API without delta
	// does not stream. nil: there are none.
	start, finish func(reply) []event
	delta         func(r reply, piece int) event
	ping          event
	// streams is true where answers are streamed unless a body says otherwise,
	// model what the path names.
	streams bool
	model   string
	framing framing // of streams
}

// A reply is what an answer says.
type reply struct {
	generation int
	ask        ask
	model      string
	pieces     [deltas]string // joined they are the text
	created    time.Time
}

func (r reply) text() string {
	var text string
	for _, piece := range r.pieces {
		text += piece
	}
	return text
}

// An event is a piece of a stream: its name, where the API names events, and its
// data, which is JSON unless it is a string. Without data it is a comment, where
// the stream can have one.
type event struct {
	name string
	data any
}

// answer writes a generation and says whether the client stayed for it. A
// generation that is cut ends half way, with part of its answer sent.
func (s *Stub) answer(w http.ResponseWriter, r *http.Request, api api, ask ask, v verdict) bool {
	number := strconv.Itoa(v.generation)
	text := reply{
		generation: v.generation,
		ask:        ask,
		model:      ask.model,
		pieces:     [deltas]string{"This ", "is ", "generation ", number, "."},
		created:    v.arrived,
	}
	if text.model == "" || len(text.model) > 256 {
		text.model = Model
	}
	w.Header().Set(api.requestID, requestID(v))
	if ask.stream && api.delta != nil {
		return s.stream(w, r, api, text, v)
	}
	// What ends half way has half of a service.
	if !sleepUntil(r.Context(), v.arrived.Add(v.service)) {
		return false
	}
	s.headBudgets(w.Header(), v, 0)
	if v.fault == FaultLateError {
		fail(w, api, http.StatusOK, overloaded)
		return true
	}
	body := encode(api.whole(text))
	if v.fault != FaultCut {
		respond(w, http.StatusOK, body)
		return true
	}
	head(w, http.StatusOK, "application/json")
	w.Write(body[:len(body)/2])
	flush(w)
	return true
}

// stream sends the head at once, the text in even steps over the service, and
// what ends a stream at its end, each event flushed by itself.
func (s *Stub) stream(w http.ResponseWriter, r *http.Request, api api, text reply, v verdict) bool {
	s.headBudgets(w.Header(), v, onStreams)
	out := api.begin(w)
	flush(w)
	start := 0
	if api.start != nil {
		for _, e := range api.start(text) {
			out.write(e)
			start++
		}
	}
	pieces := deltas
	if v.fault == FaultCut || v.fault == FaultLateError {
		pieces /= 2
	}
	said := v.arrived
	for i := range pieces {
		// Each by its own instant, so that a slow writer shifts none.
		at := v.arrived.Add(v.service * time.Duration(i+1) / time.Duration(pieces))
		for s.config.Ping > 0 && said.Add(s.config.Ping).Before(at) {
			said = said.Add(s.config.Ping)
			if !sleepUntil(r.Context(), said) {
				return false
			}
			out.write(api.ping)
		}
		if !sleepUntil(r.Context(), at) {
			return false
		}
		said = at
		out.write(api.delta(text, i))
	}
	switch v.fault {
	case FaultCut:
	case FaultLateError:
		out.write(api.failed(statusOverloaded, overloaded, start+pieces))
		out.end()
	default:
		for _, e := range api.finish(text) {
			out.write(e)
		}
		out.end()
	}
	return true
}

// failInside answers with an error that nothing but the body tells of.
func (s *Stub) failInside(w http.ResponseWriter, api api, ask ask, v verdict) {
	w.Header().Set(api.requestID, requestID(v))
	s.headBudgets(w.Header(), v, 0)
	if !ask.stream || api.delta == nil {
		respond(w, http.StatusOK, encode(api.failure(statusOverloaded, overloaded)))
		return
	}
	out := api.begin(w)
	out.write(api.failed(statusOverloaded, overloaded, 0))
	out.end()
}

// refuse answers a request that is not served.
func (s *Stub) refuse(w http.ResponseWriter, api api, v verdict) {
	h := w.Header()
	h.Set(api.requestID, requestID(v))
	setRetryAfter(h, v.arrived, v.wait, v.tells)
	s.headBudgets(h, v, onRefusals)
	maps.Copy(h, v.extra)
	if v.body != "" {
		respond(w, v.status, []byte(v.body))
		return
	}
	fail(w, api, v.status, v.message)
}

// models lists the one model there is.
func (s *Stub) models(w http.ResponseWriter, r *http.Request, _ api) {
	if r.Header.Get("Anthropic-Version") != "" {
		respond(w, http.StatusOK, encode(fields{
			"data":     []any{fields{"type": "model", "id": Model, "display_name": Model, "created_at": "1970-01-01T00:00:00Z"}},
			"has_more": false, "first_id": Model, "last_id": Model,
		}))
		return
	}
	respond(w, http.StatusOK, encode(fields{
		"object": "list",
		"data":   []any{fields{"id": Model, "object": "model", "created": 0, "owned_by": "stub"}},
	}))
}

// countTokens says what the input of a message would cost.
func (s *Stub) countTokens(w http.ResponseWriter, r *http.Request, api api) {
	ask, err := readAsk(r, api, false)
	if err != nil {
		fail(w, api, http.StatusBadRequest, fmt.Sprintf("reading the body: %v", err))
		return
	}
	respond(w, http.StatusOK, encode(fields{"input_tokens": ask.tokens()}))
}

func requestID(v verdict) string { return "req_stub_" + strconv.Itoa(v.request) }

// fail answers with an error in an API's shape.
func fail(w http.ResponseWriter, api api, status int, message string) {
	respond(w, status, encode(api.failure(status, message)))
}

// respond writes a whole answer of JSON.
func respond(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	head(w, status, "application/json")
	// A client that does not read it is told by its request's context.
	w.Write(body)
}

// head writes the head of an answer. The date is set here and not left to the
// server, so that it is the same clock over a socket and without one.
func head(w http.ResponseWriter, status int, contentType string) {
	h := w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", contentType)
	}
	if h.Get("Date") == "" {
		h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	}
	w.WriteHeader(status)
}

// flush is a wish: a writer that cannot flush sends when it likes.
func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

func encode(v any) []byte {
	// Maps of strings, numbers and the like always encode.
	body, _ := json.Marshal(v)
	return body
}
