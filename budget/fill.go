package budget

import (
	"cmp"
	"time"

	"github.com/paceline-proxy/paceline/dialect"
)

// A Fill is how a bucket has been seen to fill. Providers tell an instant, and
// seldom what happens until then.
type Fill struct {
	// Steps is true where the instant stood still while remaining fell: nothing
	// comes back before it.
	Steps bool `json:"steps,omitempty"`
	// Low and High bound the rate of a bucket that fills evenly, per second; 0
	// is not known. Where they contradict each other it is a window that rolls.
	Low  float64 `json:"low,omitempty"`
	High float64 `json:"high,omitempty"`
	// Guess is the rate where answers are too slow to bound it: an instant does
	// not tell from when it counts.
	Guess float64 `json:"guess,omitempty"`
	// Longest is the longest time to full that was told.
	Longest time.Duration `json:"longest,omitempty"`
	// Since is the reading that later ones are compared with.
	Since Mark `json:"since,omitzero"`
}

// A Mark is what a reading said of the filling.
type Mark struct {
	Sent      time.Time `json:"sent"`
	At        time.Time `json:"at"`
	Remaining int64     `json:"remaining"`
}

const (
	// rounding is how far off a told instant may be, with the time that requests
	// take to arrive.
	rounding = 1500 * time.Millisecond
	// apart is how far apart two readings have to be for their instants to be
	// compared.
	apart = 4 * time.Second
)

// after is what is known of the filling after another reading, of which an
// instant was told. A refusal tells nothing of steps: windows that roll and
// windows that step say the same in it.
func (f Fill) after(r Reading, told time.Time, admitted bool) Fill {
	if at := r.Recovery.At; r.Remaining == nil || at.IsZero() || r.Recovery.Kind == dialect.StepAt {
		return f
	}
	// The time to full when the remaining was counted is known exactly where it
	// was told as such. An instant leaves open whether that was when the request
	// came or when its head was made.
	least, most := told.Sub(r.Head), told.Sub(r.Sent)
	if r.Recovery.Relative {
		most = least
	} else {
		least -= time.Second // rounded up
	}
	f.Longest = max(f.Longest, most)
	if r.Limit != nil && most > 0 {
		used := float64(*r.Limit - *r.Remaining)
		f.Low = max(f.Low, (used-1)/most.Seconds()) // what is left is rounded down
		if high := used / least.Seconds(); used > 0 && least > 0 && (f.High == 0 || high < f.High) {
			f.High = high
		}
		if half := 500 * time.Millisecond; used > 0 && most > half { // rounding, on the average
			f.Guess = max(f.Guess, (used-0.5)/(most-half).Seconds())
		}
	}
	if admitted {
		f.step(r)
	}
	return f
}

// step compares the reading with an earlier one.
func (f *Fill) step(r Reading) {
	at := r.Recovery.At
	m := Mark{r.Sent, at, *r.Remaining}
	past := f.Since
	switch dt := r.Sent.Sub(past.Sent); {
	case past.Sent.IsZero() || past.At.Sub(r.Sent) < apart:
		f.Since = m // another window, or nearly
	case dt < apart || m.Remaining >= past.Remaining:
		// Nothing to tell a step by.
	case at.Sub(past.At).Abs() <= rounding:
		f.Steps = true
	case at.Sub(past.At) > dt/2:
		f.Steps, f.Since = false, m
	}
}

// PerSecond is the rate at which a bucket fills evenly, 0 where it is not
// known.
func (r Reading) PerSecond() float64 {
	if r.Recovery.Kind == dialect.Continuous {
		return r.Recovery.PerSecond
	}
	f := r.Fill
	switch window := cmp.Or(Window(r.Snapshot), f.Longest); {
	case r.Recovery.Kind == dialect.StepAt || f.Steps || r.Limit == nil:
		return 0
	case window > 0 && window < 4*rounding: // too short for a told instant to show more
		return float64(*r.Limit) / window.Seconds()
	case f.even():
		return f.High
	case f.High == 0:
		return f.Guess
	case window > 0:
		return float64(*r.Limit) / window.Seconds()
	}
	return 0
}

// even reports whether what was told is that of a bucket that fills evenly.
func (f Fill) even() bool { return f.High > 0 && f.Low <= 1.1*f.High }

// rolls is the length of a window that rolls, 0 where it is none, with what
// requests may differ by on their way.
func (r Reading) rolls() time.Duration {
	if k := r.Recovery.Kind; k == dialect.StepAt || k == dialect.Continuous || r.Limit == nil || r.Fill.Steps || r.Fill.even() || r.Fill.High == 0 {
		return 0
	}
	window := cmp.Or(Window(r.Snapshot), r.Fill.Longest)
	return window + window/rollSlack
}

// rollSlack is the part of a window that rolls by which it is lengthened.
const rollSlack = 50

// A shape is how a bucket is taken to fill.
type shape int

const (
	unknown shape = iota
	steps
	evenly
	rolling
)

func (r Reading) shape() shape {
	switch {
	case r.rolls() > 0:
		return rolling
	case r.PerSecond() > 0:
		return evenly
	case !r.stepsAt().IsZero():
		return steps
	}
	return unknown
}

// stepsAt is the instant at which a bucket is full at once, zero where it is
// not one that steps.
func (r Reading) stepsAt() time.Time {
	if r.Recovery.Kind == dialect.Continuous || r.PerSecond() > 0 {
		return time.Time{}
	}
	return r.Recovery.At
}

// Window is the length of a told window, 0 where it is not one of a known
// length.
func Window(b dialect.Snapshot) time.Duration {
	switch b.Window {
	case dialect.Second:
		return time.Second
	case dialect.Minute:
		return time.Minute
	case dialect.Hour:
		return time.Hour
	case dialect.Day:
		return 24 * time.Hour
	}
	return 0
}
