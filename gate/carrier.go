package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

const (
	// mostTogether bounds the requests that are asked for in one call.
	mostTogether = 64
	// overdue is for how long a call holds up those who come after it.
	overdue = 100 * time.Millisecond
	// longestCall ends a call of a limiter that does not end it by itself.
	longestCall = 10 * time.Second
)

// A carrier takes requests to a limiter that answers several in one go, as
// shared ones do in one round trip. A lone load goes at once; those that meet
// while a call is under way travel together in the next, which goes when that
// has come back or there is no room in it for more.
type carrier struct {
	limiter limiter.Batcher

	mu      sync.Mutex
	waiting []load
	under   *call       // the call that those wait for, nil for none
	alarm   *time.Timer // when they wait no longer
}

// A load is requests of one line, in order, which travel together.
type load struct {
	requests []limiter.Request
	// arrived is given an answer to each, or an error.
	arrived func([]limiter.Decision, error)
}

// A call is loads that have left together.
type call struct{ loads []load }

// take takes a load to the limiter. It does not wait.
func (c *carrier) take(l load) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, l)
	_, full := c.together()
	switch {
	case c.under == nil || full:
		c.depart()
	case c.alarm == nil:
		c.alarm = time.AfterFunc(overdue, func() { c.next(nil) })
	}
}

// next lets those go who have waited for a call; nil is any, since it is
// overdue.
func (c *carrier) next(ended *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ended == nil || c.under == ended {
		c.under = nil
		c.depart()
	}
}

// depart starts a call for those who wait, as many as go together. The lock is
// held.
func (c *carrier) depart() {
	if c.alarm != nil {
		c.alarm.Stop()
		c.alarm = nil
	}
	n, _ := c.together()
	if n == 0 {
		return
	}
	c.under = &call{c.waiting[:n:n]}
	if c.waiting = c.waiting[n:]; len(c.waiting) > 0 {
		c.alarm = time.AfterFunc(overdue, func() { c.next(nil) })
	}
	go c.carry(c.under)
}

// together is how many of those who wait go together, and whether that leaves no
// room for more. The lock is held.
func (c *carrier) together() (n int, full bool) {
	requests := 0
	for _, l := range c.waiting {
		if requests += len(l.requests); n > 0 && requests > mostTogether {
			return n, true
		}
		n++
	}
	return n, requests >= mostTogether
}

// carry makes a call, lets the next one go, and hands out the answers.
func (c *carrier) carry(under *call) {
	answers, err := c.ask(under.loads...)
	c.next(under)
	alone := errors.Is(err, limiter.ErrInvalid) && len(under.loads) > 1
	for _, l := range under.loads {
		n := len(l.requests)
		switch {
		case alone: // nothing was counted, and only one of them need be to blame
			l.arrived(c.ask(l))
		case err != nil:
			l.arrived(nil, err)
		default:
			l.arrived(answers[:n:n], nil)
			answers = answers[n:]
		}
	}
}

// ask puts the requests of some loads. Whoever leaves meanwhile does not end the
// call for the others.
func (c *carrier) ask(loads ...load) ([]limiter.Decision, error) {
	requests := slices.Clip(loads[0].requests)
	for _, l := range loads[1:] {
		requests = append(requests, l.requests...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), longestCall)
	defer cancel()
	answers, err := c.limiter.AcquireBatch(ctx, requests)
	if err == nil && len(answers) != len(requests) {
		err = fmt.Errorf("it gave %d answers to %d requests", len(answers), len(requests))
	}
	return answers, err
}
