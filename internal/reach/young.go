package reach

import (
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// A grant whose answer is lost with the connection has nobody to give its place
// back. So places are asked for a short time at first, and those of which the
// answer came are renewed soon, if they are taken still: most are not.
const (
	youngHold = 15 * time.Second
	growAfter = 5 * time.Second
)

// young is a request as the shared limiter is asked it.
func young(r limiter.Request) limiter.Request {
	r.Hold = min(r.Hold, youngHold)
	return r
}

// growUp has young permits renewed in a while. The lock is held.
func (l *Limiter) growUp() {
	if l.grow == nil && !l.closed {
		l.grow = time.AfterFunc(growAfter, l.renewYoung)
	}
}

// renewYoung gives permits the hold that was asked for.
func (l *Limiter) renewYoung() {
	now := time.Now()
	var ids []string
	hold := time.Duration(0)
	l.mu.Lock()
	l.grow = nil
	for id, p := range l.permits {
		if p.shared != "" && p.lapses.Before(p.until) && p.until.After(now) {
			ids, hold = append(ids, id), max(hold, p.until.Sub(now))
		}
	}
	away := l.away
	l.mu.Unlock()
	if len(ids) == 0 || away {
		return // a return renews all
	}
	if l.Renew(l.ctx, ids, hold) != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.growUp()
	}
}
