package policy

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/paceline-proxy/paceline/dialect"
)

// Retry is how long and how often one request is tried. Every 0 means the
// default of the provider's entry; a negative number of tries means none.
type Retry struct {
	// Max bounds the tries after a rate limit (6), Max5xx those after a server
	// error or a lost connection (2). Each kind spends only its own.
	Max    int
	Max5xx int
	// Base is the first wait where the provider states none (2 s); it doubles
	// up to a minute.
	Base time.Duration
	// MaxWait is the longest rest of a pause that a request waits for (10
	// min). It bounds how long a caller is held, never how long the key stays
	// closed.
	MaxWait time.Duration
	// Overload is how long a request is tried while the provider says that it
	// is full (2 min).
	Overload time.Duration
	// WaitForCapacity waits for pauses without bound and does not count tries
	// after rate limits.
	WaitForCapacity bool
}

// Or fills what r leaves open with what the entry's defaults say.
func (r Retry) Or(d Retry) Retry {
	r.Max = or(r.Max, d.Max)
	r.Max5xx = or(r.Max5xx, d.Max5xx)
	r.Base = or(r.Base, d.Base)
	r.MaxWait = or(r.MaxWait, d.MaxWait)
	r.Overload = or(r.Overload, d.Overload)
	r.WaitForCapacity = r.WaitForCapacity || d.WaitForCapacity
	return r
}

// Validate reports every impossible value at once.
func (r Retry) Validate() error {
	var errs []error
	if r.Base < 0 {
		errs = append(errs, fmt.Errorf("Retry.Base is %v: a wait is not negative", r.Base))
	}
	if r.Overload < 0 {
		errs = append(errs, fmt.Errorf("Retry.Overload is %v: a time is not negative", r.Overload))
	}
	return errors.Join(errs...)
}

// Patience is the longest rest of a pause that is waited for; negative is
// without bound.
func (r Retry) Patience() time.Duration {
	if r.WaitForCapacity {
		return -1
	}
	return max(0, r.MaxWait)
}

const maxBackoff = time.Minute

// mostLeast bounds the waits where a provider's rules have a least one, so that
// they are not looked at before they end.
const mostLeast = 8 * time.Minute

// backoff is the n-th wait that nobody stated: base doubled n times, at most
// a minute, plus up to a quarter and never minus.
func backoff(base time.Duration, n int) time.Duration {
	return jittered(jitterless(base, n, maxBackoff))
}

func jittered(d time.Duration) time.Duration { return d + rand.N(d/4+1) }

func jitterless(base time.Duration, n int, most time.Duration) time.Duration {
	for ; n > 0 && base < most; n-- {
		base *= 2
	}
	return min(base, most)
}

// A Tally is what one request has spent of its tries.
type Tally struct {
	Refused int // answers of class rate_limited
	Failed  int // answers of class unavailable
	Full    int // answers of class overloaded
	// FullSince is when the first of them came, SpentSince when the first that
	// said that a quota is spent.
	FullSince, SpentSince time.Time
}

// A Verdict is whether a request is tried again.
type Verdict struct {
	Again bool
	// NotBefore is this request's own wait; pauses of the key come from Plan.
	// OrRelease ends it when another request of the key ends.
	NotBefore time.Time
	OrRelease bool
	// GiveUp says that the tries are used up, so that the caller's SDK does
	// not start a round of its own.
	GiveUp bool
}

// Judge says what follows for one request from an answer at now. repeatable
// is whether a failure may be repeated without doing something twice.
func (r Rules) Judge(t *Tally, g dialect.Reading, now time.Time, repeatable bool) Verdict {
	switch g.Class {
	case dialect.RateLimited:
		return r.judgeRefusal(t, g, now)
	case dialect.QuotaExhausted:
		// Its pause decides, by the caller's patience. A quota that says
		// nothing of its end is not one to wait for unasked.
		if t.SpentSince.IsZero() {
			t.SpentSince = now
		}
		wait := g.Turns
		if g.Told {
			wait = g.Wait
		}
		bearable := r.Retry.WaitForCapacity || r.WaitForQuota ||
			wait > 0 && now.Add(wait).Sub(t.SpentSince) <= r.Retry.Patience()
		return Verdict{Again: bearable, GiveUp: !bearable}
	case dialect.Overloaded:
		if t.FullSince.IsZero() {
			t.FullSince = now
		}
		wait := time.Duration(0)
		if !g.Told || g.Wait == 0 {
			wait = jittered(jitterless(time.Second, t.Full, 30*time.Second))
		}
		t.Full++
		if now.Add(max(wait, g.Wait)).Sub(t.FullSince) > r.Retry.Overload {
			return Verdict{GiveUp: true}
		}
		return Verdict{Again: true, NotBefore: now.Add(wait)}
	case dialect.Unavailable:
		if !repeatable {
			return Verdict{}
		}
		if t.Failed >= r.Retry.Max5xx {
			return Verdict{GiveUp: true}
		}
		wait := backoff(r.Retry.Base, t.Failed)
		t.Failed++
		return Verdict{Again: true, NotBefore: now.Add(wait)}
	}
	return Verdict{}
}

func (r Rules) judgeRefusal(t *Tally, g dialect.Reading, now time.Time) Verdict {
	if g.TooLarge {
		return Verdict{GiveUp: true}
	}
	if t.Refused >= r.Retry.Max && !r.Retry.WaitForCapacity {
		return Verdict{GiveUp: true}
	}
	v := Verdict{Again: true}
	if g.Concurrent && !(g.Told && g.Wait > 0) {
		// No clock frees a place: one of ours that ends does, or somebody
		// else's, which nobody tells us of.
		v.NotBefore, v.OrRelease = now.Add(backoff(r.Retry.Base, t.Refused)), true
	}
	t.Refused++
	return v
}
