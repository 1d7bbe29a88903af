// Package demo shows what pacing does: two stand-in providers of one kind, and
// in front of each a paceline.Transport that was told the same limit. One
// sends as fast as that limit allows, the other evenly.
//
// Running it knows nothing of drawing it: what is drawn is a pure function of
// the records.
package demo

import (
	"context"
	"sync"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/stub"
)

// What both sides are told, and what they meet: the provider says 15 a minute
// and means a bucket of three that gains one every four seconds.
const (
	PerMinute = 15
	Bucket    = 3
	Service   = 300 * time.Millisecond
	// Transit is how long a request is on its way at most. A refusal takes as
	// long to be known as it does on a network: by then others have been sent.
	Transit = 50 * time.Millisecond
	// Clients of each side, each with one call after the other and no pause,
	// so that work always waits. They are fewer than the limit: nothing they
	// do together at the start goes beyond it.
	Clients = 10
)

// Duration is how long a demo takes where nobody says otherwise.
const Duration = 45 * time.Second

// Provider is the configuration of one stand-in provider.
func Provider(seed uint64) stub.Config {
	return stub.Config{
		Meters:     []stub.Meter{{Kind: stub.Bucket, Limit: PerMinute, Per: time.Minute, Burst: Bucket}},
		RetryAfter: stub.RetryAfterSeconds,
		Service:    Service,
		Jitter:     Transit,
		Seed:       seed,
	}
}

// Limits are what both sides are told, but for the pacing. Neither adapts to
// refusals, so that pacing is all that differs: adapting, the burst side would
// be slower still.
func Limits(pacing Pacing) paceline.Limits {
	l := paceline.Limits{MaxPerMinute: PerMinute, Pacing: paceline.Even, Adaptive: paceline.Adaptive{Off: true}}
	if pacing == Burst {
		l.Pacing = paceline.Burst
	}
	return l
}

// Pacing names a side.
type Pacing string

// The sides.
const (
	Burst Pacing = "burst"
	Even  Pacing = "even"
)

// A Result is what a demo showed, so far or in the end.
type Result struct {
	Start time.Time
	Took  time.Duration // so far
	Of    time.Duration // as planned
	// The records of each side's attempts, in the order of their ends.
	Burst, Even []paceline.Record
}

// Run has the clients of both lanes work for a while, or until ctx ends, and
// returns what was seen. Requests that wait then are given up; those that were
// sent get their answer.
func Run(ctx context.Context, d time.Duration, burst, even *Lane) Result {
	r := Begin(ctx, d, burst, even)
	<-r.Done()
	return r.Result()
}

// A Running demo.
type Running struct {
	start       time.Time
	of          time.Duration
	burst, even *Lane
	done        chan struct{}
}

// Begin starts what Run runs.
func Begin(ctx context.Context, d time.Duration, burst, even *Lane) *Running {
	r := &Running{start: time.Now(), of: d, burst: burst, even: even, done: make(chan struct{})}
	ctx, stop := context.WithTimeout(ctx, d)
	var lanes sync.WaitGroup
	for _, l := range []*Lane{burst, even} {
		lanes.Go(func() { l.work(ctx, Clients) })
	}
	go func() {
		lanes.Wait()
		stop()
		close(r.done)
	}()
	return r
}

// Done is closed when the demo has ended.
func (r *Running) Done() <-chan struct{} { return r.done }

// Result is what was seen so far.
func (r *Running) Result() Result {
	now := time.Now()
	burst, _ := r.burst.seen()
	even, end := r.even.seen()
	if !end.IsZero() {
		now = end
	}
	return Result{Start: r.start, Took: min(r.of, now.Sub(r.start)), Of: r.of, Burst: burst, Even: even}
}
