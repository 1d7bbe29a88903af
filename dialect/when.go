package dialect

import (
	"strings"
	"time"
)

// MaxWait is the longest wait worth believing: weekly windows and monthly
// spend caps are real, more is an epoch in the wrong field or a mistake. A
// [Reading] reports what was said even beyond it, with the raw value in Why;
// whoever waits takes such a wait for not said.
const MaxWait = 35 * 24 * time.Hour

// longestDelay is the largest wait any grammar here can say: nine digits of
// seconds.
const longestDelay = 999_999_999 * time.Second

// parseWhen reads a delay or an instant and returns how far it is from now. A
// bare number counts units up to nine digits; ten digits are epoch seconds and
// thirteen epoch milliseconds, whatever the unit. What is negative, past, too
// large or in no known grammar is not said, never zero.
func parseWhen(s string, now time.Time, unit time.Duration) (time.Duration, bool) {
	s = strings.TrimSpace(s)
	if whole, fraction, ok := decimal(s); ok {
		return parseNumber(whole, fraction, now, unit)
	}
	if d, ok := parseDuration(s); ok {
		return believable(d)
	}
	if t, ok := parseDate(s); ok {
		return believable(t.Sub(now))
	}
	return 0, false
}

// parseNumber reads a bare number by how many digits it has.
func parseNumber(whole, fraction string, now time.Time, unit time.Duration) (time.Duration, bool) {
	whole = strings.TrimLeft(whole, "0")
	scale := time.Second
	switch n := len(whole); {
	case n <= 9:
		d, ok := scaled(whole, fraction, unit)
		if !ok {
			return 0, false
		}
		return believable(d)
	case n == 10:
	case n == 13:
		scale = time.Millisecond
	default:
		return 0, false
	}
	since, ok := scaled(whole, fraction, scale)
	if !ok {
		return 0, false
	}
	return believable(time.Unix(0, 0).Add(since).Sub(now))
}

// believable refuses the negative and what only an overflow can have made.
func believable(d time.Duration) (time.Duration, bool) {
	if d < 0 || d > longestDelay {
		return 0, false
	}
	return d, true
}

// roundUp is d in whole milliseconds, never less than said.
func roundUp(d time.Duration) time.Duration {
	if rest := d % time.Millisecond; rest > 0 {
		d += time.Millisecond - rest
	}
	return d
}
