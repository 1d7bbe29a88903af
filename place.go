package paceline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"slices"
	"sync"
	"time"
)

// A Place is a place in line that outlives the connection of its request. It
// says nothing of the request but whether another is the same.
type Place struct {
	// Request tells a request of one client, path, model and body from others.
	Request string `json:"request"`
	// Arrived is when the request first came, Until when its place is lost.
	Arrived time.Time `json:"arrived"`
	Until   time.Time `json:"until"`
}

// Drain ends the waiting: requests that wait, and those that come, are answered
// 503 with Retry-After: 1 and X-Should-Retry: true, and keep their places for
// Queue.Keep. When it returns nobody waits any more and nothing is granted any
// more; what was granted before goes on. What has been learned is in the Store.
func (t *Transport) Drain() {
	t.once.Do(t.init)
	<-t.room.drain()
	t.home.book.Flush(time.Now())
}

// Flush waits until a Limiter that several hosts share has been told which
// places are free again. It is for a program that is about to end; one whose
// Limiter is in memory has nothing to wait for.
func (t *Transport) Flush(ctx context.Context) {
	t.once.Do(t.init)
	t.home.gate.Flush(ctx)
}

// Places returns the kept places, for the successor of a drained process.
func (t *Transport) Places() []Place {
	return t.room.list(time.Now())
}

// Restore takes over the places of a predecessor.
func (t *Transport) Restore(places []Place) {
	for _, p := range places {
		t.room.keep(p, time.Now())
	}
}

// A room is who is in line, and the places of those who have left it.
type room struct {
	mu     sync.Mutex
	inside int
	// draining is closed when the waiting is to end, and empty when it has.
	draining, empty chan struct{}
	kept            map[string][]Place // by request, in the order they came
	n               int
	sweepAt         int
	swept           time.Time
}

// mostPlaces bounds what clients that come and go can make us remember.
const mostPlaces = 1 << 16

// enter lets a request in, unless the waiting is to end. stop is closed when
// that comes while it waits.
func (r *room) enter() (stop <-chan struct{}, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.empty != nil {
		return nil, false
	}
	if r.draining == nil {
		r.draining = make(chan struct{})
	}
	r.inside++
	return r.draining, true
}

func (r *room) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inside--; r.inside == 0 && r.empty != nil {
		close(r.empty)
	}
}

// drain ends the waiting. What it returns is closed when it has ended.
func (r *room) drain() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.empty == nil {
		r.empty = make(chan struct{})
		if r.draining != nil {
			close(r.draining)
		}
		if r.inside == 0 {
			close(r.empty)
		}
	}
	return r.empty
}

// keep remembers a place. Where too many are kept it is lost.
func (r *room) keep(p Place, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n >= r.sweepAt || r.n >= mostPlaces && now.Sub(r.swept) >= time.Second {
		r.sweep(now)
	}
	if r.n >= mostPlaces || !p.Until.After(now) {
		return
	}
	if r.kept == nil {
		r.kept = make(map[string][]Place)
	}
	ps := r.kept[p.Request]
	i, _ := slices.BinarySearchFunc(ps, p, func(a, b Place) int { return a.Arrived.Compare(b.Arrived) })
	r.kept[p.Request] = slices.Insert(ps, i, p)
	r.n++
}

// sweep forgets the places that are lost.
func (r *room) sweep(now time.Time) {
	r.n = 0
	for request, ps := range r.kept {
		ps = slices.DeleteFunc(ps, func(p Place) bool { return !p.Until.After(now) })
		if r.n += len(ps); len(ps) == 0 {
			delete(r.kept, request)
		} else {
			r.kept[request] = ps
		}
	}
	r.sweepAt, r.swept = max(64, 2*r.n), now
}

// take gives out the place of a request that came first.
func (r *room) take(request string, now time.Time) (p Place, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.kept[request]) > 0 && !ok {
		ps := r.kept[request]
		p, ok = ps[0], ps[0].Until.After(now)
		if r.n--; len(ps) == 1 {
			delete(r.kept, request)
		} else {
			r.kept[request] = ps[1:]
		}
	}
	return p, ok
}

func (r *room) list(now time.Time) (places []Place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweep(now)
	for _, ps := range r.kept {
		places = append(places, ps...)
	}
	slices.SortFunc(places, func(a, b Place) int { return a.Arrived.Compare(b.Arrived) })
	return places
}

func (r *room) hasPlaces() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n > 0
}

// request tells the call's request from others, empty where it cannot.
func (c *call) request() string {
	h := sha256.New()
	for _, s := range []string{c.manners.client, c.req.Method, c.req.URL.Path, c.demand.Model} {
		io.WriteString(h, s)
		h.Write([]byte{0})
	}
	if !c.payload.copyTo(h) {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// takePlace gives the call the place it has left before.
func (c *call) takePlace() {
	room := &c.transport.room
	if c.transport.Queue.Keep <= 0 || !room.hasPlaces() {
		return
	}
	if p, ok := room.take(c.request(), c.arrived); ok && p.Arrived.Before(c.first) {
		c.first = p.Arrived
	}
}

// keepPlace lets the place of a call that leaves the line outlive it.
func (c *call) keepPlace() {
	keep := c.transport.Queue.Keep
	if keep <= 0 {
		return
	}
	if request := c.request(); request != "" {
		now := time.Now()
		c.transport.room.keep(Place{Request: request, Arrived: c.first, Until: now.Add(keep)}, now)
	}
}
