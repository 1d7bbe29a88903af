package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// A provider notes what arrives. One answer in twelve is a refusal that tells a
// wait. Like a real one it goes on working for a client that is gone.
type provider struct {
	address string
	server  *http.Server

	mu       sync.Mutex
	rng      *rand.Rand
	arrivals []time.Time
	told     []wait
	kills    []time.Time
	live     int
	peakLive int
}

// A wait that was told.
type wait struct{ at, until time.Time }

func newProvider(seed uint64) (*provider, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &provider{address: l.Addr().String(), rng: rand.New(rand.NewPCG(seed, 1))}
	p.server = &http.Server{Handler: p}
	go p.server.Serve(l)
	return p, nil
}

func (p *provider) close() { p.server.Close() }

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	refused := p.arrive()
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	if refused > 0 {
		w.Header().Set("Retry-After-Ms", strconv.FormatInt(refused.Milliseconds(), 10))
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, `{"error":{"message":"slow down","type":"rate_limit_error"}}`)
		return
	}
	time.Sleep(service)
	p.mu.Lock()
	p.live--
	p.mu.Unlock()
	fmt.Fprint(w, `{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)
}

// arrive notes an arrival and says for how long it is refused; 0: it is not.
func (p *provider) arrive() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.arrivals = append(p.arrivals, now)
	if p.rng.IntN(12) == 0 {
		d := time.Duration(400+p.rng.IntN(1200)) * time.Millisecond
		p.told = append(p.told, wait{now, now.Add(d)})
		return d
	}
	p.live++
	p.peakLive = max(p.peakLive, p.live)
	return 0
}

func (p *provider) killed(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kills = append(p.kills, at)
}

// judge looks through the whole run.
func (p *provider) judge() result {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := result{Arrived: len(p.arrivals), PeakLive: p.peakLive}
	first := 0
	for i, at := range p.arrivals {
		for at.Sub(p.arrivals[first]) >= per {
			first++
		}
		r.PeakWindow = max(r.PeakWindow, i-first+1)
	}
	for _, w := range p.told {
		if p.unread(w) {
			continue
		}
		r.Told++
		for _, at := range p.arrivals {
			if at.After(w.at.Add(onTheWay)) && at.Before(w.until) {
				r.Early++
			}
		}
	}
	return r
}

// unread says whether whom a wait was told to died before it can have read it.
func (p *provider) unread(w wait) bool {
	for _, at := range p.kills {
		if !at.Before(w.at) && at.Before(w.at.Add(onTheWay)) {
			return true
		}
	}
	return false
}
