package gate

import (
	"context"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// Peeks reports whether the limiter is one that others share and that says what
// it holds: then there may be more in it than what this process has counted.
func (g *Gate) Peeks() bool {
	_, ok := g.limiter.(limiter.Peeker)
	return ok && g.carrier != nil
}

// A Room is what a shared limiter would answer a request now.
type Room struct {
	// Taken is true where it would refuse it, and Opens is the end of a throttle,
	// where there is one.
	Taken bool
	Opens time.Time
}

// Room asks a shared limiter for the room that a caller key has in limits. It
// counts nothing. The answer is that there is some where nothing is known.
func (g *Gate) Room(ctx context.Context, key string, limits []limiter.Limit) (r Room) {
	if !g.Peeks() {
		return r
	}
	v, err := g.limiter.(limiter.Peeker).Peek(ctx, key, limits)
	if err != nil {
		return r
	}
	if v.Throttled.After(v.Now) {
		r = Room{Taken: true, Opens: time.Now().Add(v.Throttled.Sub(v.Now))} // its clock may be another
	}
	for i, u := range v.Usage {
		if i == len(limits) {
			break
		}
		l := limits[i]
		if l.Calls > 0 && u.Used+min(limiter.Request{}.CostOf(l), l.Calls) > l.Calls || l.Concurrent > 0 && u.Held >= l.Concurrent {
			r.Taken = true
		}
	}
	return r
}
