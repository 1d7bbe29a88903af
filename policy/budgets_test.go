package policy_test

import (
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/budget"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/policy"
)

// A meter is a key that is told of one bucket.
type meter struct {
	s      budget.State
	starts budget.Starts
	r      policy.Rules
}

func (m *meter) tell(at time.Time, limit, remaining int64, r dialect.Recovery) {
	m.starts.Add(at, time.Hour, budget.Charge{})
	b := dialect.Snapshot{Unit: dialect.Requests, Window: dialect.Minute, Remaining: &remaining, Recovery: r}
	if limit > 0 {
		b.Limit = &limit
	}
	m.r.Learn(&m.s, &m.starts, policy.Answer{Sent: at, Now: at, Reading: dialect.Reading{Class: dialect.OK, Buckets: []dialect.Snapshot{b}}})
}

// What a told budget holds the next request up for, and how far apart it sets
// them.
func TestToldBudgets(t *testing.T) {
	in := func(d time.Duration) time.Time { return t0.Add(d) }
	full := func(d time.Duration) dialect.Recovery {
		return dialect.Recovery{Kind: dialect.FullAt, At: in(d), Relative: true}
	}
	step := func(d time.Duration) dialect.Recovery { return dialect.Recovery{Kind: dialect.StepAt, At: in(d)} }
	for name, tt := range map[string]struct {
		limit, remaining int64
		recovery         dialect.Recovery
		spaced           string
		until            time.Duration
	}{
		// S-31, R-102: plenty slows nothing.
		"900 left in 60 s": {1000, 900, full(60 * sec), "", 0},
		// S-29: evenly up to the reset; a bucket without a limit as well.
		"4 left in 20 s":               {60, 4, step(20 * sec), "1/5s", 0},
		"4 left in 20 s, of any limit": {0, 4, step(20 * sec), "1/5s", 0},
		// The last one goes before the reset: at it, it would be of the next.
		"1 left in 20 s": {60, 1, step(20 * sec), "1/10s", 0},
		// S-30: only below ten.
		"9 left":  {60, 9, step(18 * sec), "1/2s", 0},
		"10 left": {60, 10, step(18 * sec), "", 0},
		// One that refills comes the closer to its rate the less there is left.
		"5 left, one a second": {60, 5, full(55 * sec), "1/500ms", 0},
		// S-32: nothing left waits for the whole reset, or for one to come back.
		"0 left until 20 s":    {60, 0, step(20 * sec), "1/19.999s", 20 * sec},
		"0 left, one a second": {60, 0, full(60 * sec), "1/1s", sec},
		// S-33: without a readable reset nothing is paced.
		"3 left, nothing said of a reset": {60, 3, dialect.Recovery{}, "", 0},
		// what is farther off is left to the provider to say.
		"0 left for an hour": {60, 0, step(time.Hour), "1/30s", 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := &meter{r: rules(policy.Limits{})}
			m.tell(t0, tt.limit, tt.remaining, tt.recovery)
			p := m.r.Plan(&m.s, &m.starts, t0.Add(time.Millisecond), policy.Activity{})
			if got := write(p.Limits); got != tt.spaced {
				t.Errorf("spaced %q, want %q", got, tt.spaced)
			}
			until := time.Duration(0)
			if !p.NotBefore.IsZero() {
				until = p.NotBefore.Sub(t0).Round(10 * time.Millisecond)
			}
			if until != tt.until || (p.Budget != nil) != (until > 0) {
				t.Errorf("until %v for %+v, want %v", until, p.Budget, tt.until)
			}
			// a reading alone never refuses: it is no pause, and a person may
			// have it sent all the same.
			if p.Paused || p.Closed || p.Budget != nil && !p.Budget.Anyway {
				t.Errorf("%+v", p)
			}
			if p := m.r.Plan(&m.s, &m.starts, t0.Add(time.Millisecond), policy.Activity{Anyway: true}); !p.NotBefore.IsZero() {
				t.Errorf("sent anyway, until %v", p.NotBefore)
			}
		})
	}
}

// S-35: tokens set no pace; too few of them are waited for all the same.
func TestTokensAreNotPaced(t *testing.T) {
	m := &meter{r: rules(policy.Limits{})}
	m.r.Cost = budget.Charge{Tokens: 100}
	m.starts.Add(t0, time.Hour, m.r.Cost)
	limit, remaining := int64(6000), int64(8)
	m.r.Learn(&m.s, &m.starts, policy.Answer{Sent: t0, Now: t0, Reading: dialect.Reading{Class: dialect.OK, Buckets: []dialect.Snapshot{{
		Unit: dialect.Tokens, Window: dialect.Minute, Limit: &limit, Remaining: &remaining, Recovery: dialect.Recovery{Kind: dialect.Continuous, PerSecond: 100},
	}}}})
	p := m.r.Plan(&m.s, &m.starts, t0, policy.Activity{})
	if wait := p.NotBefore.Sub(t0); len(p.Limits) != 0 || wait != 920*time.Millisecond {
		t.Errorf("%s, and %v; want no pace, and the 92 tokens that are missing at 100 a second", write(p.Limits), wait)
	}
}

// a refusal without headers changes nothing that was told. R-85: nor does
// a first run wait for anything.
func TestRefusalTellsNothing(t *testing.T) {
	m := &meter{r: rules(policy.Limits{})}
	if p := m.r.Plan(&m.s, &m.starts, t0, policy.Activity{}); len(p.Limits) != 0 || !p.NotBefore.IsZero() {
		t.Errorf("at first: %+v", p)
	}
	m.tell(t0, 60, 50, dialect.Recovery{Kind: dialect.Continuous, PerSecond: 1})
	m.r.Learn(&m.s, &m.starts, policy.Answer{Sent: t0.Add(sec), Now: t0.Add(sec), Reading: dialect.Reading{Class: dialect.RateLimited}})
	if len(m.s.Readings) != 1 || *m.s.Readings[0].Remaining != 50 {
		t.Errorf("%+v", m.s.Readings)
	}
}

// Who is asked for together with others goes before nothing that their starts may
// change: it is planned for again when those have been booked.
func TestPlansBehindOthers(t *testing.T) {
	learn := func(remaining int64) *meter {
		m := &meter{r: policy.Rules{Bucket: func(unit string) string { return unit }, Reports: true}}
		m.tell(t0, 1000, remaining, dialect.Recovery{Kind: dialect.StepAt, At: t0.Add(time.Minute)})
		return m
	}
	fresh := &meter{r: policy.Rules{Bucket: func(unit string) string { return unit }, Reports: true}}
	probed := learn(900)
	probed.s.Probe.Needed = true
	unheeded := learn(20)
	unheeded.r.BudgetLogOnly = true
	for name, tt := range map[string]struct {
		m     *meter
		ahead int
		full  bool
	}{
		"the first":                       {learn(20), 0, false},
		"far from an observed budget":     {learn(900), 63, false},
		"not near one yet":                {learn(20), 9, false},
		"near one":                        {learn(20), 11, true},
		"near one that nobody heeds":      {unheeded, 11, false},
		"a probe":                         {probed, 0, false},
		"behind a probe":                  {probed, 1, true},
		"few of a key that nobody knows":  {fresh, 7, false},
		"many of a key that nobody knows": {fresh, 8, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := policy.Activity{InFlight: tt.ahead, Ahead: tt.ahead, Waiting: 100}
			if p := tt.m.r.Plan(&tt.m.s, &tt.m.starts, t0.Add(time.Second), a); p.Full != tt.full {
				t.Errorf("full: %v (%s), want %v", p.Full, p.Why, tt.full)
			}
		})
	}
}
