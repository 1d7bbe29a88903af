package goodput

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/paceline-proxy/paceline"
)

// processes is how many share one key.
const processes = 8

// Processes are so many of them without a daemon: each has a limiter of its
// own, and all they share is what the provider told them.
var Processes = System{"paceline, 8 processes", true, func(s Scenario, provider http.RoundTripper, _ *rand.Rand) http.RoundTripper {
	store := &shared{states: make(map[string][]byte)}
	all := &inTurn{}
	for range processes {
		t := transport(s, provider, paceline.Limits{})
		t.Store = store
		all.each = append(all.each, t)
	}
	return all
}}

// inTurn gives every process its part of the requests.
type inTurn struct {
	each []*paceline.Transport
	next atomic.Uint64
}

func (p *inTurn) RoundTrip(r *http.Request) (*http.Response, error) {
	return p.each[p.next.Add(1)%uint64(len(p.each))].RoundTrip(r)
}

// shared is a store that all processes have open, without a disk: a file's
// lock would hold up virtual time.
type shared struct {
	mu     sync.Mutex
	states map[string][]byte
}

func (s *shared) Get(_ context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.states[key], nil
}

func (s *shared) Update(_ context.Context, key string, change func([]byte) []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.states[key] = change(s.states[key])
	return nil
}
