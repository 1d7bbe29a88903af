package paceline

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// statsColumns are the table's, in order.
var statsColumns = []struct {
	name string
	cell func(StatsRow) string
}{
	{"provider/model", func(r StatsRow) string { return r.Key }},
	{"sent", func(r StatsRow) string { return strconv.Itoa(r.Sent) }},
	{"ok", func(r StatsRow) string { return strconv.Itoa(r.OK) }},
	{"429", func(r StatsRow) string { return strconv.Itoa(r.R429) }},
	{"429<lim", func(r StatsRow) string { return strconv.Itoa(r.R429UnderLimit) }},
	{"err", func(r StatsRow) string { return strconv.Itoa(r.Err) }},
	{"retry", func(r StatsRow) string { return strconv.Itoa(r.Retry) }},
	{"tmout", func(r StatsRow) string { return strconv.Itoa(r.Timeout) }},
	{"cache", func(r StatsRow) string { return strconv.Itoa(r.Cache) }},
	{"saved", func(r StatsRow) string { return strconv.Itoa(r.Saved) }},
	{"in tok", func(r StatsRow) string { return strconv.Itoa(r.InTokens) }},
	{"out tok", func(r StatsRow) string { return strconv.Itoa(r.OutTokens) }},
	{"q avg s", func(r StatsRow) string { return strconv.FormatFloat(r.QueueAvg, 'f', 1, 64) }},
	{"peak/min", func(r StatsRow) string { return strconv.Itoa(r.PeakPerMin) }},
	{"avg/min", func(r StatsRow) string { return strconv.FormatFloat(r.AvgPerMin, 'f', 1, 64) }},
	{"tiers", func(r StatsRow) string { return cmp.Or(strings.Join(r.Tiers, ","), "-") }},
}

// WriteTable writes the report for people: a row per model, one per hour or
// day, the total, and what the limits are.
func (s *Stats) WriteTable(w io.Writer) error {
	rows := slices.Concat(s.Models, s.Hours, []StatsRow{s.Total})
	widths := make([]int, len(statsColumns))
	for i, c := range statsColumns {
		widths[i] = len(c.name)
		for _, r := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.cell(r)))
		}
	}
	var b strings.Builder
	line := func(cell func(column int) string) {
		var l strings.Builder
		for i, width := range widths {
			text := cell(i)
			pad := strings.Repeat(" ", width-utf8.RuneCountInString(text))
			switch i {
			case 0, len(widths) - 1: // words
				l.WriteString(text + pad)
			default: // numbers
				l.WriteString(pad + text)
			}
			l.WriteString("  ")
		}
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	section := func(rows []StatsRow) {
		for _, r := range rows {
			line(func(i int) string { return statsColumns[i].cell(r) })
		}
		if len(rows) > 0 {
			b.WriteString("\n")
		}
	}
	line(func(i int) string { return statsColumns[i].name })
	section(s.Models)
	section(s.Hours)
	section([]StatsRow{s.Total})
	b.WriteString(s.footer())
	_, err := io.WriteString(w, b.String())
	return err
}

// footer names the configured limits and what the refusals say about them.
func (s *Stats) footer() string {
	var b strings.Builder
	for _, p := range slices.Sorted(maps.Keys(s.Limits)) {
		fmt.Fprintf(&b, "configured limits of %s: %s\n", p, limitWords(s.Limits[p]))
	}
	if len(s.Limits) == 0 {
		b.WriteString("configured limits: none\n")
	}
	switch t := s.Total; {
	case t.R429 == 0:
		b.WriteString("429s: none\n")
	default:
		fmt.Fprintf(&b, "429s while under every configured limit: %d of %d\n", t.R429UnderLimit, t.R429)
	}
	return b.String()
}

// limitWords says what limits allow.
func limitWords(l Limits) string {
	var words []string
	for _, n := range []struct {
		n   int
		per string
	}{
		{l.MaxPerSecond, "/second"}, {l.MaxPerMinute, "/minute"}, {l.MaxPerHour, "/hour"}, {l.MaxPerDay, "/day"},
		{l.MaxConcurrent, " at once"},
	} {
		if n.n > 0 {
			words = append(words, strconv.Itoa(n.n)+n.per)
		}
	}
	for _, w := range l.Windows {
		words = append(words, fmt.Sprintf("%d/%s", w.Calls, spanWords(w.Per)))
	}
	if len(words) == 0 {
		return "none"
	}
	if l.Pacing != "" {
		words = append(words, string(l.Pacing)+" pacing")
	}
	return strings.Join(words, ", ")
}

// spanWords writes a span without its zeros: 5m and not 5m0s.
func spanWords(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = strings.TrimSuffix(text, zero[1:])
		}
	}
	return text
}
