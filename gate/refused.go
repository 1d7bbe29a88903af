package gate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// A Refused says that a request was not let through and why. Nothing was
// counted for it.
type Refused struct {
	Reason Reason
	// Until is when it is worth coming again, zero where nobody can say.
	Until time.Time
	// Why names what stood in the way, in a few words.
	Why string
}

func (r *Refused) Error() string { return fmt.Sprintf("not sent: %s: %s", r.Reason, r.Why) }

// A Reason is why a request left the line unsent.
type Reason string

// The reasons.
const (
	// Pause: the key is closed for longer than the caller waits for.
	Pause Reason = "pause"
	// Quota: the same, and what closes it is a spent quota.
	Quota Reason = "quota"
	// Deadline: the caller's deadline cannot be met, or has come.
	Deadline Reason = "deadline"
	// Queue: its turn had not come when it had to leave.
	Queue Reason = "queue"
	// Bounds: too many wait already. The gate does not count them.
	Bounds Reason = "bounds"
	// Drain: the line is being closed.
	Drain Reason = "drain"
)

func stopped() error { return &Refused{Reason: Drain, Why: "the line is being closed"} }

// explain adds to a refusal for want of time what the time was spent on.
func (g *Gate) explain(l *line, w *waiter, err error) {
	r, ok := errors.AsType[*Refused](err)
	if !ok || r.Reason != Queue && r.Reason != Deadline {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, b := range []block{w.queue.lane.block, l.block} {
		if b.why == "" {
			continue
		}
		r.Why += ": " + b.why
		if b.full || slices.ContainsFunc(b.refused, func(f limiter.Refusal) bool { return f.Cause == limiter.Concurrent }) {
			r.Why += l.holders()
		}
	}
}

// describe says in a reader's words what refused: buckets are named by keys
// that are nobody's business.
func describe(refused []limiter.Refusal, limits []limiter.Limit) string {
	var parts []string
	for _, f := range refused {
		switch f.Cause {
		case limiter.Throttle:
			parts = append(parts, "the provider asked for a pause")
		case limiter.Unreachable:
			parts = append(parts, "the shared limiter is out of reach")
		case limiter.Concurrent:
			for _, l := range limits {
				if l.Key == f.Key && l.Concurrent > 0 {
					parts = append(parts, fmt.Sprintf("at most %d run at once", l.Concurrent))
				}
			}
		default:
			for _, l := range limits {
				switch {
				case l.Key != f.Key || l.Calls == 0:
				case l.Cost > 0:
					parts = append(parts, fmt.Sprintf("at most %d tokens in %v, and it takes about %d", l.Calls, l.Per, l.Cost))
				default:
					parts = append(parts, fmt.Sprintf("at most %d start in %v", l.Calls, l.Per))
				}
			}
		}
	}
	if parts == nil {
		return "the limiter has no room for it"
	}
	return strings.Join(parts, ", ")
}
