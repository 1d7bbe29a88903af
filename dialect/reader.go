package dialect

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A reader is the shared way of reading, with what one provider adds. The zero
// reader reads what everybody means by the same words.
type reader struct {
	// judge decides a class where the provider has words or codes of its own;
	// false leaves it to the shared rules.
	judge func(*answer) (class Class, why string, ok bool)
	// hidden tells a refusal under a status of success by the provider's headers.
	hidden func(*answer) bool
	// budgets adds what the provider's own headers tell to what the common ones
	// tell, and may know more of these.
	budgets func(a *answer, common []bucket) []bucket
	// requests and tokens are the windows of buckets whose names say none.
	requests, tokens string
	// recovery is how the provider's buckets fill. "": not known.
	recovery Recovers
	// fixed: the windows behind its IETF fields turn as a whole, so that t is when
	// all is there again, not when there is more.
	fixed bool
	// wall: its windows turn with the minutes and hours of the wall clock.
	wall bool
	// zone is how far from UTC its days turn, and spends the window that its
	// spending is bounded by.
	zone   time.Duration
	spends string
	// least is the shortest wait after a refusal that says none, by the
	// provider's own rules.
	least func(*answer) time.Duration
	// waits are headers of its own that state a wait in seconds.
	waits []string
	// concurrent: a refusal for a rate is about requests that run at once.
	concurrent bool
}

// read is a Dialect's Read.
func (p reader) read(h Head, body []byte) Reading {
	a := newAnswer(h, body)
	a.refused = a.refused || p.hidden != nil && p.hidden(a)
	buckets, concurrent := p.buckets(a)
	var r Reading
	if !a.refused {
		r.Class, r.Why = OK, fmt.Sprintf("status %d", a.status)
		r.Buckets = snapshots(buckets)
		return r
	}
	a.readNames()
	buckets = a.mergeNamed(buckets)

	r.Class, r.Concurrent, r.Why = p.class(a)
	limited := r.Class == RateLimited || r.Class == QuotaExhausted
	if r.Class == RateLimited {
		r.Concurrent = r.Concurrent || concurrent || p.concurrent || a.namesConcurrency()
		r.TooLarge = a.status == 413 || slices.ContainsFunc(a.said, refusedLimit.tooLarge) ||
			a.says("request too large")
	}
	if r.Class == RateLimited && !r.TooLarge {
		if why, long := a.longWindow(buckets); long && !r.Concurrent {
			r.Class, r.Why = QuotaExhausted, why
		}
	}
	if !r.TooLarge {
		p.wait(a, &r, buckets, limited)
	}
	if r.Class == RateLimited && r.Told && r.Wait >= time.Hour && !r.Concurrent && !a.namesShort() {
		r.Class = QuotaExhausted
		r.Why += ", an hour or more"
	}
	switch {
	case r.Told:
	case r.Class == QuotaExhausted:
		r.Turns = p.spent(a, buckets)
	case r.Class == RateLimited && p.least != nil:
		r.Least = p.least(a)
	}
	r.Named = limited && (a.namesLimit() || anyExhausted(buckets))
	r.Buckets = snapshots(buckets)
	return r
}

// buckets are all budgets in the headers: the provider's and the IETF's.
func (p reader) buckets(a *answer) (out []bucket, concurrent bool) {
	out = windowed(familyBuckets(a, familyPrefixes), p.requests, p.tokens)
	if p.budgets != nil {
		out = p.budgets(a, out)
	}
	kind := p.recovery
	if kind == UnknownRecovery {
		kind = ResetAt
	}
	out = settled(a, out, kind)
	p.turning(a, out)
	standard, concurrent := ietfBuckets(a)
	kind = ResetAt
	if p.fixed {
		kind = StepAt
	}
	return append(out, settled(a, standard, kind)...), concurrent
}

func settled(a *answer, in []bucket, kind Recovers) []bucket {
	out := in[:0]
	for _, b := range in {
		k := kind
		if b.Recovery.Kind != UnknownRecovery {
			k = b.Recovery.Kind
		}
		if b.settle(a.Head, k) {
			out = append(out, b)
		}
	}
	return out
}

func snapshots(buckets []bucket) []Snapshot {
	if len(buckets) == 0 {
		return nil
	}
	out := make([]Snapshot, len(buckets))
	for i := range buckets {
		out[i] = buckets[i].Snapshot
	}
	return out
}

func anyExhausted(buckets []bucket) bool {
	for i := range buckets {
		if buckets[i].exhausted() {
			return true
		}
	}
	return false
}

// class decides what kind of refusal it is, before anybody looks at a wait.
func (p reader) class(a *answer) (class Class, concurrent bool, why string) {
	if p.judge != nil {
		if class, why, ok := p.judge(a); ok {
			return class, false, why
		}
	}
	status := fmt.Sprintf("status %d", a.status)
	switch {
	case a.Status < 100:
		status = "no answer came"
	case a.status == 0:
		status = "an error of no known kind in place of an answer"
	}
	v, code := judgeCodes(a.fault.codes)
	// An error under a status of success has none of its own.
	hidden := a.status == 0 && a.Status >= 100
	says := "code " + a.fault.spelled[code]
	switch {
	case a.status == 402:
		return Billing, false, status
	case code == "slowdown" && a.status >= 500:
		return Overloaded, false, says
	case code != "" && v.class == Unavailable && (a.status == 429 || a.status == 0):
		if strings.HasPrefix(code, "modelnotready") || a.status == 0 {
			return Unavailable, false, says
		}
	case code != "" && v.class != Unavailable && !vague(code, v, a.status):
		return v.class, v.concurrent, says
	}
	switch {
	case a.status == 529, a.status == 498:
		return Overloaded, false, status
	case (a.status == 429 || a.status >= 500 || hidden) && a.says(busyWords...):
		return Overloaded, false, "its message says that the provider is full"
	case a.status == 429:
		return RateLimited, v.concurrent, status
	case (a.status == 403 || hidden) && a.says(rateWords...):
		return RateLimited, v.concurrent, "its message names a rate limit"
	case a.status == 403 && a.fields.get("x-ratelimit-remaining") == "0":
		return RateLimited, v.concurrent, "status 403 with X-Ratelimit-Remaining: 0"
	case a.status >= 500 || a.Status < 100:
		return Unavailable, false, status
	}
	return Rejected, false, status
}

// vague is true for a code that says less than the status beside it: Google's
// word for any limit on a 5xx, a concurrent change of something on a 409.
func vague(code string, v verdict, status int) bool {
	if v.concurrent {
		return status > 403 && status < 429
	}
	return code == "resourceexhausted" && status >= 500
}

// Words that decide where there is no code. Text never decides a billing.
var (
	busyWords = []string{"overloaded", "server busy", "at capacity", "over capacity", "maximum pending requests", "queue is full", "queue full"}
	rateWords = []string{"rate limit", "rate-limit", "ratelimit", "too many requests", "quota exceeded for"}
)

// says is true where a sentence of the refusal holds one of the words.
func (a *answer) says(words ...string) bool {
	for _, t := range a.fault.texts {
		t = strings.ToLower(t)
		for _, w := range words {
			if strings.Contains(t, w) {
				return true
			}
		}
	}
	return false
}

// namesConcurrency is true where the limit is on requests that run at once.
func (a *answer) namesConcurrency() bool {
	return strings.Contains(strings.ToLower(a.fields.get("x-ratelimit-type")), "concurren") || a.says("concurren")
}
