// Package budget keeps what a caller key has learned: what the provider told,
// what its refusals taught, and when its requests were started.
//
// It holds facts. What follows from them is package policy's business.
package budget

import "time"

// A State is what is known of one caller key, by every process that shares
// the store. Each lesson carries the instant of its last change: one answer
// teaches once, so only the answer to a request sent after that instant may
// change it again.
type State struct {
	Pause    Pause     `json:"pause,omitzero"`
	Probe    Probe     `json:"probe,omitzero"`
	Episode  Episode   `json:"episode,omitzero"`
	Factor   Factor    `json:"factor,omitzero"`
	Rate     Rate      `json:"rate,omitzero"`
	Spacing  Spacing   `json:"spacing,omitzero"`
	Places   Places    `json:"places,omitzero"`
	Overload Overload  `json:"overload,omitzero"`
	Readings []Reading `json:"readings,omitempty"`
	Ratios   Ratios    `json:"ratios,omitempty"`
	Orders   Orders    `json:"orders,omitzero"`
	// Processes are those that use the key, and when each was last seen.
	Processes map[string]time.Time `json:"processes,omitempty"`

	// Ramp concerns the requests waiting in this process and is not shared.
	Ramp Ramp `json:"-"`
	// Heard is true once an answer has come in this process.
	Heard bool `json:"-"`
	// Unread counts refusals whose body is being read in this process.
	Unread int `json:"-"`
	// Opened is the latest Orders.Open that the limiter of this process knows
	// of.
	Opened time.Time `json:"-"`
}

// A Pause closes the caller key until an instant.
type Pause struct {
	Until  time.Time `json:"until,omitzero"`
	Reason Reason    `json:"reason,omitempty"`
	Source Source    `json:"source,omitempty"`
	// Made is when it was made.
	Made time.Time `json:"made,omitzero"`
	// Look is when one request may see whether it is over all the same, zero for
	// not before Until: who has worked an end out may be wrong.
	Look time.Time `json:"look,omitzero"`
}

// Active reports whether the pause still runs.
func (p Pause) Active(now time.Time) bool { return p.Until.After(now) }

// Extend makes the pause last until a later instant. A pause is never
// shortened. It reports whether anything changed.
func (p *Pause) Extend(until time.Time, why Reason, by Source) bool {
	if !until.After(p.Until) {
		return false
	}
	*p = Pause{Until: until, Reason: why, Source: by, Made: p.Made}
	return true
}

// Close pauses the caller key until an instant, and has a probe look
// afterwards. It reports whether the pause lasts longer than before.
func (s *State) Close(now, until time.Time, why Reason, by Source) bool {
	if !s.Pause.Extend(until, why, by) {
		if by == Told && !s.Pause.Look.IsZero() {
			// What was told binds all the same, and a look that is under way has
			// not seen it.
			s.Pause.Look = newer(s.Pause.Look, until, s.Pause.Look, until)
			s.Probe = Probe{Needed: true, Changed: now}
		}
		return false
	}
	s.Pause.Made = now
	s.Probe = Probe{Needed: true, Changed: now}
	return true
}

// Shut reports whether nobody may be sent for a pause, not even to see whether it
// is over.
func (s *State) Shut(now time.Time) bool {
	return s.Pause.Active(now) && (s.Pause.Look.IsZero() || now.Before(s.Pause.Look))
}

// Reopen ends the pause: a look has found that it is over.
func (s *State) Reopen(now time.Time) {
	s.obey(s.Orders.and(Orders{Open: now}))
}

// A Reason is why a caller key is paused.
type Reason string

// The reasons for a pause.
const (
	RateLimit  Reason = "rate_limit"
	Overloaded Reason = "overloaded"
	Down       Reason = "unavailable"
	Quota      Reason = "quota_exhausted"
	Billing    Reason = "billing"
)

// A Source is who made a pause.
type Source string

// The sources of a pause.
const (
	Told     Source = "told"     // the provider stated the wait
	Learned  Source = "learned"  // worked out here
	Operator Source = "operator" // somebody wants it so
)

// A Probe is the one request sent after a pause to see whether it is over.
type Probe struct {
	// Needed until a request sent after the pause has been admitted.
	Needed bool `json:"needed,omitempty"`
	// Sent is when the probe under way was sent, zero while there is none.
	Sent time.Time `json:"sent,omitzero"`
	// By is the process that is to send it, until Claimed at the latest, when
	// another may.
	By      string    `json:"by,omitempty"`
	Claimed time.Time `json:"claimed,omitzero"`
	Changed time.Time `json:"changed,omitzero"`
}

// An Episode runs from a refusal to the first admission after it.
type Episode struct {
	Open bool `json:"open,omitempty"`
	// Refusals counts those that taught something.
	Refusals int       `json:"refusals,omitempty"`
	Began    time.Time `json:"began,omitzero"`
	// Wait is what the latest refusal asked for or was given.
	Wait time.Duration `json:"wait,omitempty"`
	// Ended is the end of the latest finished episode, Admitted what has been
	// let through since.
	Ended    time.Time `json:"ended,omitzero"`
	Admitted int       `json:"admitted,omitempty"`
	// Since and Through are what the latest rate was measured by: how much was
	// let through since when.
	Since   time.Time `json:"since,omitzero"`
	Through int       `json:"through,omitempty"`
	Changed time.Time `json:"changed,omitzero"`
}

// A Factor scales the declared limits (AIMD). The zero value is the factor 1.
type Factor struct {
	// Value is the factor, where 0 stands for 1.
	Value   float64   `json:"value,omitempty"`
	Changed time.Time `json:"changed,omitzero"`
	// Refused is the latest refusal, which starts the cooldown again.
	Refused time.Time `json:"refused,omitzero"`
}

// A Rate is a learned rate of starts, for keys that nobody told of one.
type Rate struct {
	PerSecond float64   `json:"per_second,omitempty"`
	Changed   time.Time `json:"changed,omitzero"`
	// Refused is the rate at which the provider last refused.
	Refused float64 `json:"refused,omitempty"`
	// Admitted counts towards the next raise.
	Admitted int `json:"admitted,omitempty"`
	// Since and Used measure the use of the rate over the running hour.
	Since time.Time `json:"since,omitzero"`
	Used  int       `json:"used,omitempty"`
}

// A Spacing is a least time between starts, forgotten by successes.
type Spacing struct {
	Every   time.Duration `json:"every,omitempty"`
	Changed time.Time     `json:"changed,omitzero"`
}

// Places is a learned number of requests in flight. Zero: none learned.
type Places struct {
	N        int       `json:"n,omitempty"`
	Admitted int       `json:"admitted,omitempty"`
	Changed  time.Time `json:"changed,omitzero"`
}

// An Overload counts a provider's answers that it is full.
type Overload struct {
	Recent []time.Time `json:"recent,omitempty"`
	// Every is the least time between starts until Until.
	Every time.Duration `json:"every,omitempty"`
	Until time.Time     `json:"until,omitzero"`
}

// A Ramp spaces the requests that waited for the end of a pause.
type Ramp struct {
	// Held is true while a pause and its probe hold this process up.
	Held  bool
	Left  int
	Until time.Time
	// Every is the time between starts where no limit says one.
	Every time.Duration
}

// blank reports whether the state has learned nothing.
func (s *State) blank() bool {
	return s.Orders == Orders{} && s.Episode.Changed.IsZero() && s.Factor.Value == 0 && s.Rate.PerSecond == 0 && s.Places.N == 0 && len(s.Readings) == 0 && len(s.Ratios) == 0
}
