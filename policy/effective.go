package policy

import (
	"time"

	"github.com/paceline-proxy/paceline/budget"
	"github.com/paceline-proxy/paceline/limiter"
)

// What a bound comes from.
const (
	BoundDeclared = "limit"   // a declared rate
	BoundLowered  = "factor"  // a declared rate, lowered by refusals
	BoundLearned  = "rate"    // a learned rate
	BoundSpacing  = "spacing" // starts kept apart after a refusal or a pause
	BoundPlaces   = "places"  // how many run at once
)

// A Bound is one of the limits that hold for a caller key, and what it comes
// from.
type Bound struct {
	What  string
	Limit limiter.Limit
	// Declared is the window as it was declared, zero for what was not.
	Declared Window
}

// Effective is what holds for a caller key, for people to look at.
type Effective struct {
	Factor float64
	// The declared rates, less margin and factor; 0 where none is declared.
	PerSecond, PerMinute, PerHour float64
	// Those of tokens, with the same less.
	TokensPerMinute, TokensPerDay, InputPerMinute, OutputPerMinute float64
	// Concurrent is the number of places, declared or learned; 0 for any.
	Concurrent int
	// Spacing is the least time between starts, 0 for none.
	Spacing time.Duration
	// Bounds are the limits that the next start has to fit.
	Bounds []Bound
}

// Effective says what holds at now.
func (r Rules) Effective(s *budget.State, now time.Time) Effective {
	e := Effective{Factor: r.factor(s, now)}
	k := r.Limits.margin() * e.Factor
	declared := BoundDeclared
	if e.Factor < 1 {
		declared = BoundLowered
	}
	for _, w := range r.Limits.windows() {
		n := float64(w.Calls) * k
		if shown := e.shows(w); shown != nil {
			*shown = n
		}
		e.Bounds = append(e.Bounds, Bound{declared, rate(r.Bucket(w.Unit), n, w.Per, w.Slack), w})
	}
	space := func(what string, every time.Duration) {
		if every > 0 {
			e.Spacing = max(e.Spacing, every)
			e.Bounds = append(e.Bounds, Bound{What: what, Limit: paced(r.Bucket(Requests), every)})
		}
	}
	if r.Limits.Pacing != Burst {
		space(declared, r.Limits.interval(k))
	}
	if r.learns(s, now) {
		if s.Rate.PerSecond > 0 {
			space(BoundLearned, time.Duration(float64(time.Second)/s.Rate.PerSecond))
		}
		space(BoundSpacing, s.Spacing.Every)
	}
	if s.Ramp.Left > 0 && now.Before(s.Ramp.Until) {
		space(BoundSpacing, r.rampInterval(s, now, e.Factor))
	}
	if now.Before(s.Overload.Until) {
		space(BoundSpacing, s.Overload.Every)
	}
	if r.Limits.MaxConcurrent > 0 {
		e.Concurrent = scaled(r.Limits.MaxConcurrent, e.Factor)
	}
	if s.Places.N > 0 && (e.Concurrent == 0 || s.Places.N < e.Concurrent) {
		e.Concurrent = s.Places.N
	}
	if e.Concurrent > 0 {
		e.Bounds = append(e.Bounds, Bound{What: BoundPlaces, Limit: places(r.Bucket(Places), e.Concurrent)})
	}
	return e
}

// shows is where a window is told of besides the bounds, nil for nowhere.
func (e *Effective) shows(w Window) *float64 {
	type window struct {
		unit string
		per  time.Duration
	}
	return map[window]*float64{
		{Requests, time.Second}:  &e.PerSecond,
		{Requests, time.Minute}:  &e.PerMinute,
		{Requests, time.Hour}:    &e.PerHour,
		{Tokens, time.Minute}:    &e.TokensPerMinute,
		{Tokens, 24 * time.Hour}: &e.TokensPerDay,
		{Input, time.Minute}:     &e.InputPerMinute,
		{Output, time.Minute}:    &e.OutputPerMinute,
	}[window{w.Unit, w.Per}]
}
