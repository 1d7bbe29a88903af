package budget

import "time"

// transit is how much longer one request may be on its way than another: of
// those sent within it nobody knows which came first.
const transit = 2 * time.Second

// Late is whether a provider counts what is left when it makes the head of an
// answer, rather than when its request comes. It shows where answers take their
// time: by how much the readings miss what either would have made them.
type Late struct {
	AtSent float64 `json:"at_sent,omitempty"`
	AtHead float64 `json:"at_head,omitempty"`
}

// is reports whether the head's instant is the right one.
func (l Late) is() bool { return 2*l.AtHead+10 < l.AtSent }

// after is what is known after a reading that followed another one.
func (l Late) after(old, r Reading, starts *Starts) Late {
	if old.Remaining == nil || r.Remaining == nil || r.Head.Sub(r.Sent) <= transit || old.Head.Sub(old.Sent) <= transit || !old.lasts(r.Sent) {
		return l
	}
	const forget = 0.95
	miss := func(from, to time.Time) float64 {
		d := old.between(starts, from, to) - float64(*r.Remaining)
		return max(d, -d)
	}
	return Late{forget*l.AtSent + miss(old.Sent, r.Sent), forget*l.AtHead + miss(old.Head, r.Head)}
}

// asOf is the instant of which a reading speaks: requests that were sent later
// are not in it.
func (r Reading) asOf() time.Time {
	if soonest := r.Head.Add(-transit); r.Late.is() && soonest.After(r.Sent) {
		return soonest
	}
	return r.Sent
}

// turnSlack is how much later than the wall clock's its windows may turn.
const turnSlack = time.Second

// recovers is the instant of the recovery. Where it was told as a time, that
// began when the remaining was counted.
func (r Reading) recovers() time.Time {
	at := r.Recovery.At
	if turns := r.Recovery.Turns; at.IsZero() && !turns.IsZero() {
		if w := Window(r.Snapshot); !r.Late.is() && turns.Add(-w).After(r.Sent) {
			turns = turns.Add(-w) // it has turned while the answer was made
		}
		return turns.Add(turnSlack)
	}
	if !r.Recovery.Relative || r.Late.is() {
		return at
	}
	if soonest := r.Sent.Add(at.Sub(r.Head) + transit); soonest.Before(at) {
		return soonest
	}
	return at
}
