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
	"unicode"
	"unicode/utf8"
)

// A statsColumn is one figure of a row.
type statsColumn struct {
	name  string
	words bool // not a number
	minor bool // not missed while there is nothing in it
	cell  func(StatsRow) string
}

// statsColumns are the table's, in order.
var statsColumns = []statsColumn{
	{"provider/model", true, false, func(r StatsRow) string { return printable(r.Key) }},
	{"sent", false, false, func(r StatsRow) string { return strconv.Itoa(r.Sent) }},
	{"ok", false, false, func(r StatsRow) string { return strconv.Itoa(r.OK) }},
	{"429", false, false, func(r StatsRow) string { return strconv.Itoa(r.R429) }},
	{"429<lim", false, false, func(r StatsRow) string { return strconv.Itoa(r.R429UnderLimit) }},
	{"err", false, false, func(r StatsRow) string { return strconv.Itoa(r.Err) }},
	{"retry", false, false, func(r StatsRow) string { return strconv.Itoa(r.Retry) }},
	{"tmout", false, true, func(r StatsRow) string { return strconv.Itoa(r.Timeout) }},
	{"cache", false, true, func(r StatsRow) string { return strconv.Itoa(r.Cache) }},
	{"saved", false, true, func(r StatsRow) string { return strconv.Itoa(r.Saved) }},
	{"in tok", false, true, func(r StatsRow) string { return strconv.Itoa(r.InTokens) }},
	{"out tok", false, true, func(r StatsRow) string { return strconv.Itoa(r.OutTokens) }},
	{"q avg s", false, false, func(r StatsRow) string { return strconv.FormatFloat(r.QueueAvg, 'f', 1, 64) }},
	{"peak/min", false, false, func(r StatsRow) string { return strconv.Itoa(r.PeakPerMin) }},
	{"avg/min", false, false, func(r StatsRow) string { return strconv.FormatFloat(r.AvgPerMin, 'f', 1, 64) }},
	{"tiers", true, true, func(r StatsRow) string { return cmp.Or(printable(strings.Join(r.Tiers, ",")), "-") }},
}

// WriteTable writes the report for people: a row per model, one per hour or
// day, the total, and what the limits are. Where a line would be longer than
// width, minor columns are left out, those with nothing in them first, and the
// others are named; 0 is any width.
func (s *Stats) WriteTable(w io.Writer, width int) error {
	sections := [][]StatsRow{s.Models, s.Hours, {s.Total}}
	columns, missing := fitting(columnsOf(slices.Concat(sections...)), width)
	var b strings.Builder
	line := func(text func(tableColumn) string) {
		var l strings.Builder
		for i, c := range columns {
			if i > 0 {
				l.WriteString(gutter)
			}
			t := text(c)
			pad := strings.Repeat(" ", c.width-utf8.RuneCountInString(t))
			if c.words {
				l.WriteString(t + pad)
			} else {
				l.WriteString(pad + t)
			}
		}
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	line(func(c tableColumn) string { return c.name })
	for _, rows := range sections {
		for _, r := range rows {
			line(func(c tableColumn) string { return c.cell(r) })
		}
		if len(rows) > 0 {
			b.WriteString("\n")
		}
	}
	b.WriteString(s.footer())
	if len(missing) > 0 {
		fmt.Fprintf(&b, "too wide to be shown here: %s\n", strings.Join(missing, ", "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// fitting leaves out minor columns, from the right, until a line fits, and
// names those that something was counted in.
func fitting(columns []tableColumn, width int) (kept []tableColumn, missing []string) {
	for _, filled := range []bool{false, true} {
		for i := len(columns) - 1; i >= 0 && width > 0 && lineWidth(columns) > width; i-- {
			c := columns[i]
			if !c.minor || c.empty == filled {
				continue
			}
			columns = slices.Delete(columns, i, i+1)
			if filled {
				missing = append(missing, c.name)
			}
		}
	}
	slices.Reverse(missing)
	return columns, missing
}

// gutter is between two columns.
const gutter = "  "

// A tableColumn is a column of one table.
type tableColumn struct {
	statsColumn
	width int
	empty bool // nothing was counted in it
}

func columnsOf(rows []StatsRow) []tableColumn {
	columns := make([]tableColumn, len(statsColumns))
	for i, c := range statsColumns {
		t := tableColumn{statsColumn: c, width: len(c.name), empty: true}
		nothing := c.cell(StatsRow{})
		for _, r := range rows {
			text := c.cell(r)
			t.width = max(t.width, utf8.RuneCountInString(text))
			t.empty = t.empty && text == nothing
		}
		columns[i] = t
	}
	return columns
}

func lineWidth(columns []tableColumn) int {
	width := (len(columns) - 1) * len(gutter)
	for _, c := range columns {
		width += c.width
	}
	return width
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

// printable is a name that a client made, without what a terminal would take
// for an order.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, name)
}
