package dialect

import (
	"strings"
	"time"
)

// durationUnits in the order they are tried: "ms" before "m".
var durationUnits = []struct {
	suffix string
	unit   time.Duration
}{
	{"ms", time.Millisecond},
	{"us", time.Microsecond},
	{"µs", time.Microsecond},
	{"μs", time.Microsecond},
	{"ns", time.Nanosecond},
	{"d", 24 * time.Hour},
	{"h", time.Hour},
	{"m", time.Minute},
	{"s", time.Second},
}

// parseDuration reads Go's duration grammar with days added: "6m0s",
// "1m30.951s", "300ms", "1d2h". Signs, spaces, exponents, ISO 8601 and bare
// numbers are not durations, nor is what overflows.
func parseDuration(s string) (time.Duration, bool) {
	if s == "" || len(s) > 64 {
		return 0, false
	}
	var sum time.Duration
	for s != "" {
		end := 0
		for end < len(s) && (s[end] == '.' || s[end] >= '0' && s[end] <= '9') {
			end++
		}
		whole, fraction, ok := decimal(s[:end])
		if !ok {
			return 0, false
		}
		unit := time.Duration(0)
		s = s[end:]
		for _, u := range durationUnits {
			if rest, found := strings.CutPrefix(s, u.suffix); found {
				unit, s = u.unit, rest
				break
			}
		}
		if unit == 0 {
			return 0, false
		}
		part, ok := scaled(whole, fraction, unit)
		if !ok || part > maxDuration-sum {
			return 0, false
		}
		sum += part
	}
	return sum, true
}
