package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// An errand is what a shared limiter is yet to be told of a grant, which nobody
// waits for. Its fields belong to the gate's lock.
type errand struct {
	running bool
	costs   []limiter.Cost // the latest, nil for none
	less    bool           // they may be less than what was counted
	ends    bool           // the grant is released
}

// Settle says what the request of a grant has cost so far in buckets of tokens,
// where the limiter can settle. Where that may be less than what was counted,
// the lines that may have waited for it are woken.
func (g *Gate) Settle(grant Grant, costs []limiter.Cost, less bool) {
	if _, ok := g.limiter.(limiter.Settler); !ok || grant.Permit == "" || len(costs) == 0 {
		return
	}
	if grant.errand == nil {
		g.settle(grant, costs, less)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	grant.errand.costs, grant.errand.less = costs, grant.errand.less || less
	g.dispatch(grant)
}

// dispatch has somebody run the errand of a grant. The lock is held.
func (g *Gate) dispatch(grant Grant) {
	if e := grant.errand; !e.running {
		e.running = true
		g.inBackground(func() { g.run(grant) })
	}
}

// giveUp has a grant released that nobody has begun. The lock is held.
func (g *Gate) giveUp(grant Grant) {
	if grant.Permit != "" {
		g.inBackground(func() { g.free(grant) })
	}
}

// inBackground does something that Flush waits for. The lock is held.
func (g *Gate) inBackground(do func()) {
	g.errands++
	go func() {
		do()
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.errands--; g.errands == 0 && g.flushed != nil {
			close(g.flushed)
			g.flushed = nil
		}
	}()
}

// Flush waits until a shared limiter has been told of all that was released and
// settled before, once at least.
func (g *Gate) Flush(ctx context.Context) {
	g.mu.Lock()
	if g.errands == 0 {
		g.mu.Unlock()
		return
	}
	if g.flushed == nil {
		g.flushed = make(chan struct{})
	}
	flushed := g.flushed
	g.mu.Unlock()
	select {
	case <-flushed:
	case <-ctx.Done():
	}
}

// run tells the limiter what there is to tell of a grant, in order.
func (g *Gate) run(grant Grant) {
	e := grant.errand
	for {
		g.mu.Lock()
		costs, less := e.costs, e.less
		e.costs, e.less = nil, false
		ends := e.ends
		e.running = costs != nil || ends
		g.mu.Unlock()
		switch {
		case costs != nil:
			g.settle(grant, costs, less)
		case ends:
			g.free(grant)
			return
		default:
			return
		}
	}
}

func (g *Gate) settle(grant Grant, costs []limiter.Cost, less bool) {
	ctx, cancel := g.briefly(context.Background())
	defer cancel()
	err := g.limiter.(limiter.Settler).Settle(ctx, grant.Permit, costs)
	if errors.Is(err, errors.ErrUnsupported) {
		return // what it stands for cannot
	}
	if err != nil {
		grant.fail(fmt.Errorf("settling a cost: %w", err))
		return
	}
	if less {
		g.gaveBack(grant)
	}
}

// How long after a failure a release is repeated: at first, and at most.
const (
	firstAgain = 250 * time.Millisecond
	mostAgain  = 5 * time.Second
)

// free gives back what a grant holds and wakes who may have waited for it.
func (g *Gate) free(grant Grant) {
	if g.tryFree(grant) {
		g.gaveBack(grant)
	}
}

// tryFree gives back what a grant holds. It reports whether that was done; else
// it will be done later.
func (g *Gate) tryFree(grant Grant) bool {
	err := g.release(grant)
	if err != nil {
		grant.fail(err)
		g.freeLater(grant, time.Now().Add(grant.hold), firstAgain)
	}
	return err == nil
}

// freeLater tries again what has failed, until the permit has lapsed by itself.
func (g *Gate) freeLater(grant Grant, lapses time.Time, wait time.Duration) {
	if time.Now().Add(wait).After(lapses) {
		return
	}
	time.AfterFunc(wait, func() {
		if g.release(grant) != nil {
			g.freeLater(grant, lapses, min(2*wait, mostAgain))
			return
		}
		g.gaveBack(grant)
	})
}

func (g *Gate) release(grant Grant) error {
	ctx, cancel := g.briefly(context.Background())
	defer cancel()
	if err := g.limiter.Release(ctx, grant.Permit); err != nil {
		return fmt.Errorf("releasing a permit: %w", err)
	}
	return nil
}

// gaveBack wakes the lines that may have waited for what a grant held.
func (g *Gate) gaveBack(grant Grant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.giveBack(grant, time.Now())
}

// briefly is for calls that end even where the limiter does not end them.
func (g *Gate) briefly(ctx context.Context) (context.Context, context.CancelFunc) {
	if g.carrier == nil {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, longestCall)
}

func (g Grant) fail(err error) {
	if g.fault != nil {
		g.fault(err)
	}
}
