package stub

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"
)

// A verdict is what became of a request when it arrived.
type verdict struct {
	request int // its number among those that arrived

	// status, where it is not 0, is the answer: a refusal or an error. message
	// says why, and body, where it is not empty, replaces the usual one.
	status  int
	message string
	body    string
	extra   http.Header
	wait    time.Duration
	tells   RetryAfter // how wait is told; none where it is not known
	inBody  RetryAfter // how the body tells it, which counts where no header does; empty where it does not

	// Otherwise the request was admitted: its generation, its place, and what
	// goes wrong with it.
	generation int
	place      *place
	arrived    time.Time
	service    time.Duration
	fault      FaultKind
	charged    int // by the first meter

	budgets []budget
}

func (v verdict) answered() bool { return v.status != 0 }

// arrive decides over a request at one instant. sent is when it entered.
func (s *Stub) arrive(sent time.Time, ask ask, chance chance) verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Read under the lock, so that the meters see time in order.
	now := time.Now()
	s.requests++
	s.places.expire(now)
	s.catchUp(now)
	v := verdict{request: s.requests, arrived: now, service: chance.service, tells: s.config.RetryAfter}
	early := s.told.early(sent, now)
	if early {
		s.counts.Early++
	}

	step := s.nextStep()
	switch {
	case step.Status != 0:
		v.status, v.message, v.body, v.extra = step.Status, statusText(step.Status), step.Body, step.Header
		v.wait, v.tells = step.Wait, step.tells(s.config.RetryAfter)
		if v.status == http.StatusTooManyRequests {
			s.counts.Refused++
		}
	case step.Fault != "":
		s.begin(&v, ask, step.Fault)
	default:
		s.meter(&v, ask)
		if !v.answered() {
			fault := s.config.Faults.strikes(s.counts.Admitted, chance.luck)
			if fault.Kind == FaultStatus {
				v.status, v.message, v.tells = fault.Status, statusText(fault.Status), RetryAfterNone
				s.places.take(now, false)
			} else {
				s.begin(&v, ask, fault.Kind)
			}
		}
	}

	s.counts.PeakLive = max(s.counts.PeakLive, len(s.places.live))
	s.arrivals.add(Arrival{At: now, Admitted: !v.answered(), Early: early, Charged: v.charged})
	if v.answered() {
		tells := v.tells
		if tells == RetryAfterNone {
			tells = cmp.Or(v.inBody, RetryAfterNone)
		}
		s.told.tell(now, v.wait, tells)
	}
	v.budgets = s.budgets(now)
	return v
}

// meter asks every meter and counts the request in all or, as a refusal, in
// those that penalise.
func (s *Stub) meter(v *verdict, a ask) {
	now := v.arrived
	full, wait, known := s.places.full(now)
	cost, then := s.config.Charge.cost(a)
	fits, by := s.fits(now, cost)
	if fits && !full {
		for i, m := range s.meters {
			m.take(now, cost[s.units[i]])
		}
		if len(then) > 0 && len(s.meters) > 0 {
			s.owe(due{now.Add(v.service), now, then})
		}
		v.charged = s.charged(cost)
		s.counts.Admitted++
		s.counts.PeakWindow = max(s.counts.PeakWindow, s.peak.add(now))
		return
	}
	s.counts.Refused++
	if s.config.Penalise {
		for i, m := range s.meters {
			m.penalise(now, cost[s.units[i]])
		}
	}
	// Asked after the penalty: the wait told is the one that holds now. Every
	// meter still admits at the latest of their instants, as none closes again
	// by itself.
	for i, m := range s.meters {
		wait = max(wait, m.wait(now, cost[s.units[i]]))
	}
	v.status, v.wait = http.StatusTooManyRequests, wait
	v.message = "Rate limit reached for " + strings.ReplaceAll(string(cmp.Or(by, Requests)), "_", " ")
	if full {
		v.message = "Too many concurrent requests"
	}
	if !known {
		v.tells = RetryAfterNone
	}
	limit := s.places.limit
	if len(s.meters) > 0 {
		limit = s.meters[0].budget(now).limit
	}
	v.refuseAs(cmp.Or(s.config.Refusals, Refusals(s.config.Headers)), limit)
}

// fits says whether every meter would admit a request, and which unit would
// not. It needs the lock.
func (s *Stub) fits(now time.Time, cost map[Unit]int) (fits bool, by Unit) {
	fits = true
	for i, m := range s.meters {
		if m.wait(now, cost[s.units[i]]) > 0 {
			fits, by = false, s.units[i]
		}
	}
	return fits, by
}

// begin starts a generation, or the fault that strikes instead of it or in
// the middle of it.
func (s *Stub) begin(v *verdict, ask ask, fault FaultKind) {
	v.fault = fault
	end := v.arrived.Add(v.service)
	switch fault {
	case FaultReset, FaultError:
		// Nothing is generated.
		s.places.take(v.arrived, false)
		return
	case FaultCut, FaultLateError:
		v.service /= 2
		end = v.arrived.Add(v.service)
	}
	s.generated++
	v.generation = s.generated
	if ask.id != 0 && s.repeats.seen(ask.id) {
		s.counts.Repeated++
	}
	v.place = s.places.take(end, fault == FaultSilence)
}

// leave is told that a client is gone: in transit (no place yet) or while it
// waited for its answer.
func (s *Stub) leave(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Left++
	if p != nil {
		s.places.leave(p, !s.config.StopsWithClient)
	}
}

// budgets is what the meters have left. It needs the lock.
func (s *Stub) budgets(now time.Time) (bs []budget) {
	if s.config.Headers == "" || s.config.Headers == HeadersNone {
		return nil
	}
	s.catchUp(now)
	for i, m := range s.meters {
		b := m.budget(now)
		b.unit, b.per = s.units[i], s.spans[i]
		bs = append(bs, b)
	}
	return bs
}

// sleepUntil waits for an instant and says whether it came before the end of
// ctx.
func sleepUntil(ctx context.Context, at time.Time) bool {
	d := time.Until(at)
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
