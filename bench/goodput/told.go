package goodput

import (
	"fmt"
	"strings"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/stub"
)

// toldRow is one of row 2: nobody declares anything.
func toldRow(s Scenario, f Figure, systems ...System) (rows []Row) {
	for _, sys := range systems {
		rows = append(rows, Row{"2", s.Name, f, Trial{
			Scenario: s, System: sys, Tells: stub.RetryAfterSeconds, From: minute, To: 11 * minute,
		}, 0})
	}
	return rows
}

// A way is how answers are told and made, and by how many they are asked for.
type way struct {
	name    string
	at      stub.HeadersAt
	service time.Duration
	clients int
	another bool
}

var ways = []way{
	{"alone, 60 ms", stub.AtAdmission, 60 * time.Millisecond, 24, false},
	{"one client, 60 ms", stub.AtHead, 60 * time.Millisecond, 1, false},
	{"alone, 2 s, at the head", stub.AtHead, 2 * second, 24, false},
	{"alone, 20 s", stub.AtAdmission, 20 * second, 256, false},
	{"alone, 20 s, at the head", stub.AtHead, 20 * second, 256, false},
	{"another, 60 ms", stub.AtAdmission, 60 * time.Millisecond, 24, true},
	{"another, 2 s, at the head", stub.AtHead, 2 * second, 64, true},
	{"another, 20 s", stub.AtAdmission, 20 * second, 256, true},
	{"another, 20 s, at the head", stub.AtHead, 20 * second, 256, true},
}

func (s Scenario) told(headers stub.Headers, w way) Scenario {
	s.Name = fmt.Sprintf("%s, %s: %s", s.Name, headers, w.name)
	s.Headers, s.HeadersAt, s.Clients = headers, w.at, w.clients
	s.Service, s.Spread = w.service, w.service/2
	if w.another {
		// A burst comes between two readings..
		s.Another = stub.Other{Share: 0.4, Every: 20 * second}
	}
	return s
}

// ToldRows are those of row 2: nobody declares anything, and answers tell what
// is left. Every meter tells in OpenAI's way, those that refill in Anthropic's
// too, and then each provider has the meter that is its own.
func ToldRows(scenarios []Scenario) (rows []Row) {
	for _, s := range scenarios {
		m, counts := s.main()
		if !counts || s.places() > 0 || len(s.Meters) > 1 || s.Penalise || m.Per != minute {
			continue
		}
		for _, w := range ways {
			rows = append(rows, toldRow(s.told(stub.HeadersOpenAI, w), toldFigure, Untold)...)
			if m.Kind == stub.Bucket {
				rows = append(rows, toldRow(s.told(stub.HeadersAnthropic, w), toldFigure, Untold)...)
			}
		}
	}
	for _, p := range providers() {
		for _, w := range []way{ways[2], ways[5]} {
			rows = append(rows, toldRow(p.Scenario.told(p.headers, w), p.figure, Untold)...)
		}
	}
	for _, w := range []way{ways[0], ways[2], ways[4], ways[6]} {
		rows = append(rows, toldRow(opaque().told(stub.HeadersOpenAI, w), toldFigure, Untold)...)
	}
	for _, s := range scenarios {
		if s.Name == "bucket 60/min" || s.Name == "rolling 60/min" || s.Name == "fixed 60/min" {
			rows = append(rows, toldRow(s.told(stub.HeadersOpenAI, ways[2]), processesFigure, Processes)...)
			rows = append(rows, toldRow(s.told(stub.HeadersOpenAI, ways[2]), noFigure, Bottleneck, SDK)...)
		}
	}
	return rows
}

// processesFigure is what several processes reach that share nothing but what
// they were told.
var processesFigure = Figure{Ratio: 0.85, Refusals: 5}

// A provider has the meters, and the way to tell of them, that are its own.
type provider struct {
	Scenario
	headers stub.Headers
	figure  Figure
}

func providers() (all []provider) {
	add := func(headers stub.Headers, f Figure, name string, meters ...stub.Meter) {
		s := scenario(name, f, meters...)
		s.Charge = stub.ChargeReserved // so that nothing is charged later
		all = append(all, provider{s, headers, f})
	}
	requests := func(kind stub.MeterKind, n int, per time.Duration) stub.Meter {
		return stub.Meter{Kind: kind, Limit: n, Per: per}
	}
	add(stub.HeadersAzure, toldFigure, "bucket 60/min", requests(stub.Bucket, 60, minute))
	add(stub.HeadersGroq, toldFigure, "day 14400, tokens 2000/min",
		stub.Meter{Kind: stub.Bucket, Unit: stub.Tokens, Limit: 2000, Per: minute}, requests(stub.Bucket, 14400, 24*time.Hour))
	add(stub.HeadersCerebras, toldFigure, "bucket 60/min", requests(stub.Bucket, 60, minute))
	add(stub.HeadersMistral, toldFigure, "fixed 60/min", requests(stub.Fixed, 60, minute))
	add(stub.HeadersTogether, toldFigure, "bucket 2/s", requests(stub.Bucket, 2, second))
	add(stub.HeadersFireworks, toldFigure, "bucket 60/min", requests(stub.Bucket, 60, minute))
	add(stub.HeadersCohere, toldFigure, "rolling 20/min", requests(stub.Rolling, 20, minute))
	add(stub.HeadersIETF, toldFigure, "fixed 60/min", requests(stub.Fixed, 60, minute))
	add(stub.HeadersLiteLLM, toldFigure, "bucket 60/min", requests(stub.Bucket, 60, minute))
	add(stub.HeadersDigitalOcean, toldFigure, "bucket 60/min", requests(stub.Bucket, 60, minute))
	add(stub.HeadersHuggingFace, toldFigure, "fixed 300/5min", requests(stub.Fixed, 300, 5*minute))
	// These tell in refusals only, or not at all.
	add(stub.HeadersOpenRouter, stepFigure, "fixed 20/min", requests(stub.Fixed, 20, minute))
	add(stub.HeadersGemini, smoothFigure, "rolling 15/min", requests(stub.Rolling, 15, minute))
	add(stub.HeadersBedrock, smoothFigure, "bucket 60/min", requests(stub.Bucket, 60, minute))
	return all
}

// opaque charges at admission by a rule that nobody outside knows, for
// requests of many sizes. R-104.
func opaque() Scenario {
	s := scenario("tokens 60000/min, unknown rule", toldFigure,
		stub.Meter{Kind: stub.Bucket, Unit: stub.Tokens, Limit: 60000, Per: minute})
	s.Charge = stub.ChargeOpaque
	for _, kilobytes := range []int{4, 9, 2, 14, 6, 3, 11} {
		s.Asks = append(s.Asks, ask{path: "/chat/completions", body: `{"stream":false,"model":"stub-1","max_tokens":4000,"messages":[{"role":"user","content":"` +
			strings.Repeat("Say something. ", kilobytes<<10/15) + `"}]}`})
	}
	return s
}

// AgentRows are row 3a: forty coding agents, whose prompts are long and mostly
// cached, on a bucket of uncached input.
func AgentRows() (rows []Row) {
	s := scenario("40 agents", agentsFigure,
		stub.Meter{Kind: stub.Bucket, Unit: stub.InputTokens, Limit: 40000, Per: minute},
		stub.Meter{Kind: stub.Bucket, Limit: 50, Per: minute})
	s.Headers, s.HeadersAt, s.Charge, s.Clients = stub.HeadersAnthropic, stub.AtAdmission, stub.ChargeUncached, 40
	s.Service, s.Spread = 8*second, 12*second
	turns := `{"role":"user","content":"Go on."},{"role":"assistant","content":"` + strings.Repeat("Something was done. ", 400<<10/20) + `"},{"role":"user","content":"And now?"}`
	for _, uncached := range []int{5000, 3500, 6000, 4500, 6500, 4500} {
		s.Asks = append(s.Asks, ask{
			path:  "/messages",
			body:  `{"stream":true,"model":"stub-1","max_tokens":64000,"messages":[` + turns + `]}`,
			usage: fmt.Sprintf("input=100000 cached=%d output=800", 100000-uncached),
		})
	}
	for _, sys := range []System{Declared(paceline.Even), Untold} {
		rows = append(rows, Row{"3a", s.Name, agentsFigure, Trial{
			Scenario: s, System: sys, Tells: stub.RetryAfterSeconds, From: 5 * minute, To: 35 * minute,
		}, 0})
	}
	for _, sys := range []System{SDK, None} {
		rows = append(rows, Row{"3a", s.Name, noFigure, Trial{
			Scenario: s, System: sys, Tells: stub.RetryAfterSeconds, From: 5 * minute, To: 10 * minute,
		}, 0})
	}
	return rows
}

var agentsFigure = Figure{Ratio: 0.95, Refusals: 1}
