package goodput

import (
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/stub"
)

// A Scenario is a provider: what it meters and how long its requests take.
type Scenario struct {
	Name string
	// Meters of the stub. The first is the main one, which systems that know
	// a single limit are told of.
	Meters []stub.Meter
	// Penalise lets refused requests count too.
	Penalise bool
	// Jitter is the longest transit, at most 2 % of the shortest window.
	Jitter time.Duration
	// Slack is what a user who declares the limits allows for jitter.
	Slack time.Duration
	// Service and Spread are how long a generation takes.
	Service, Spread time.Duration
	// Headers tell what is left of the main meter, as it was HeadersAt.
	Headers   stub.Headers
	HeadersAt stub.HeadersAt
	// Clients is how many there are, 0 for enough.
	Clients int
	// Another spends from the same meters.
	Another stub.Other
	// Charge is how requests count in meters of tokens.
	Charge stub.Charge
	// Asks are what the clients ask for, in turn. None is one short prompt.
	Asks []ask
	// EvenOnly marks meters that refuse a burst of the whole limit, or make
	// one refusal expensive: nobody would declare burst pacing there.
	EvenOnly bool
	// Untold is what holds where nothing is declared and nothing told.
	Untold Figure
}

// A Figure is what a row of a scenario is to reach.
type Figure struct {
	Ratio    float64 // of the oracle, at least; 0: nothing is asked
	Refusals float64 // per 100 successes, at most
}

var (
	declaredFigure = Figure{Ratio: 0.97, Refusals: 0}
	smoothFigure   = Figure{Ratio: 0.88, Refusals: 3}  // buckets, rolling windows
	stepFigure     = Figure{Ratio: 0.88, Refusals: 10} // fixed windows
	toldFigure     = Figure{Ratio: 0.95, Refusals: 1.5}
	noFigure       = Figure{}
)

const (
	minute  = time.Minute
	second  = time.Second
	service = 500 * time.Millisecond // of most scenarios, and the spread of it
)

func scenario(name string, f Figure, meters ...stub.Meter) Scenario {
	s := Scenario{Name: name, Meters: meters, Service: service, Spread: service, Untold: f}
	s.Jitter = s.shortest() / 50
	s.Slack = s.Jitter
	return s
}

func (s Scenario) evenOnly() Scenario  { s.EvenOnly = true; return s }
func (s Scenario) penalised() Scenario { s.Penalise, s.EvenOnly = true, true; return s }

// withService has generations take about a mean, for meters of concurrency:
// their window is the service itself.
func (s Scenario) withService(least, spread time.Duration) Scenario {
	s.Service, s.Spread = least, spread
	s.Jitter = (least + spread/2) / 50
	s.Slack = s.Jitter
	return s
}

// Scenarios are the providers of rows 1 and 3.
func Scenarios() []Scenario {
	rolling := func(n int, per time.Duration) stub.Meter { return stub.Meter{Kind: stub.Rolling, Limit: n, Per: per} }
	fixed := func(n int, per time.Duration) stub.Meter { return stub.Meter{Kind: stub.Fixed, Limit: n, Per: per} }
	bucket := func(n int, per time.Duration, burst int) stub.Meter {
		return stub.Meter{Kind: stub.Bucket, Limit: n, Per: per, Burst: burst}
	}
	places := func(n int) stub.Meter { return stub.Meter{Kind: stub.Concurrent, Limit: n} }
	return []Scenario{
		scenario("rolling 60/min", smoothFigure, rolling(60, minute)),
		scenario("rolling 15/min", smoothFigure, rolling(15, minute)),
		scenario("rolling 20/10s", smoothFigure, rolling(20, 10*second)),
		scenario("fixed 60/min", stepFigure, fixed(60, minute)),
		scenario("fixed 15/min", stepFigure, fixed(15, minute)),
		scenario("fixed 20/10s", stepFigure, fixed(20, 10*second)),
		scenario("bucket 60/min", smoothFigure, bucket(60, minute, 0)),
		scenario("bucket 20/10s", smoothFigure, bucket(20, 10*second, 0)),
		scenario("bucket of 3, 15/min", smoothFigure, bucket(15, minute, 3)).evenOnly(),
		scenario("bucket of 3, 60/min", smoothFigure, bucket(60, minute, 3)).evenOnly(),
		scenario("penalising bucket of 3, 15/min", smoothFigure, bucket(15, minute, 3)).penalised(),
		scenario("penalising bucket 60/min", smoothFigure, bucket(60, minute, 0)).penalised(),
		scenario("penalising rolling 60/min", smoothFigure, rolling(60, minute)).penalised(),
		scenario("bucket 60/min and rolling 15/10s", smoothFigure, bucket(60, minute, 0), rolling(15, 10*second)),
		scenario("concurrent 4", noFigure, places(4)).withService(2*second, 4*second),
		scenario("rolling 60/min and concurrent 6", noFigure, rolling(60, minute), places(6)).withService(2*second, 4*second),
		// One place for each request the rate allows: a place that is given up
		// late makes the next even start late, and what is lost is never made
		// up for. Even pacing cannot reach the figure here.
		scenario("rolling 60/min and concurrent 4", noFigure, rolling(60, minute), places(4)).withService(2*second, 4*second),
	}
}

// main is the first meter that counts over time.
func (s Scenario) main() (m stub.Meter, counts bool) {
	for _, m := range s.Meters {
		if m.Kind != stub.Concurrent {
			return m, true
		}
	}
	return stub.Meter{}, false
}

// places is the cap on requests in service, 0 for none.
func (s Scenario) places() int {
	for _, m := range s.Meters {
		if m.Kind == stub.Concurrent {
			return m.Limit
		}
	}
	return 0
}

// window is the main window; a cap on concurrency is measured over minutes.
func (s Scenario) window() time.Duration {
	if m, counts := s.main(); counts {
		return m.Per
	}
	return time.Minute
}

func (s Scenario) shortest() time.Duration {
	shortest := s.window()
	for _, m := range s.Meters {
		if m.Kind != stub.Concurrent {
			shortest = min(shortest, m.Per)
		}
	}
	return shortest
}

// Declared is what a user who knows the provider's limits writes down.
func (s Scenario) Declared(p paceline.Pacing) paceline.Limits {
	l := paceline.Limits{Pacing: p}
	l.WindowSlack, l.AbortHold = s.Slack, -1
	for _, m := range s.Meters {
		switch {
		case m.Kind == stub.Concurrent:
			l.MaxConcurrent = m.Limit
		case m.Unit == stub.InputTokens && m.Per == time.Minute:
			l.MaxInputTokensPerMinute = m.Limit
		case m.Per == time.Minute:
			l.MaxPerMinute = m.Limit
		default:
			l.Windows = append(l.Windows, paceline.Window{Calls: m.Limit, Per: m.Per, Slack: s.Slack})
		}
	}
	return l
}

// config is the stub that plays the provider.
func (s Scenario) config(tells stub.RetryAfter, seed uint64) stub.Config {
	return stub.Config{
		Meters: s.Meters, Penalise: s.Penalise,
		Jitter: s.Jitter, Service: s.Service, ServiceSpread: s.Spread,
		RetryAfter: tells, Headers: s.Headers, HeadersAt: s.HeadersAt, Seed: seed, Charge: s.Charge, Other: s.Another, Window: s.window(),
	}
}
