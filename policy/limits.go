// Package policy decides: from the configuration, what a caller key has
// learned and the present instant it makes a [Plan] for the next request, and
// from an answer it learns. It reads no clock and waits for nothing; but for
// the jitter of backoffs, equal questions have equal answers.
package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/paceline-proxy/paceline/budget"
	"github.com/paceline-proxy/paceline/limiter"
)

// Limits is what a provider allows, as its user declares it. Every 0 means
// the default of the provider's entry, and where that says nothing, no limit
// of this kind.
type Limits struct {
	MaxPerSecond  int
	MaxPerMinute  int
	MaxPerHour    int
	MaxPerDay     int
	MaxConcurrent int
	// Tokens, as the provider charges them: of prompts and answers together, of
	// prompts, and of answers. What a request will cost is estimated before it
	// is sent, and put right by what its answer says.
	MaxTokensPerMinute       int
	MaxTokensPerDay          int
	MaxInputTokensPerMinute  int
	MaxOutputTokensPerMinute int
	// Windows are any other rolling windows.
	Windows []Window
	// Pacing is how starts are spread inside the windows. The default is Even.
	Pacing Pacing
	// SafetyMargin is the fraction of each rate left unused, 0 to 0.9.
	SafetyMargin float64
	// WindowSlack lengthens the windows from ten seconds up, because requests
	// take a varying time to arrive where they are counted. The default is a
	// second, and none for a server on this machine or network. Negative: none.
	WindowSlack time.Duration
	// AbortHold is how long a request cut after it was sent goes on taking its
	// place, since the provider works on it still. The default is 15 s, and
	// none for a server on this machine or network. Negative: not at all.
	AbortHold time.Duration
	// Adaptive scales the declared limits after refusals that they do not
	// explain.
	Adaptive Adaptive
}

// A Window allows Calls requests in any span of Per, or as many of another
// Unit: Tokens, Input or Output.
type Window struct {
	Calls int
	Per   time.Duration
	// Unit is what is counted. Empty: Requests.
	Unit string
	// Slack lengthens the window. 0: the entry's WindowSlack, at most 2 % of
	// Per. Negative: none.
	Slack time.Duration
}

// Pacing is how starts are spread inside the windows.
type Pacing string

// The pacings.
const (
	// Even starts one request at a time, evenly: no bucket is small enough to
	// be emptied by it.
	Even Pacing = "even"
	// Burst starts as fast as the windows and places allow.
	Burst Pacing = "burst"
)

// Adaptive is the AIMD rule: Decrease multiplies the limits after a refusal,
// at most once per Gap and never below Min; every Cooldown without one adds
// Increase.
type Adaptive struct {
	Off      bool
	Decrease float64       // 0.7
	Min      float64       // 0.2
	Increase float64       // 0.1
	Cooldown time.Duration // 5 min
	Gap      time.Duration // 5 s
}

// Or fills what l leaves open with what the entry's defaults say.
func (l Limits) Or(d Limits) Limits {
	l.MaxPerSecond = or(l.MaxPerSecond, d.MaxPerSecond)
	l.MaxPerMinute = or(l.MaxPerMinute, d.MaxPerMinute)
	l.MaxPerHour = or(l.MaxPerHour, d.MaxPerHour)
	l.MaxPerDay = or(l.MaxPerDay, d.MaxPerDay)
	l.MaxConcurrent = or(l.MaxConcurrent, d.MaxConcurrent)
	l.MaxTokensPerMinute = or(l.MaxTokensPerMinute, d.MaxTokensPerMinute)
	l.MaxTokensPerDay = or(l.MaxTokensPerDay, d.MaxTokensPerDay)
	l.MaxInputTokensPerMinute = or(l.MaxInputTokensPerMinute, d.MaxInputTokensPerMinute)
	l.MaxOutputTokensPerMinute = or(l.MaxOutputTokensPerMinute, d.MaxOutputTokensPerMinute)
	if l.Windows == nil {
		l.Windows = d.Windows
	}
	l.Pacing = or(l.Pacing, d.Pacing)
	l.SafetyMargin = or(l.SafetyMargin, d.SafetyMargin)
	l.WindowSlack = or(l.WindowSlack, d.WindowSlack)
	l.AbortHold = or(l.AbortHold, d.AbortHold)
	a, b := &l.Adaptive, d.Adaptive
	a.Off = a.Off || b.Off
	a.Decrease = or(a.Decrease, b.Decrease)
	a.Min = or(a.Min, b.Min)
	a.Increase = or(a.Increase, b.Increase)
	a.Cooldown = or(a.Cooldown, b.Cooldown)
	a.Gap = or(a.Gap, b.Gap)
	return l
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// What nobody means, and what would overflow with a margin and a factor.
const (
	mostCalls = int64(1) << 40
	mostPer   = 366 * 24 * time.Hour
)

// Validate reports every impossible value at once.
func (l Limits) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, n := range []struct {
		name  string
		value int
	}{
		{"MaxPerSecond", l.MaxPerSecond}, {"MaxPerMinute", l.MaxPerMinute},
		{"MaxPerHour", l.MaxPerHour}, {"MaxPerDay", l.MaxPerDay},
		{"MaxConcurrent", l.MaxConcurrent},
		{"MaxTokensPerMinute", l.MaxTokensPerMinute}, {"MaxTokensPerDay", l.MaxTokensPerDay},
		{"MaxInputTokensPerMinute", l.MaxInputTokensPerMinute}, {"MaxOutputTokensPerMinute", l.MaxOutputTokensPerMinute},
	} {
		if n.value < 0 || int64(n.value) > mostCalls {
			bad("%s is %d: give a number from 1 to %d, or leave it out for no limit", n.name, n.value, mostCalls)
		}
	}
	for i, w := range l.Windows {
		if w.Calls <= 0 || int64(w.Calls) > mostCalls || w.Per <= 0 || w.Per > mostPer || w.Slack > mostPer {
			bad("Windows[%d] allows %d calls in %v: give at least one of each, at most %d calls, and a year", i, w.Calls, w.Per, mostCalls)
		}
		if w.Unit != "" && w.Unit != Requests && !slices.Contains(tokenUnits, w.Unit) {
			bad("Windows[%d] counts %q: it is %q, %q, %q or %q", i, w.Unit, Requests, Tokens, Input, Output)
		}
	}
	if l.WindowSlack > mostPer {
		bad("WindowSlack is %v: a second or two are usual", l.WindowSlack)
	}
	if l.Pacing != "" && l.Pacing != Even && l.Pacing != Burst {
		bad("Pacing is %q: it is %q or %q", l.Pacing, Even, Burst)
	}
	// A margin beyond 0.9 is held at 0.9; one below zero is a mistake.
	if !(l.SafetyMargin >= 0) || math.IsInf(l.SafetyMargin, 1) {
		bad("SafetyMargin is %v: give a fraction from 0 to 0.9", l.SafetyMargin)
	}
	a := l.Adaptive
	if !(a.Decrease >= 0 && a.Decrease < 1) || !(a.Min >= 0 && a.Min <= 1) || !(a.Increase >= 0 && a.Increase <= 1) ||
		a.Cooldown < 0 || a.Gap < 0 {
		bad("Adaptive is %+v: Decrease is below 1, Min and Increase from 0 to 1, durations positive", a)
	}
	return errors.Join(errs...)
}

// Declared reports whether any rate or number of places is declared.
func (l Limits) Declared() bool { return l.DeclaresRate() || l.MaxConcurrent > 0 }

// DeclaresRate reports whether any rate is declared, be it of requests or of
// tokens.
func (l Limits) DeclaresRate() bool { return l.DeclaresRequests() || l.DeclaresTokens() }

// DeclaresRequests reports whether any rate of requests is declared.
func (l Limits) DeclaresRequests() bool {
	return l.MaxPerSecond > 0 || l.MaxPerMinute > 0 || l.MaxPerHour > 0 || l.MaxPerDay > 0 ||
		slices.ContainsFunc(l.Windows, func(w Window) bool { return !w.OfTokens() })
}

// DeclaresTokens reports whether any rate of tokens is declared.
func (l Limits) DeclaresTokens() bool {
	return l.MaxTokensPerMinute > 0 || l.MaxTokensPerDay > 0 || l.MaxInputTokensPerMinute > 0 || l.MaxOutputTokensPerMinute > 0 ||
		slices.ContainsFunc(l.Windows, Window.OfTokens)
}

// OfTokens reports whether a window counts tokens, and not requests.
func (w Window) OfTokens() bool { return w.Unit != "" && w.Unit != Requests }

// Longest is the longest declared window, for those who keep evidence.
func (l Limits) Longest() time.Duration {
	longest := time.Minute
	for _, w := range l.windows() {
		longest = max(longest, w.Per)
	}
	return longest
}

// Exceeded reports whether the starts counted by within, in spans of each
// declared window, go beyond a configured rate of requests.
func (l Limits) Exceeded(within func(per time.Duration) int) bool {
	return slices.ContainsFunc(l.windows(), func(w Window) bool { return !w.OfTokens() && within(w.Per) > w.Calls })
}

// ExceededTokens reports whether the tokens counted by spent, in spans of each
// declared window, go beyond a configured rate of tokens.
func (l Limits) ExceededTokens(spent func(per time.Duration) budget.Charge) bool {
	return slices.ContainsFunc(l.windows(), func(w Window) bool { return w.OfTokens() && of(spent(w.Per), w.Unit) > w.Calls })
}

// windows returns every declared window. Slack is what is to be added to Per.
func (l Limits) windows() []Window {
	if !l.DeclaresRate() {
		return nil
	}
	slack := max(0, l.WindowSlack)
	ws := make([]Window, 0, 8+len(l.Windows))
	for _, w := range [...]Window{
		{l.MaxPerSecond, time.Second, Requests, 0},
		{l.MaxPerMinute, time.Minute, Requests, slack},
		{l.MaxPerHour, time.Hour, Requests, slack},
		{l.MaxPerDay, 24 * time.Hour, Requests, slack},
		{l.MaxTokensPerMinute, time.Minute, Tokens, slack},
		{l.MaxTokensPerDay, 24 * time.Hour, Tokens, slack},
		{l.MaxInputTokensPerMinute, time.Minute, Input, slack},
		{l.MaxOutputTokensPerMinute, time.Minute, Output, slack},
	} {
		if w.Calls > 0 {
			ws = append(ws, w)
		}
	}
	for _, w := range l.Windows {
		switch {
		case w.Slack == 0 && w.Per >= 10*time.Second:
			w.Slack = min(slack, w.Per/50)
		default:
			w.Slack = max(0, w.Slack)
		}
		w.Unit = or(w.Unit, Requests)
		ws = append(ws, w)
	}
	return ws
}

// Margin is the fraction of a rate that is used.
func (l Limits) margin() float64 { return 1 - min(max(0, l.SafetyMargin), 0.9) }

// compile turns the declared limits into what a limiter is asked of a request
// with such a toll, with the adaptive factor applied. bucket names
// where a unit counts.
func (l Limits) compile(factor float64, t toll, bucket func(unit string) string) []limiter.Limit {
	if !l.Declared() {
		return nil
	}
	k := l.margin() * factor
	limits := make([]limiter.Limit, 0, 6)
	for _, w := range l.windows() {
		limits = append(limits, t.in(rate(bucket(w.Unit), float64(w.Calls)*k, w.Per, w.Slack), w.Unit))
	}
	if l.Pacing != Burst {
		if every := l.interval(k); every > 0 {
			limits = append(limits, paced(bucket(Requests), every))
		}
	}
	if l.MaxConcurrent > 0 {
		limits = append(limits, places(bucket(Places), scaled(l.MaxConcurrent, factor)))
	}
	return limits
}

// background turns the windows of a minute and longer into those of background
// requests, at a factor of the declared rates.
func (l Limits) background(factor float64, t toll, bucket func(unit string) string) (limits []limiter.Limit) {
	for _, w := range l.windows() {
		if w.Per >= time.Minute {
			limits = append(limits, t.in(rate(bucket(backgroundOf(w.Unit)), float64(w.Calls)*l.margin()*factor, w.Per, w.Slack), w.Unit))
		}
	}
	return limits
}

// rate is a window of n calls. A fraction of a call becomes one call in a
// longer window, so that a factor always slows.
func rate(bucket string, n float64, per, slack time.Duration) limiter.Limit {
	// 15 × 0.8 must be 12 whatever the floating point makes of it.
	if whole := math.Floor(n + 1e-9); whole >= 1 {
		return limiter.Limit{Key: bucket, Calls: int(whole), Per: per + slack}
	}
	return limiter.Limit{Key: bucket, Calls: 1, Per: time.Duration(float64(per)/n) + slack}
}

// interval is the time between even starts under the declared windows of up
// to a minute; longer ones leave room for hours that are not all alike.
func (l Limits) interval(k float64) time.Duration {
	var longest time.Duration
	for _, w := range l.windows() {
		if !w.OfTokens() && w.Per <= time.Minute {
			longest = max(longest, share(w, k))
		}
	}
	return longest
}

// tightest is the time between even starts under the shortest declared window
// there is.
func (l Limits) tightest(k float64) time.Duration {
	if every := l.interval(k); every > 0 {
		return every
	}
	ws := slices.DeleteFunc(l.windows(), Window.OfTokens)
	if len(ws) == 0 {
		return 0
	}
	return share(slices.MinFunc(ws, func(a, b Window) int { return cmp.Compare(a.Per, b.Per) }), k)
}

// share is one call's part of a window.
func share(w Window, k float64) time.Duration {
	return max(1, time.Duration(float64(w.Per)/(float64(w.Calls)*k)))
}

// group is how far apart starts must be to be timed one by one. Below it they
// go in small groups: a window of one runs from the actual start, so the
// lateness of every start would be lost.
const group = 100 * time.Millisecond

// paced is a limit of one start per interval, or of a small group of starts
// per as many intervals. Windows are whole milliseconds on every wire, so the
// group's span is rounded up, which costs less than rounding each interval.
func paced(bucket string, every time.Duration) limiter.Limit {
	c := max(1, int((group+every-1)/every))
	per := (time.Duration(c)*every + time.Millisecond - 1).Truncate(time.Millisecond)
	return limiter.Limit{Key: bucket, Calls: c, Per: per}
}

func places(bucket string, n int) limiter.Limit {
	return limiter.Limit{Key: bucket, Concurrent: n}
}

// scaled is a number of places under a factor, at least one.
func scaled(n int, factor float64) int { return max(1, int(math.Round(float64(n)*factor))) }

// merged joins limits of equal bucket and window to the smallest.
func merged(limits []limiter.Limit) []limiter.Limit {
	out := limits[:0]
	for _, l := range limits {
		i := slices.IndexFunc(out, func(o limiter.Limit) bool { return o.Key == l.Key && o.Per == l.Per })
		switch {
		case i < 0:
			out = append(out, l)
		case l.Per > 0:
			if l.Calls < out[i].Calls {
				out[i] = l // with what the request costs there
			}
		default:
			out[i].Concurrent = min(out[i].Concurrent, l.Concurrent)
		}
	}
	return out
}
