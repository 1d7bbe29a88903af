package goodput

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/paceline-proxy/paceline/stub"
)

// A Trial is one system against one provider with one seed.
type Trial struct {
	Scenario Scenario
	System   System
	// Tells is how refusals tell the wait.
	Tells stub.RetryAfter
	// From and To bound the measured span, counted from the first request.
	// What comes before From is the start-up: a full bucket, and learning.
	From, To time.Duration
	Seed     uint64
}

// An Outcome is what came of a trial within its span.
type Outcome struct {
	Admitted, Refused int
	// Charged is what the main meter counted for those admitted, and Taken
	// what it counted for another client.
	Charged, Taken int
	// Early and PeakWindow are of the whole trial, start-up included.
	Early, PeakWindow int
}

// The clients are more than any meter of the scenarios needs, so that there is
// always one that waits.
const (
	clients = 24
	regret  = 5 * time.Second
)

// begin waits for a part of a window that the seed decides, so that trials
// meet calendar-aligned windows in every phase, and returns the instant.
func (t Trial) begin() time.Time {
	phase := rand.New(rand.NewPCG(t.Seed, 10))
	time.Sleep(time.Duration(phase.Int64N(int64(t.Scenario.window()))))
	return time.Now()
}

// Run runs the trial without sockets.
func (t Trial) Run() Outcome {
	provider := must(stub.New(t.Scenario.config(t.Tells, t.Seed)))
	return t.over(provider, provider, base)
}

// over runs the trial against a provider that is reached at url by a round
// tripper, in as much time as it says.
func (t Trial) over(provider *stub.Stub, reach http.RoundTripper, url string) Outcome {
	start := t.begin()
	chance := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(t.Seed, n)) }
	through := t.System.Wrap(t.Scenario, reach, chance(11))
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	// Not a deadline: a system that sees one may refuse what cannot meet it.
	time.AfterFunc(t.To, stop)
	load{asks: t.Scenario.newAsks(), clients: cmp.Or(t.Scenario.Clients, clients), url: url, regret: regret}.run(ctx, through, chance(12))

	counts := provider.Counts()
	o := Outcome{Early: counts.Early, PeakWindow: counts.PeakWindow}
	o.count(provider, start.Add(t.From), start.Add(t.To))
	return o
}

// count counts the arrivals of a span.
func (o *Outcome) count(provider *stub.Stub, from, to time.Time) {
	arrivals := provider.Arrivals()
	if c := provider.Counts(); c.Admitted+c.Refused+c.Other > len(arrivals) && arrivals[0].At.After(from) {
		panic(fmt.Sprintf("goodput: %d arrivals are more than the stub keeps", c.Admitted+c.Refused))
	}
	for _, a := range arrivals {
		switch {
		case a.At.Before(from) || !a.At.Before(to):
		case a.Other:
			o.Taken += a.Charged
		case a.Admitted:
			o.Admitted++
			o.Charged += a.Charged
		default:
			o.Refused++
		}
	}
}
