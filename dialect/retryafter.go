package dialect

import (
	"strings"
	"time"
)

// parseRetryAfter reads Retry-After: of several lines, or of members joined by
// a proxy, the longest valid one. A date has a comma of its own.
func parseRetryAfter(lines []string, now time.Time, unit time.Duration) (time.Duration, bool) {
	var longest time.Duration
	found := false
	take := func(member string) bool {
		d, ok := parseWhen(member, now, unit)
		if ok {
			longest, found = max(longest, d), true
		}
		return ok
	}
	for _, line := range lines {
		if len(line) > maxListLine || take(line) {
			continue
		}
		members := strings.Split(line, ",")
		for i := 0; i < len(members); i++ {
			if i+1 < len(members) && weekday(members[i]) {
				if take(members[i] + "," + members[i+1]) {
					i++
					continue
				}
			}
			take(members[i])
		}
	}
	return longest, found
}

// maxListLine bounds what is split: no honest list is longer.
const maxListLine = 4096

// weekday is true for what stands before a date's comma.
func weekday(s string) bool {
	s = strings.TrimSpace(s)
	if len(s) < 3 {
		return false
	}
	_, known := weekdays[strings.ToLower(s[:3])]
	return known
}

var weekdays = map[string]struct{}{"mon": {}, "tue": {}, "wed": {}, "thu": {}, "fri": {}, "sat": {}, "sun": {}}
