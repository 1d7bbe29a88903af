package policy

import (
	"time"

	"github.com/paceline-proxy/paceline/budget"
	"github.com/paceline-proxy/paceline/limiter"
)

// An Outlook is what a caller key promises to the next request, so that one of
// several can be chosen.
type Outlook struct {
	// Opens is when the request could start after those that wait there already,
	// as far as this process's own starts tell: another over the same limiter may
	// come first. now, where it could start at once.
	Opens time.Time
	// Full is true where a request has to end first, which no clock tells.
	Full bool
	// Aside is true where a pause closes the key.
	Aside bool
	// Headroom is how much is left of what is told and declared, from 0 to 1.
	Headroom float64
}

// Outlook says what the caller key promises to a request that does not wait
// there yet.
func (r Rules) Outlook(s *budget.State, starts *budget.Starts, now time.Time, a Activity) Outlook {
	p := r.Plan(s, starts, now, a)
	o := Outlook{Opens: now, Full: p.Full, Aside: p.Paused, Headroom: Headroom(r, s, starts, now)}
	for _, l := range p.Limits {
		switch {
		case l.Concurrent > 0 && a.InFlight+a.Waiting >= l.Concurrent:
			o.Full = true
		case l.Calls > 0 && l.Cost == 0:
			o.Opens = latest(o.Opens, fits(l, starts, now, a.Waiting))
		}
	}
	o.Opens = latest(o.Opens, p.NotBefore)
	for _, w := range r.Limits.windows() {
		if n := float64(w.Calls) * r.Limits.margin(); w.Unit == "" && n > 0 {
			o.Headroom = min(o.Headroom, max(0, 1-float64(starts.Within(w.Per, now)+a.Waiting)/n))
		}
	}
	return o
}

// fits is when a window has room for one more after so many that wait.
func fits(l limiter.Limit, starts *budget.Starts, now time.Time, waiting int) time.Time {
	// The start that has to leave the window first: a past one, or one of those
	// that wait, which come in rounds.
	rounds, rest := waiting/l.Calls, waiting%l.Calls
	at := now
	if past, ok := starts.Back(l.Calls - rest); ok {
		at = latest(now, past.Add(l.Per))
	}
	return at.Add(time.Duration(rounds) * l.Per)
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
