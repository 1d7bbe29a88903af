package reach

import (
	"fmt"
	"time"
)

// A Status is how it stands with the shared limiter.
type Status struct {
	Away  bool
	Since time.Time // when it went away
	Why   error     // and what it said, or did not
	// Hosts are those seen in the last ten minutes, 0 where that is not known.
	Hosts int
	// Share is the part of each limit that is this host's while it is away.
	Share float64
	// Failures counts the calls that it did not answer, Alone those that were
	// granted without it.
	Failures, Alone int64
}

// Status says how it stands now.
func (l *Limiter) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Status{Hosts: int(l.hosts.Load()), Share: l.share(), Failures: l.faults.Load(), Alone: l.alone.Load()}
	if l.away {
		s.Away, s.Since, s.Why = true, l.since, l.why
	}
	return s
}

// Warnings are what somebody should mend, in whole sentences.
func (l *Limiter) Warnings() (all []string) {
	l.mu.Lock()
	shared := l.shared
	if l.away && !l.closed {
		all = append(all, fmt.Sprintf("The shared limiter is out of reach since %s: %v.", l.since.UTC().Format(time.RFC3339), l.why))
	}
	l.mu.Unlock()
	if w, ok := shared.(interface{ Warnings() []string }); ok {
		all = append(all, w.Warnings()...)
	}
	return all
}
