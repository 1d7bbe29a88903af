package paceline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/paceline-proxy/paceline/budget"
	"github.com/paceline-proxy/paceline/dialect"
)

// A Turn is the leave to make one request that the Transport does not send: a
// client that cannot be given an http.RoundTripper asks for one before each
// request, its repeats included, and says with Done what came of it. The request
// has counted and holds its places meanwhile, as one that RoundTrip sends.
type Turn struct {
	attempt *attempt
	ended   sync.Once
	stop    func() bool
}

// Turn stands in line for a request that its caller sends itself. The request
// says where it goes, as whom, and what it asks, as for RoundTrip; what it costs
// is about so many tokens of input and output, where they are not 0. Its context
// ends the waiting, and nothing later.
//
// A request that may not be sent is a *[gate.Refused]: its Until is when to ask
// again. Nothing is logged of it.
func (t *Transport) Turn(req *http.Request, input, output int) (*Turn, error) {
	c, err := t.newCall(req)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if input > 0 {
		c.demand.Input = input
	}
	if output > 0 {
		c.demand.Output = output
	}
	grant, err := c.enter()
	if err != nil {
		return nil, err
	}
	c.ctx = context.WithoutCancel(c.ctx)
	a := c.begin(grant)
	turn := &Turn{attempt: a}
	turn.stop = context.AfterFunc(a.ctx, func() { turn.end(func() { a.settle(a.cutBy()) }) })
	return turn, nil
}

// Credential is the name of the configured credential that the request is to be
// made with, empty where it brings its own.
func (t *Turn) Credential() string {
	if k := t.attempt.call.with; k != nil {
		return k.Name
	}
	return ""
}

// end ends the turn, once.
func (t *Turn) end(how func()) (first bool) {
	t.ended.Do(func() { first = true; how() })
	return first
}

// Done says what sending came to, as RoundTrip would have returned it: the
// response, whose body is read as far as that teaches something, or an error.
// Everyone on the key learns from it. It reports whether the turn was still the
// caller's.
func (t *Turn) Done(res *http.Response, err error) bool {
	return t.end(func() {
		t.stop()
		a := t.attempt
		a.receive(res, err)
		a.learned()
		if res, err := a.respond(true); err == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxRefusalBody)) // a body that breaks off has said what it could
			res.Body.Close()
		}
	})
}

// Unused says that the request was not sent after all. It reports whether the
// turn was still the caller's. What was counted stays counted.
func (t *Turn) Unused() bool {
	return t.end(func() {
		t.stop()
		a := t.attempt
		a.err, a.failure = errUnused, unsendable
		a.learned()
		_, _ = a.respond(true) // which is errUnused
	})
}

var errUnused = errors.New("the request was not sent after all")

// Abandon gives up a turn of which nobody says what came: the provider may be
// working on it, so its places stay taken for the entry's AbortHold.
func (t *Turn) Abandon() { t.attempt.cancel(errLeft) }

// Throttle closes the key under which a request would be made until a wait that
// its provider has stated is over. The request is not sent.
func (t *Transport) Throttle(req *http.Request, until time.Time) error {
	now := time.Now()
	if until.Sub(now) > dialect.MaxWait {
		return fmt.Errorf("paceline: a wait of more than %v is a mistake", dialect.MaxWait)
	}
	c, err := t.newCall(req)
	if err != nil {
		return err
	}
	defer c.close()
	if !until.After(now) || c.unheeded() {
		return nil
	}
	if c.choices != nil {
		return errors.New("paceline: the provider has several keys: which of them is to wait is told by the turn that was refused")
	}
	c.caller.Use(now, func(s *budget.State, _ *budget.Starts) bool {
		return s.Close(now, until, budget.RateLimit, budget.Told)
	})
	err = c.home.gate.Throttle(context.WithoutCancel(c.ctx), c.name, until)
	c.home.gate.Wake(c.name)
	if err != nil {
		return fmt.Errorf("paceline: %w", err)
	}
	return nil
}
