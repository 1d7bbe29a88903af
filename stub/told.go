package stub

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

// told is the end of the longest wait told and not yet over.
type told struct {
	since, until time.Time
}

// early says whether a request that was sent after a wait was told arrived
// before its end. One that was already under way is not to blame.
func (t *told) early(sent, now time.Time) bool {
	return sent.After(t.since) && now.Before(t.until)
}

// tell remembers a wait as a client reads it, so after rounding.
func (t *told) tell(now time.Time, wait time.Duration, form RetryAfter) {
	until := now
	switch form {
	case RetryAfterNone, RetryAfterZero:
		return
	case RetryAfterMS, RetryAfterDecimal:
		until = now.Add(roundUp(wait, time.Millisecond))
	case RetryAfterDate:
		until = ceilSecond(now.Add(wait))
	default:
		until = now.Add(roundUp(wait, time.Second))
	}
	if !t.until.After(now) {
		t.since = now
	}
	if until.After(t.until) {
		t.until = until
	}
}

// setRetryAfter tells a wait that began at now in one form.
func setRetryAfter(h http.Header, now time.Time, wait time.Duration, form RetryAfter) {
	switch form {
	case RetryAfterNone:
	case RetryAfterZero:
		h.Set("Retry-After", "0")
	case RetryAfterDecimal:
		h.Set("Retry-After", decimal.write(now.Add(wait), now))
	case RetryAfterMS:
		h.Set("Retry-After-Ms", strconv.FormatInt(int64(roundUp(wait, time.Millisecond)/time.Millisecond), 10))
	case RetryAfterDate:
		h.Set("Retry-After", ceilSecond(now.Add(wait)).UTC().Format(http.TimeFormat))
	default:
		h.Set("Retry-After", strconv.FormatInt(int64(roundUp(wait, time.Second)/time.Second), 10))
	}
}

// roundUp never tells less than the truth.
func roundUp(d, unit time.Duration) time.Duration {
	if d > math.MaxInt64-unit {
		return d / unit * unit
	}
	return (d + unit - 1) / unit * unit
}

func ceilSecond(t time.Time) time.Time {
	if whole := t.Truncate(time.Second); whole.Before(t) {
		return whole.Add(time.Second)
	}
	return t
}
