package reach

import (
	"context"
	"encoding/json"
	"maps"
	"time"
)

// hostsKey is where hosts say that they are there.
const hostsKey = "~hosts"

// How often a host says so, at first and later, and for how long it counts.
const (
	greetSoon  = time.Second
	greetEvery = time.Minute
	seenFor    = 10 * time.Minute
)

// share is the part of each limit that is this host's under Local.
func (l *Limiter) share() float64 {
	if l.o.Share > 0 {
		return l.o.Share
	}
	return min(0.5, 1/float64(max(1, l.hosts.Load())))
}

// greet says that this host is there, counts who else is, and does so again in
// a while.
func (l *Limiter) greet() {
	if n, err := l.meet(l.ctx); err == nil {
		l.hosts.Store(int64(n))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if l.beat != nil {
		l.beat.Stop()
	}
	l.pause = min(greetEvery, max(greetSoon, 2*l.pause))
	l.beat = time.AfterFunc(l.pause, l.greet)
}

// meet is how many hosts have been there lately, by the shared limiter's clock:
// theirs may be apart.
func (l *Limiter) meet(ctx context.Context) (hosts int, err error) {
	now := time.Now().Add(time.Duration(l.ahead.Load())).UnixMilli()
	err = l.Update(ctx, hostsKey, func(old []byte) []byte {
		seen := make(map[string]int64)
		if json.Unmarshal(old, &seen) != nil {
			seen = make(map[string]int64) // what is there is no list of hosts
		}
		seen[l.o.Host] = now
		maps.DeleteFunc(seen, func(_ string, at int64) bool { return now-at > seenFor.Milliseconds() })
		hosts = len(seen)
		b, err := json.Marshal(seen)
		if err != nil {
			return old
		}
		return b
	})
	return hosts, err
}
