package limitertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// A Subject is a limiter under test, and what a case needs around it.
type Subject struct {
	limiter.Limiter

	// Unit is what the durations of a case are multiples of.
	Unit time.Duration
	// Tolerance is by how much a RetryAt may be late.
	Tolerance time.Duration

	prefix string
	reopen func(limiter.Limiter) limiter.Limiter // nil: nothing outlives it
	host   func(limiter.Limiter) limiter.Limiter // nil: nobody shares it

	begun  time.Time
	asleep *time.Duration // for how long it meant to sleep
}

func fresh() string { return fmt.Sprintf("%016x", rand.Uint64()) }

// Key makes a name that no other case and no other run uses.
func (s *Subject) Key(name string) string { return s.prefix + name }

// Units is n times the unit.
func (s *Subject) Units(n float64) time.Duration { return time.Duration(n * float64(s.Unit)) }

// Sleep passes time. Where time is real it may take longer.
func (s *Subject) Sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	*s.asleep += d
	time.Sleep(d)
}

// late says whether so much more time passed than the case slept, in its sleeps
// or between any two of its steps, that it may have failed for that.
func (s *Subject) late() bool { return time.Since(s.begun)-*s.asleep > s.Unit/8 }

// Until passes time until a decision's RetryAt, less a little.
func (s *Subject) Until(d limiter.Decision, less time.Duration) { s.Sleep(d.RetryAfter() - less) }

// Rate is a window of a bucket. per is in units.
func (s *Subject) Rate(bucket string, calls int, per float64) limiter.Limit {
	return limiter.Limit{Key: s.Key(bucket), Calls: calls, Per: s.Units(per)}
}

// Places is a number of places of a bucket.
func (s *Subject) Places(bucket string, n int) limiter.Limit {
	return limiter.Limit{Key: s.Key(bucket), Concurrent: n}
}

// By makes a request of a caller, with a hold that outlasts the case.
func (s *Subject) By(caller string, limits ...limiter.Limit) limiter.Request {
	return limiter.Request{Key: s.Key(caller), Limits: limits, Hold: s.Units(1000)}
}

// Ask puts a request. It is an error where the answer contradicts itself.
func (s *Subject) Ask(r limiter.Request) (limiter.Decision, error) {
	d, err := s.Acquire(context.Background(), r)
	if err != nil {
		return d, fmt.Errorf("acquire: %w", err)
	}
	return d, sensible(d)
}

// sensible says how an answer contradicts itself.
func sensible(d limiter.Decision) error {
	switch {
	case d.Granted && len(d.Refused) > 0:
		return fmt.Errorf("granted, yet refused by %v", d.Refused)
	case !d.Granted && len(d.Refused) == 0:
		return fmt.Errorf("refused by nothing")
	case !d.Granted && !d.RetryAt.After(d.Now):
		return fmt.Errorf("refused, to be asked again at once: retryAt is now%+v", d.RetryAfter())
	}
	var latest time.Time
	for _, f := range d.Refused {
		if f.RetryAt.After(latest) {
			latest = f.RetryAt
		}
	}
	if !d.Granted && !latest.Equal(d.RetryAt) {
		return fmt.Errorf("retryAt is now%+v, the latest of its causes now%+v", d.RetryAfter(), latest.Sub(d.Now))
	}
	return nil
}

// Granted asks for a call that must be granted.
func (s *Subject) Granted(what string, r limiter.Request) (limiter.Decision, error) {
	d, err := s.Ask(r)
	if err == nil && !d.Granted {
		err = fmt.Errorf("refused by %s", causes(d))
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return d, err
}

// Refused asks for a call that must be refused, for one of the causes given.
func (s *Subject) Refused(what string, r limiter.Request, want ...limiter.Cause) (limiter.Decision, error) {
	d, err := s.Ask(r)
	switch {
	case err != nil:
	case d.Granted:
		err = fmt.Errorf("granted")
	default:
		for _, c := range want {
			if !refusedFor(d, c) {
				err = fmt.Errorf("not refused for %s, only by %s", c, causes(d))
			}
		}
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return d, err
}

// Fill asks n times for calls that must be granted, and returns the first
// answer and the last.
func (s *Subject) Fill(n int, r limiter.Request) (first, last limiter.Decision, err error) {
	for i := range n {
		last, err = s.Granted(fmt.Sprintf("call %d of %d", i+1, n), r)
		if err != nil {
			return first, last, err
		}
		if i == 0 {
			first = last
		}
	}
	return first, last, nil
}

// At says whether a refusal names an instant, or one a little later.
func (s *Subject) At(what string, d limiter.Decision, want time.Time) error {
	if off := d.RetryAt.Sub(want); off < 0 || off > s.Tolerance {
		return fmt.Errorf("%s: retryAt is %v off: now%+v instead of now%+v", what, off, d.RetryAfter(), want.Sub(d.Now))
	}
	return nil
}

// Opens holds a refusal to its word: the call is refused until its RetryAt and
// granted from then on.
func (s *Subject) Opens(refusal limiter.Decision, r limiter.Request) (limiter.Decision, error) {
	for _, less := range []time.Duration{refusal.RetryAfter() / 2, s.Unit / 8, 1} {
		s.Until(refusal, less)
		d, err := s.Ask(r)
		if err != nil {
			return d, err
		}
		early := refusal.RetryAt.Sub(d.Now)
		switch {
		case d.Granted && early > s.Tolerance:
			return d, fmt.Errorf("granted %v before retryAt", early)
		case d.Granted:
			return d, nil
		case early <= 0: // a sleep was late
			return d, fmt.Errorf("refused %v after retryAt, by %s", -early, causes(d))
		}
		refusal = d
	}
	s.Until(refusal, 0)
	return s.Granted("at retryAt", r)
}

func refusedFor(d limiter.Decision, c limiter.Cause) bool {
	for _, f := range d.Refused {
		if f.Cause == c {
			return true
		}
	}
	return false
}

func causes(d limiter.Decision) string {
	text := ""
	for _, f := range d.Refused {
		text += fmt.Sprintf("%s of %q until now%+v; ", f.Cause, f.Key, f.RetryAt.Sub(d.Now))
	}
	return text
}
