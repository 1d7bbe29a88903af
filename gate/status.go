package gate

import "time"

// A Line is what the line of a caller key looks like from outside.
type Line struct {
	// Waiting counts requests by priority, the most urgent first.
	Waiting [urgencies]int
	// Active counts granted requests that have not been released.
	Active int
	// Until is when the next one asks again, zero where only a waking tells;
	// Pause the end of a pause that the limiter knows of, and Why what it met.
	Until, Pause time.Time
	Why          string
	// Refused names the buckets that refused it.
	Refused []string
}

// Line looks at the line of a caller key.
func (g *Gate) Line(key string) Line {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lines[key]
	if l == nil {
		return Line{}
	}
	b := l.block
	for _, a := range l.lanes {
		if b.by == nil { // every lane waits for limits of its own
			b = a.block
		}
	}
	line := Line{Waiting: l.waiting, Active: l.active, Until: b.until, Pause: b.pause, Why: b.why}
	for _, f := range b.refused {
		line.Refused = append(line.Refused, f.Key)
	}
	return line
}
