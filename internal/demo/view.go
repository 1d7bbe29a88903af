package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Width is the most columns anything here is drawn in, Least what it takes to
// draw both sides next to each other.
const (
	Width = 100
	Least = 2*leastColumn + between
)

const (
	// between is what separates the sides.
	between = 4
	// leastColumn has room for what is counted above a side.
	leastColumn = 28
)

// View draws a demo that is running, for a terminal of some columns and rows.
// Where it does not fit whole, or would not before long, ok is false and it
// must not be shown: what is redrawn would scroll by instead.
func View(r Result, columns, rows int, color bool) (view string, ok bool) {
	width := min(max(columns, Least), Width)
	lines := append(wrap(width, told()), "", bar(r, width), "")
	drawn, height := sides(r, width)
	lines = append(lines, drawn...)
	lines = append(lines, wrap(width, legend)...)
	// All clients start in the first second. And the cursor has a row below.
	ok = len(lines)+max(0, Clients-height)+1 <= rows
	for _, l := range lines {
		ok = ok && len(l) <= columns
	}
	return paint(strings.Join(lines, "\n")+"\n", color), ok
}

// Plot draws what a demo showed in width columns: starts over time on both
// sides, or on one below the other where the width is less than Least.
func Plot(r Result, width int, color bool) string {
	lines, _ := sides(r, width)
	if width < Least {
		burst, even := plotOf(r.Burst, r.Start, r.Of, width), plotOf(r.Even, r.Start, r.Of, width)
		lines = slices.Concat(head(Burst, r), burst.lines(burst.height()), []string{""}, head(Even, r), even.lines(even.height()))
	}
	return paint(strings.Join(append(lines, wrap(width, legend)...), "\n")+"\n", color)
}

const legend = "o answered, x refused (429), by the second they were sent in"

// told says what both sides know and what they meet.
func told() string {
	return fmt.Sprintf("Both sides are told %d requests a minute. Their provider keeps that limit as a %s.", PerMinute, bucket())
}

// bucket is the limit of the provider. It is no cap on how many requests are
// in service together, and does not read like one.
func bucket() string {
	return fmt.Sprintf("bucket of %d tokens: a request takes one, and one comes back every %v", Bucket, time.Minute/PerMinute)
}

// bar shows how far the demo is.
func bar(r Result, width int) string {
	text := fmt.Sprintf("  %d of %d s", int(r.Took.Seconds()), int(r.Of.Seconds()))
	room := max(1, width-len(text)-2)
	done := room
	if r.Of > 0 {
		done = min(room, int(float64(room)*float64(r.Took)/float64(r.Of)))
	}
	return "[" + strings.Repeat("#", done) + strings.Repeat(".", room-done) + "]" + text
}

// sides draws both sides next to each other, and says how high their plots are.
// Nothing is cut: where the width is too little, lines are longer.
func sides(r Result, width int) (lines []string, height int) {
	heads := map[Pacing][]string{Burst: head(Burst, r), Even: head(Even, r)}
	column := max((width-between)/2, leastColumn, len(heads[Burst][1]), len(heads[Even][1]))
	left, right := plotOf(r.Burst, r.Start, r.Of, column), plotOf(r.Even, r.Start, r.Of, column)
	height = max(left.height(), right.height(), 1)
	a, b := append(heads[Burst], left.lines(height)...), append(heads[Even], right.lines(height)...)
	for i := range a {
		gap := strings.Repeat(" ", column+between-len(a[i]))
		lines = append(lines, strings.TrimRight(a[i]+gap+b[i], " "))
	}
	return lines, height
}

// head names a side and counts.
func head(side Pacing, r Result) []string {
	t := StatsOf(side, r).Total
	counters := fmt.Sprintf("sent %d   ok %d   429 %d", t.Sent, t.OK, t.R429)
	if failed := t.Err + t.Timeout; failed > 0 {
		counters += fmt.Sprintf("   err %d", failed)
	}
	return []string{string(side), counters}
}

// paint colours the marks of a plot. Only lines of marks hold nothing else.
func paint(text string, color bool) string {
	if !color {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.Trim(l, " ox!") == "" {
			lines[i] = painter.Replace(l)
		}
	}
	return strings.Join(lines, "\n")
}

var painter = strings.NewReplacer(
	"o", "\x1b[32mo\x1b[0m",
	"x", "\x1b[31mx\x1b[0m",
	"!", "\x1b[33m!\x1b[0m",
)

// Progress says in a line how a demo is going, or in three where one does not
// fit in width columns.
func Progress(r Result, width int) string {
	parts := []string{fmt.Sprintf("%2d of %d s", int(r.Took.Seconds()), int(r.Of.Seconds()))}
	for _, side := range []Pacing{Burst, Even} {
		t := StatsOf(side, r).Total
		parts = append(parts, fmt.Sprintf("%s: sent %d, ok %d, 429 %d", side, t.Sent, t.OK, t.R429))
	}
	if line := strings.Join(parts, "   "); len(line) <= width {
		return line
	}
	return strings.Join(parts, "\n  ")
}
