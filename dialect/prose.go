package dialect

import (
	"regexp"
	"strings"
	"time"
)

var (
	waitPhrase = regexp.MustCompile(`\b(?:try again|retry|retrying|resets?|wait)\s+(?:(?:in|after)\s+)?(?:about\s+|approximately\s+)?([0-9][0-9.]*)`)
	spelled    = regexp.MustCompile(`^\s?(milliseconds?|seconds?|secs?|minutes?|mins?|hours?|days?)\b`)
	untilDate  = regexp.MustCompile(`\bregain access on ([0-9]{4}-[0-9]{2}-[0-9]{2}) at ([0-9]{2}:[0-9]{2}) utc\b`)
)

var spelledUnits = []struct {
	prefix string
	unit   time.Duration
}{
	{"milli", time.Millisecond}, {"sec", time.Second}, {"min", time.Minute},
	{"hour", time.Hour}, {"day", 24 * time.Hour},
}

// proseWait reads "try again in 1h53m56.832s", "retry after 86400 seconds" and
// the like. A number without a unit is not a wait: sentences count other
// things too.
func proseWait(text string, now time.Time) (time.Duration, bool) {
	text = strings.ToLower(text)
	if m := untilDate.FindStringSubmatch(text); m != nil {
		return parseWhen(m[1]+"T"+m[2]+":00Z", now, time.Second)
	}
	for _, m := range waitPhrase.FindAllStringSubmatchIndex(text, 8) {
		if d, ok := leadingDuration(text[m[2]:]); ok {
			return believable(d)
		}
	}
	return 0, false
}

// leadingDuration reads the duration a text begins with, in Go's form or as a
// number and a word.
func leadingDuration(s string) (time.Duration, bool) {
	end := strings.IndexFunc(s, func(r rune) bool {
		return r != '.' && (r < '0' || r > '9')
	})
	if end < 0 {
		return 0, false
	}
	if word := spelled.FindStringSubmatch(s[end:]); word != nil {
		whole, fraction, ok := decimal(s[:end])
		if !ok {
			return 0, false
		}
		for _, u := range spelledUnits {
			if strings.HasPrefix(word[1], u.prefix) {
				return scaled(whole, fraction, u.unit)
			}
		}
	}
	stop := strings.IndexFunc(s, func(r rune) bool {
		return r != '.' && r != 'µ' && r != 'μ' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
	})
	if stop >= 0 {
		s = s[:stop]
	}
	return parseDuration(strings.TrimRight(s, "."))
}
