package stub

import (
	"net/http"
	"strconv"
	"time"
)

// setBudget tells what is left of the first meter, as it was at now.
//
// The limit told is what the meter holds when full, so a bucket's Burst: the
// reset is the time until remaining is limit again, and a client that divides
// one by the other gets the true rate.
func setBudget(h http.Header, dialect Headers, b budget, now time.Time) {
	limit, remaining := strconv.Itoa(b.limit), strconv.Itoa(b.remaining)
	switch dialect {
	case HeadersOpenAI:
		h.Set("X-Ratelimit-Limit-Requests", limit)
		h.Set("X-Ratelimit-Remaining-Requests", remaining)
		h.Set("X-Ratelimit-Reset-Requests", roundUp(b.full.Sub(now), time.Millisecond).String())
	case HeadersAnthropic:
		h.Set("Anthropic-Ratelimit-Requests-Limit", limit)
		h.Set("Anthropic-Ratelimit-Requests-Remaining", remaining)
		h.Set("Anthropic-Ratelimit-Requests-Reset", ceilSecond(b.full).UTC().Format(time.RFC3339))
	}
}

// headBudget sets the headers of an answer whose head is written now.
func (s *Stub) headBudget(h http.Header, v verdict) {
	if !v.told {
		return
	}
	b, at := v.budget, v.arrived
	if s.config.HeadersAt == AtHead {
		s.mu.Lock()
		at = time.Now()
		b, _ = s.budget(at)
		s.mu.Unlock()
	}
	setBudget(h, s.config.Headers, b, at)
}
