package dialect

import (
	"strings"
	"time"
)

// dateForms are the dates providers write. Day numbers without a leading zero
// parse under "2"; a weekday must be one but need not be the right one.
var dateForms = []string{
	"Mon, 2 Jan 2006 15:04:05 GMT",
	"Mon, 2 Jan 2006 15:04:05 UTC",
	"Mon, 2 Jan 2006 15:04:05 -0700",
	"Monday, 2-Jan-06 15:04:05 GMT",
	"Monday, 2-Jan-06 15:04:05 -0700",
	time.ANSIC,
	"Mon Jan 02 2006 15:04:05 GMT-0700", // JavaScript's
	time.RFC3339,
	"2006-01-02T15:04:05",
	"2006-01-02 15:04:05Z07:00",
	"2006-01-02 15:04:05",
}

// parseDate reads the three HTTP forms, also with a one-digit day or a numeric
// zone, and RFC 3339 with or without a zone. No zone is UTC.
func parseDate(s string) (time.Time, bool) {
	if len(s) < len("2006-01-02 15:04:05") || len(s) > 80 || !strings.ContainsRune(s, ':') {
		return time.Time{}, false
	}
	// JavaScript says its zone twice.
	if before, zone, found := strings.Cut(s, " ("); found && strings.HasSuffix(zone, ")") {
		s = before
	}
	for _, form := range dateForms {
		if t, err := time.Parse(form, s); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}
