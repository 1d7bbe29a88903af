package gate

import "time"

// A Line is what the line of a caller key looks like from outside.
type Line struct {
	// Waiting counts requests by priority: interactive, normal, background.
	Waiting [3]int
	// Active counts granted requests that have not been released.
	Active int
	// Until is when the head asks again, zero where only a waking tells; Pause
	// the end of a pause that the limiter knows of, and Why what the head met.
	Until, Pause time.Time
	Why          string
}

// Line looks at the line of a caller key.
func (g *Gate) Line(key string) Line {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lines[key]
	if l == nil {
		return Line{}
	}
	return Line{
		Waiting: [3]int{1: len(l.waiting)}, Active: l.active,
		Until: l.block.firm, Pause: l.block.pause, Why: l.block.why,
	}
}
