package paceline

import "time"

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
// more; what was granted before goes on.
func (t *Transport) Drain() {}

// Places returns the kept places, for the successor of a drained process.
func (t *Transport) Places() []Place { return nil }

// Restore takes over the places of a predecessor.
func (t *Transport) Restore(places []Place) {}
