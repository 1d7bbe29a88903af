package demo

import (
	"fmt"
	"strings"
	"time"
)

// Width is the most columns anything here is drawn in.
const Width = 100

// between is what separates the sides.
const between = 4

// View draws a demo that is running, for a terminal of width columns.
func View(r Result, width int, color bool) string {
	width = min(max(width, 20), Width)
	lines := append(wrap(width, told()), "", bar(r, width), "")
	lines = append(lines, sides(r, width)...)
	lines = append(lines, wrap(width, legend)...)
	return paint(strings.Join(lines, "\n")+"\n", color)
}

// Plot draws what a demo showed: starts over time on both sides.
func Plot(r Result, color bool) string {
	return paint(strings.Join(append(sides(r, Width), legend), "\n")+"\n", color)
}

const legend = "o answered, x refused (429), by the second they were sent in"

// told says what both sides know and what they meet.
func told() string {
	return fmt.Sprintf("Both sides are told %d requests a minute; their provider holds %d and gains one every %v.",
		PerMinute, Bucket, time.Minute/PerMinute)
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

// sides draws both sides next to each other.
func sides(r Result, width int) []string {
	column := (width - between) / 2
	left, right := plotOf(r.Burst, r.Start, r.Of, column), plotOf(r.Even, r.Start, r.Of, column)
	height := max(left.height(), right.height(), 1)
	one := func(side Pacing, p plot) []string { return append(head(side, r), p.lines(height)...) }
	a, b := one(Burst, left), one(Even, right)
	lines := make([]string, len(a))
	for i := range a {
		l := clip(a[i], column)
		lines[i] = strings.TrimRight(l+strings.Repeat(" ", column+between-len(l))+clip(b[i], column), " ")
	}
	return lines
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

func clip(line string, width int) string { return line[:min(len(line), width)] }

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

// Progress is one line about a demo that is running.
func Progress(r Result) string {
	b, e := StatsOf(Burst, r).Total, StatsOf(Even, r).Total
	return fmt.Sprintf("%2d of %d s   burst: sent %d, ok %d, 429 %d   even: sent %d, ok %d, 429 %d",
		int(r.Took.Seconds()), int(r.Of.Seconds()), b.Sent, b.OK, b.R429, e.Sent, e.OK, e.R429)
}
