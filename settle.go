package paceline

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/paceline-proxy/paceline/budget"
	"github.com/paceline-proxy/paceline/dialect"
)

// settle ends the attempt: it releases the permit, or holds it for a while
// where the provider works on, and writes the record. cause is nil where the
// answer was read to its end.
func (a *attempt) settle(cause error) {
	a.settled.Do(func() {
		if stop := a.unwatch.Load(); stop != nil {
			(*stop)() // or a goroutine would come to see that this is done
		}
		a.cancel(context.Canceled)
		a.alarms.stop()
		r := &a.record
		r.Done = time.Now()
		b := a.observer.end()
		r.InTokens, r.OutTokens = b.usage.Input, b.usage.Output
		running := false
		switch {
		case cause == nil:
		case errors.Is(cause, errCapped), errors.Is(cause, errNoHead):
			r.Status, r.Timeout, running = http.StatusGatewayTimeout, true, true
			r.Error = cause.Error()
		case errors.Is(cause, errLeft):
			r.Status, r.Aborted, running = statusClientLeft, true, !a.unconnected.Load()
		default:
			r.Error = a.call.redacted(cause.Error())
		}
		charge := a.cost(b, cause)
		if cause == nil {
			a.calibrate(b, charge)
		}
		a.release(running, charge)
		if a.call.kind != dialect.Catalog {
			a.call.transport.log(*r)
		}
	})
}

// errLeft is the cause of an attempt whose client left after it was sent.
var errLeft = errors.New("the client left")

// release settles what the attempt has cost and gives its places back, at once
// or, where the provider is still working for it, after the entry's AbortHold.
func (a *attempt) release(running bool, charge budget.Charge) {
	c := a.call
	if c.kind == dialect.Catalog {
		return
	}
	hold := c.entry.AbortHold
	held := running && hold > 0 && a.grant.Permit != ""
	a.settleCost(charge, held)
	if !held {
		a.free()
		return
	}
	key := c.name // it may be another when the place is given back
	c.home.holdPlaces(key, 1)
	time.AfterFunc(hold, func() {
		c.home.holdPlaces(key, -1)
		a.free()
	})
}

func (a *attempt) free() {
	a.call.home.gate.Release(a.grant, a.reading.Class != dialect.RateLimited)
}

// discard settles an attempt that is followed by another.
func (a *attempt) discard() {
	if a.res != nil {
		a.res.Body.Close()
	}
	a.settle(a.cause())
}

// cause is what ended an attempt without a head, nil where there was one.
func (a *attempt) cause() error {
	switch {
	case a.left:
		return errLeft
	case a.failure == capped:
		return errCapped
	case a.failure == noHead:
		return errNoHead
	case a.err != nil:
		return a.err
	}
	return nil
}
