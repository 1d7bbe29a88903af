// Package stub is a stand-in for a model provider, with meters that are real:
// it counts, refuses, tells waits and budgets, and breaks on demand, the way
// providers do. Tests, the demo and `paceline stub` are built on it.
//
// A [Stub] is an [http.Handler], for a server on a real socket, and an
// [http.RoundTripper] that needs none: there the handler runs in a goroutine
// of the caller and the body comes through memory. With nothing but timers and
// channels to wait for, a test inside a testing/synctest bubble sees every
// refusal and every streamed event at its exact instant, and an hour of
// traffic takes no time.
//
// # What it serves
//
// POST /v1/chat/completions, /v1/responses and /v1/messages generate; they are
// metered, and answer in the shape of their API, as JSON or, where the body
// says "stream": true, as server-sent events. So are POST /v1/embeddings, which
// does not stream, and the own APIs of Cohere (/v2/chat), Ollama (/api/chat) and
// Gemini (/v1beta/models/MODEL:generateContent and :streamGenerateContent), which
// stream as theirs do. POST /v1/messages/count_tokens counts, GET /v1/models lists
// one model, HEAD / says that somebody is there and GET /_stub answers
// [Counts]; none of these is metered. The prefix /v1 may be left out.
// Everything else is 404, in JSON.
//
// # The life of a request
//
// Its body is read, it is in transit for a while ([Config.Jitter]), then it
// arrives: the script or the meters decide, at one instant, and that instant
// is what the package calls its arrival. A request that every meter admits
// takes a place until its generation is over ([Config.Service]).
package stub

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Model is the one model a stub lists, and the name it answers with when a
// request names none.
const Model = "stub-1"

// A Stub is one stand-in provider with one API key: all who ask it spend from
// the same meters. Make it with [New]. Its methods may be called at the same
// time.
//
// It starts no goroutine of its own and makes no timer or channel outside the
// requests it serves, so one made outside a synctest bubble works inside it.
// What it remembers is bounded, however long it runs.
type Stub struct {
	config Config

	// mu guards everything below and is never held across a wait.
	mu        sync.Mutex
	transit   *rand.Rand
	service   *rand.Rand
	luck      *rand.Rand
	meters    []meter
	units     []Unit // of the meters
	spans     []time.Duration
	dues      []due // in order
	other     burst
	nextOther time.Time // zero before the first request
	places    places
	step      int // of the script
	requests  int // generation requests that arrived, and so request ids
	generated int // generations begun
	told      told
	repeats   repeats
	peak      peakWindow
	arrivals  arrivals
	counts    Counts
}

// New returns a stub for the configuration. Its error joins everything that is
// wrong with it.
func New(c Config) (*Stub, error) {
	// The stub outlives the call; what its caller does with the slices
	// afterwards is not its business.
	c = c.clone()
	if err := c.validate(); err != nil {
		return nil, err
	}
	s := &Stub{config: c}
	// One sequence for each use, so that switching on one kind of chance does
	// not change what another draws.
	s.transit = rand.New(rand.NewPCG(c.Seed, 1))
	s.service = rand.New(rand.NewPCG(c.Seed, 2))
	s.luck = rand.New(rand.NewPCG(c.Seed, 3))
	s.places.limit = c.places()
	for _, m := range c.Meters {
		if m.counts() {
			s.meters = append(s.meters, m.build())
			s.units = append(s.units, m.unit())
			s.spans = append(s.spans, m.per())
		}
	}
	s.peak.per = c.window()
	s.other = s.burst()
	return s, nil
}

// ServeHTTP serves the paths in the package comment. It panics with
// [http.ErrAbortHandler] to drop a connection, which is how a handler asks the
// server for that: middleware that recovers must let it pass.
func (s *Stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	api, method := openAI, http.MethodPost
	serve := s.generate
	switch path := strings.TrimPrefix(r.URL.Path, "/v1"); path {
	case "/chat/completions":
	case "/responses":
		api = responses
	case "/embeddings":
		api = embeddings
	case "/messages":
		api = anthropic
	case "/v2/chat":
		api = cohere
	case "/api/chat":
		api = ollama
	case "/messages/count_tokens":
		api, serve = anthropic, s.countTokens
	case "", "/":
		method, serve = http.MethodHead, s.present
	case "/models":
		method, serve = http.MethodGet, s.models
	case "/_stub":
		method, serve = http.MethodGet, s.evidence
	default:
		of, ok := geminiPath(r)
		if !ok {
			fail(w, api, http.StatusNotFound, "there is nothing at "+r.URL.Path)
			return
		}
		api = of
	}
	if r.Header.Get("Upgrade") != "" {
		w.Header().Set("Upgrade", "HTTP/1.1")
		fail(w, api, http.StatusUpgradeRequired, r.URL.Path+" takes requests over HTTP, not over a WebSocket")
		return
	}
	if r.Method != method {
		w.Header().Set("Allow", method)
		fail(w, api, http.StatusMethodNotAllowed, r.URL.Path+" takes "+method)
		return
	}
	serve(w, r, api)
}

// generate is the life of one metered request.
func (s *Stub) generate(w http.ResponseWriter, r *http.Request, api api) {
	sent := time.Now()
	ask, err := readAsk(r, api, s.config.TrackRepeats)
	switch {
	case err == nil:
	case r.Context().Err() != nil:
		s.leave(nil)
		return
	case errors.Is(err, errTooLarge):
		// The rest of the body is still on its way; reading on to keep the
		// connection would be the unbounded work this refuses.
		w.Header().Set("Connection", "close")
		fail(w, api, http.StatusRequestEntityTooLarge, err.Error())
		return
	default:
		fail(w, api, http.StatusBadRequest, fmt.Sprintf("reading the body: %v", err))
		return
	}
	chance := s.draw()
	if !sleepUntil(r.Context(), sent.Add(chance.transit)) {
		s.leave(nil)
		return
	}
	v := s.arrive(sent, ask, chance)
	if v.answered() {
		s.refuse(w, api, v)
		return
	}
	switch v.fault {
	case FaultReset:
		panic(http.ErrAbortHandler)
	case FaultError:
		s.failInside(w, api, ask, v)
		return
	case FaultSilence:
		<-r.Context().Done()
		s.leave(v.place)
		return
	}
	if !s.answer(w, r, api, ask, v) {
		s.leave(v.place)
		return
	}
	if v.fault == FaultCut {
		panic(http.ErrAbortHandler)
	}
}

// present answers the first thing that Claude Code asks.
func (s *Stub) present(w http.ResponseWriter, _ *http.Request, _ api) {
	head(w, http.StatusOK, "application/json")
}

// A chance is what one request drew.
type chance struct {
	transit, service time.Duration
	luck             []float64 // one for each fault
}

// draw takes all of a request's random numbers at once, when it enters.
func (s *Stub) draw() chance {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := chance{
		transit: within(s.transit, s.config.Jitter),
		service: s.config.Service + within(s.service, s.config.ServiceSpread),
	}
	for range s.config.Faults {
		c.luck = append(c.luck, s.luck.Float64())
	}
	return c
}

// within draws from [0, d).
func within(r *rand.Rand, d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(r.Int64N(int64(d)))
}
