package stub

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// Counts are what a stub saw over its whole life. The peaks and sums are kept
// as they happen, not worked out from a log, so they cover runs of any length
// in bounded memory.
type Counts struct {
	// Admitted and Refused requests. Scripted answers other than a 429 are
	// neither.
	Admitted int `json:"admitted"`
	Refused  int `json:"refused"`

	// PeakLive is the most requests in service at once, those included whose
	// client had left while their generation went on.
	PeakLive int `json:"peak_live"`

	// PeakWindow is the most requests admitted within any [Config.Window], by
	// their arrival. It is exact up to 65536 arrivals in one window; beyond
	// that arrivals are taken together in steps of a 65536th of the window,
	// and it may be too high by what falls into one step, never too low.
	PeakWindow int `json:"peak_window"`

	// Repeated generations: those begun for a request whose identity had begun
	// one before. The identity is the Idempotency-Key header, else
	// X-Stub-Request, else the body under [Config.TrackRepeats]. The last
	// 65536 identities are remembered.
	Repeated int `json:"repeated"`

	// Early requests were sent after the stub told a wait and arrived before
	// the end of it. On a real socket a refusal takes a moment to reach its
	// client, and what that client sends meanwhile is counted too.
	Early int `json:"early"`

	// Other is how many requests of [Config.Other] were admitted.
	Other int `json:"other,omitempty"`

	// Left is how many clients went away before their answer was complete.
	Left int `json:"left"`
}

// Counts returns what the stub saw so far.
func (s *Stub) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// An Arrival is one generation request, of a client or of [Config.Other], at the instant the script and the
// meters decided over it.
type Arrival struct {
	At       time.Time
	Admitted bool // to generate, whatever fault struck it
	Early    bool // see [Counts]
	Other    bool // of [Config.Other]
	// Charged is what the first meter counted at once for an admitted request,
	// 1 where no meter counts.
	Charged int
}

// maxArrivals is how many arrivals are kept.
const maxArrivals = 1 << 16

// Arrivals returns the last 65536 arrivals, the oldest first.
func (s *Stub) Arrivals() []Arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(slices.Clone(s.arrivals.ring[s.arrivals.oldest:]), s.arrivals.ring[:s.arrivals.oldest]...)
}

type arrivals struct {
	ring   []Arrival
	oldest int
}

func (a *arrivals) add(one Arrival) {
	if len(a.ring) < maxArrivals {
		a.ring = append(a.ring, one)
		return
	}
	a.ring[a.oldest] = one
	a.oldest = (a.oldest + 1) % maxArrivals
}

// repeats remembers the identities of the last maxRepeats requests.
type repeats struct {
	known map[uint64]bool
	order []uint64
	next  int
}

const maxRepeats = 1 << 16

// seen remembers an identity and says whether it knew it.
func (r *repeats) seen(id uint64) bool {
	if r.known[id] {
		return true
	}
	if r.known == nil {
		r.known = make(map[uint64]bool)
	}
	if len(r.order) < maxRepeats {
		r.order = append(r.order, id)
	} else {
		delete(r.known, r.order[r.next])
		r.order[r.next] = id
		r.next = (r.next + 1) % maxRepeats
	}
	r.known[id] = true
	return false
}

// evidence serves the counts.
func (s *Stub) evidence(w http.ResponseWriter, _ *http.Request, _ api) {
	// A struct of numbers always encodes.
	body, _ := json.Marshal(s.Counts())
	respond(w, http.StatusOK, append(body, '\n'))
}
