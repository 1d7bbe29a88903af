package dialect

import (
	"slices"
	"strings"
	"time"
)

// familyPrefixes are the beginnings under which providers report budgets as
// one header a number.
var familyPrefixes = []string{"x-ratelimit-", "x-rate-limit-", "ratelimit-"}

// familyBuckets reads the x-ratelimit headers and their relatives, grouped by
// what their names say.
func familyBuckets(a *answer, prefixes []string) []bucket {
	var groups map[string]*bucket // most answers have none
	for name, lines := range a.fields {
		part, suffix, ok := splitName(name, prefixes)
		if !ok {
			continue
		}
		n, ok := parseBucketName(suffix)
		if !ok {
			continue
		}
		b := groups[suffix]
		if b == nil {
			b = &bucket{}
			b.Unit, b.Window, b.Scope, b.long = n.unit, n.window, n.scope, n.long
			b.told, b.plain = n.told, suffix == ""
			b.firm = n.long
			if groups == nil {
				groups = make(map[string]*bucket)
			}
			groups[suffix] = b
		}
		b.take(part, lines, a.now())
	}
	if groups == nil {
		return nil
	}
	out := make([]bucket, 0, len(groups))
	for _, suffix := range sortedKeys(groups) {
		out = append(out, *groups[suffix])
	}
	return out
}

// splitName takes a header's name apart: which number it holds, and the words
// that say of which bucket. The number's word stands first or last.
func splitName(name string, prefixes []string) (part, suffix string, ok bool) {
	for _, p := range prefixes {
		rest, found := strings.CutPrefix(name, p)
		// An underscore marks a twin that repeats another bucket.
		if !found || strings.Contains(rest, "_") {
			continue
		}
		first, after, _ := strings.Cut(rest, "-")
		if slices.Contains(parts, first) {
			if rest, relative := strings.CutPrefix(after+"-", "after-"); relative && first == "reset" {
				return "reset-after", strings.TrimSuffix(rest, "-"), true
			}
			return first, after, true
		}
		if i := strings.LastIndexByte(rest, '-'); i > 0 && slices.Contains(parts, rest[i+1:]) {
			return rest[i+1:], rest[:i], true
		}
	}
	return "", "", false
}

var parts = []string{"limit", "remaining", "reset", "renewalperiod"}

// take adds one header to the bucket.
func (b *bucket) take(part string, lines []string, now time.Time) {
	switch part {
	case "limit":
		c, window := readLimitLines(lines)
		// Two names of one bucket are two opinions: the tighter one binds.
		if !b.limit.said || c.said && c.n < b.limit.n {
			b.limit = c
		}
		b.garbled = b.garbled || !c.said
		if window.name != "" {
			b.Window, b.long, b.told = window.name, window.long, true
		}
	case "remaining":
		c := smallest(lines)
		if !b.remaining.said || c.said && c.n < b.remaining.n {
			b.remaining = c
		}
		b.garbled = b.garbled || !c.said
	case "reset":
		// A delay beside it is right whatever the clocks say.
		if d, ok := parseRetryAfter(lines, now, time.Second); ok && !b.after && (!b.resetSaid || d > b.reset) {
			b.reset, b.resetSaid = d, true
			later, _ := parseRetryAfter(lines, now.Add(time.Hour), time.Second)
			b.relative = later == d
		}
	case "reset-after":
		if d, ok := parseRetryAfter(lines, now, time.Second); ok {
			b.reset, b.resetSaid, b.after, b.relative = d, true, true, true
		}
	case "renewalperiod":
		if c := smallest(lines); c.said {
			if w := seconds(c.n); w.name != "" {
				b.Window, b.long, b.told = w.name, w.long, true
			}
		}
	}
}

// smallest is the smallest number on all lines: where a gateway and the
// provider behind it both wrote a header, the tighter one binds.
func smallest(lines []string) count {
	var least count
	for _, line := range lines {
		for _, member := range members(line) {
			if c := parseCount(member); c.said && (!least.said || c.n < least.n) {
				least = c
			}
		}
	}
	return least
}

// members are the entries of a joined line, and the line itself where its
// commas separate thousands.
func members(line string) []string {
	if len(line) > maxListLine || ungroup(line) != line {
		return []string{line}
	}
	return strings.Split(line, ",")
}

// readLimitLines reads a limit. Older drafts of the IETF fields repeat it with
// its window behind a comma, "100, 100;w=60": the first number is in force.
func readLimitLines(lines []string) (count, span) {
	for _, line := range lines {
		all := members(line)
		first := all[0]
		if head, _, found := strings.Cut(first, ";"); found {
			first = head
		}
		limit := parseCount(first)
		for _, m := range all {
			value, params, found := strings.Cut(m, ";")
			if !found {
				continue
			}
			_, w, found := strings.Cut(strings.ReplaceAll(params, " ", ""), "w=")
			w, _, _ = strings.Cut(w, ";")
			if found && digits(w) && limit.said && parseCount(value) == limit {
				return limit, seconds(parseCount(w).n)
			}
		}
		if strings.Contains(line, ";") {
			return limit, span{}
		}
	}
	return smallest(lines), span{}
}
