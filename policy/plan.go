package policy

import (
	"cmp"
	"fmt"
	"time"

	"github.com/paceline-proxy/paceline/budget"
	"github.com/paceline-proxy/paceline/limiter"
)

// The units of the buckets that policy names. Tokens are those of prompts and
// answers together, Input those of prompts, Output those of answers.
const (
	Requests   = "requests"
	Places     = "places"
	Tokens     = "tokens"
	Input      = "input"
	Output     = "output"
	Background = "background"
)

// Rules are what holds for one caller key.
type Rules struct {
	Limits Limits
	Retry  Retry
	// WaitForQuota has the request wait without bound for a spent quota.
	WaitForQuota bool
	// Bucket names where a unit of this caller key counts.
	Bucket func(unit string) string
	// Own are limits that only some requests of the caller key have, those of
	// one model, and OwnBucket where they count. Client is a limit of who asks,
	// where it names a bucket.
	Own       Limits
	OwnBucket func(unit string) string
	Client    limiter.Limit
	// Reports is true where ordinary answers of the provider tell budgets.
	Reports bool
	// Cost is what the request is expected to cost, in tokens, and Reserved the
	// part of it that the provider charges for what the request allows.
	Cost, Reserved budget.Charge
	// NoBudgets leaves out what the provider tells of its budgets: no reading
	// is kept and none is waited for. BudgetLogOnly keeps them, and only says in
	// Plan.Unheeded what would have been waited for.
	NoBudgets     bool
	BudgetLogOnly bool
	// Share is the part of the rates per minute and longer that background
	// requests may use while others are being started. 0: no such bound.
	Share float64
}

// declaresRequests reports whether any rate of requests is declared for the
// request.
func (r Rules) declaresRequests() bool {
	return r.Limits.DeclaresRequests() || r.Own.DeclaresRequests()
}

// A Plan is what policy says now for the next request of a caller key.
type Plan struct {
	// Free is true where nothing holds the request up, whatever the limiter
	// says, and it counts nowhere.
	Free   bool
	Limits []limiter.Limit
	// Own is how many of them, from the beginning, bind only some requests of
	// the caller key, those of a model, a client or the background: what they
	// hold up holds nobody else up.
	Own int
	// Passing is how many of them, from the end, ease with the next good
	// answers: nobody's deadline is judged by those.
	Passing int
	// NotBefore is the earliest start, zero for now.
	NotBefore time.Time
	// Look is when the request may be sent to see whether a pause is over, though
	// NotBefore is later; zero for not at all.
	Look time.Time
	// Paused is true where NotBefore is the end of a pause of the caller key:
	// a request waits for its turn in any case, for a pause only so long.
	Paused bool
	// Quota is true where that pause is one of a spent quota.
	Quota bool
	// Ordered is true where the pause is an operator's, who may end it at any
	// moment: it is waited for as a turn is.
	Ordered bool
	// Closed is true where no clock is known to end the pause: nobody waits
	// for it, and one request finds out when it is over.
	Closed bool
	// Probes is true where the request is the one that looks whether a pause is
	// over, Probing is true where NotBefore is for a probe that is under way.
	Probes, Probing bool
	// Full is true where a request of this line has to end first, which no
	// clock tells.
	Full bool
	// Eases is when some of the limits go by themselves, zero for never.
	Eases time.Time
	// Why says in a few words what NotBefore comes from.
	Why string
	// Unheeded is when the request would have been started, had it waited for a
	// budget as nobody does (Rules.BudgetLogOnly). Why says which.
	Unheeded time.Time
	// Budget is the observed budget that NotBefore comes from, nil for none.
	Budget *Shortage
}

// A Shortage is an observed budget in which a request finds too little now.
type Shortage struct {
	Unit      string `json:"unit"` // as the dialect names them
	Window    string `json:"window,omitempty"`
	Remaining int64  `json:"remaining"`       // as it is projected to now
	Limit     int64  `json:"limit,omitempty"` // 0 where none is told
	Floor     int64  `json:"floor,omitempty"` // what should be left
	// Anyway is true where the request may be sent all the same, if a person
	// wants it: a reading alone never refuses.
	Anyway bool `json:"anyway,omitempty"`
}

// An Activity is what the line of a caller key is doing, in this process.
type Activity struct {
	// InFlight counts granted and unfinished requests.
	InFlight int
	// Waiting counts those in line, the asking one included.
	Waiting int
	// Ahead counts those who are asked for together with it and go before it.
	// They are in InFlight as if they had been started, but no start of theirs
	// has been booked.
	Ahead int
	// Foreground is the latest start of a request that is not background.
	Foreground time.Time
	// Background is true where the asking request counts as background.
	Background bool
	// Anyway is true where somebody wants the request sent whatever the
	// observed budgets say. Stated waits and declared limits hold all the same.
	Anyway bool
}

// shareFor is how long after the latest other start background requests keep
// to their share.
const shareFor = time.Minute

// probeFor is how long a probe may go unanswered before it counts as
// admitted: refusals are quick, answers are not.
const probeFor = 2 * time.Second

// Plan says what the next request of the caller key must fit, and when it may
// be asked for.
func (r Rules) Plan(s *budget.State, starts *budget.Starts, now time.Time, a Activity) Plan {
	r.expireProbe(s, now, a)
	switch {
	case s.Pause.Active(now) || s.Probe.Needed:
		s.Ramp.Held = true
	case s.Ramp.Held:
		// Another process has seen that the pause is over.
		s.Ramp = budget.Ramp{Left: a.Waiting, Until: now.Add(rampFor), Every: rampEvery}
	}
	var levels []budget.Level
	if !r.NoBudgets && !a.Anyway {
		levels = s.Levels(starts, now, r.Cost)
	}
	var p Plan
	p.Limits, p.Own, p.Passing = r.limits(s, levels, now, a)
	if a.Background && r.shared(now, a) < 1 {
		p.Eases = a.Foreground.Add(shareFor)
	}
	switch {
	case s.Shut(now):
		p.NotBefore, p.Look, p.Paused = s.Pause.Until, s.Pause.Look, true
		p.Ordered = s.Pause.Source == budget.Operator
		p.Quota, p.Closed = s.Pause.Reason == budget.Quota, s.Pause.Reason == budget.Billing
		p.Why = fmt.Sprintf("%s (%s)", s.Pause.Reason, s.Pause.Source)
	case s.Unread > 0:
		p.Full, p.Why = true, "a refusal is being read"
	case a.Ahead > 0 && r.hinges(s, starts, levels, now, a):
		p.Full, p.Why = true, "those before it have to be started first"
	case s.Places.N > 0 && a.InFlight >= s.Places.N:
		// The limiter counts the places too, for other processes; but what was
		// started before they were learned holds none there.
		p.Full, p.Why = true, fmt.Sprintf("the provider runs %d at once", s.Places.N)
	case s.Probe.Needed && !s.Probe.Sent.IsZero():
		p.NotBefore, p.Probing = s.Probe.Sent.Add(probeFor), true
		p.Why = "one probe at a time after a pause"
	case s.Probe.Needed:
		p.Probes = true
	case !r.NoBudgets && r.cold(s, a) && now.Before(starts.First().Add(coldFor)):
		p.NotBefore = starts.First().Add(coldFor)
		p.Why = "the first answer is to tell what is left"
	default:
		p.heed(levels, now)
		if r.BudgetLogOnly {
			p.NotBefore, p.Unheeded, p.Budget = time.Time{}, p.NotBefore, nil
		}
	}
	return p
}

// expireProbe counts a probe as admitted that has long gone unrefused.
func (r Rules) expireProbe(s *budget.State, now time.Time, a Activity) {
	p := s.Probe
	switch {
	case !p.Needed || p.Sent.IsZero() || now.Before(p.Sent.Add(probeFor)) || s.Shut(now):
	case s.Pause.Active(now):
		s.Probe = budget.Probe{Needed: true, Changed: now} // only an answer ends it sooner
	default:
		r.leavePause(s, now, a)
		s.Episode.Changed = p.Sent.Add(-1) // its answer may yet teach
	}
}

// limits compiles everything that slows the key to limits.
func (r Rules) limits(s *budget.State, levels []budget.Level, now time.Time, a Activity) (limits []limiter.Limit, own, passing int) {
	factor := r.factor(s, now)
	t := r.toll(s)
	if r.Client.Key != "" {
		limits = append(limits, r.Client)
	}
	if r.OwnBucket != nil {
		limits = append(limits, r.Own.compile(factor, t, r.OwnBucket)...)
		if a.Background {
			limits = append(limits, r.Own.background(factor*r.shared(now, a), t, r.OwnBucket)...)
		}
	}
	if a.Background {
		limits = append(limits, r.Limits.background(factor*r.shared(now, a), t, r.Bucket)...)
	}
	limits = merged(limits)
	own = len(limits)
	if declared := r.Limits.compile(factor, t, r.Bucket); own == 0 {
		limits = declared
	} else {
		limits = append(limits, declared...)
	}
	slow := func(every time.Duration) {
		if every > 0 {
			limits = append(limits, paced(r.Bucket(Requests), every))
		}
	}
	if rate := s.Rate.PerSecond; rate > 0 && r.learns(s, now) {
		slow(time.Duration(float64(time.Second) / rate))
	}
	limits = append(limits, r.toldWindows(s, now)...)
	limits = merged(limits)
	lasting := len(limits)
	if s.Probe.Needed && !r.declaresRequests() {
		// The probe has to be counted by what will space those behind it.
		every := r.toldInterval(s, now)
		if r.learns(s, now) && s.Rate.PerSecond == 0 {
			every = max(every, spacingAfter(s.Episode.Wait))
		}
		slow(cmp.Or(every, rampEvery))
	}
	if s.Ramp.Left > 0 && now.Before(s.Ramp.Until) {
		slow(r.rampInterval(s, now, factor))
	}
	if r.learns(s, now) {
		slow(s.Spacing.Every)
	}
	if now.Before(s.Overload.Until) {
		slow(s.Overload.Every)
	}
	if !r.BudgetLogOnly {
		slow(toldSpacing(levels, s.Peers(now), now))
	}
	if s.Places.N > 0 {
		limits = append(limits, places(r.Bucket(Places), s.Places.N))
	}
	limits = merged(limits)
	return limits, own, len(limits) - lasting
}

// shared is the part of the longer rates that background requests may use now.
// They count in their bucket also while they may use everything, so that the
// share holds from the moment somebody else comes.
func (r Rules) shared(now time.Time, a Activity) float64 {
	if r.Share == 0 || a.Foreground.IsZero() || now.Sub(a.Foreground) >= shareFor {
		return 1
	}
	return r.Share
}

// Started books that a request of the key is being sent.
func (r Rules) Started(s *budget.State, now time.Time) {
	if s.Probe.Needed && s.Probe.Sent.IsZero() {
		s.Probe.Sent, s.Probe.Changed = now, now
		if s.Pause.Active(now) {
			s.Pause.Look = now.Add(lookEvery)
		}
	}
	if s.Ramp.Left > 0 {
		// However slow it is, it does not end with a herd.
		s.Ramp.Left, s.Ramp.Until = s.Ramp.Left-1, now.Add(rampFor)
	}
	r.use(s, now)
}

// leavePause ends the probing: the key is open, and those that waited for it
// follow one by one.
func (r Rules) leavePause(s *budget.State, now time.Time, a Activity) {
	s.Probe = budget.Probe{Changed: now}
	s.Ramp = budget.Ramp{Left: a.Waiting, Until: now.Add(rampFor), Every: rampEvery}
	r.endEpisode(s, now)
}

// rampInterval is the declared, told or learned time between starts, and where
// there is none what the ramp itself says.
func (r Rules) rampInterval(s *budget.State, now time.Time, factor float64) time.Duration {
	if every := r.Limits.tightest(r.Limits.margin() * factor); every > 0 {
		return every
	}
	return time.Duration(s.Peers(now)) * cmp.Or(r.toldInterval(s, now), s.Ramp.Every)
}

// toldInterval is the time between starts that the told limits of requests
// come to.
func (r Rules) toldInterval(s *budget.State, now time.Time) (longest time.Duration) {
	if r.NoBudgets {
		return 0 // what is kept is from before
	}
	for _, b := range s.Readings {
		longest = max(longest, toldEvery(b, now))
	}
	return longest
}

// toldWindows are the limits of requests that a provider tells in refusals alone:
// nothing says what is left of them, so they hold as declared ones do.
func (r Rules) toldWindows(s *budget.State, now time.Time) (limits []limiter.Limit) {
	if r.Reports || r.NoBudgets || r.BudgetLogOnly || r.declaresRequests() {
		return nil
	}
	for _, b := range s.Readings {
		if per := budget.Window(b.Snapshot); b.Refused && per > 0 && toldEvery(b, now) > 0 {
			limits = append(limits, rate(r.Bucket(Requests), float64(*b.Limit), per, per/50))
		}
	}
	return limits
}

// toldEvery is the time between starts that one reading comes to, 0 where it
// names no rate of requests: a limit over an unknown window says how many, not
// how often, one over a day leaves room for hours that are not all alike, and
// one of long ago may be of another plan.
func toldEvery(b budget.Reading, now time.Time) time.Duration {
	per := budget.Window(b.Snapshot)
	if now.Sub(b.Sent) > memory || b.Unit != Requests || per > time.Hour || b.Limit == nil || *b.Limit <= 0 {
		return 0
	}
	if rate := b.PerSecond(); rate > 0 {
		return max(1, time.Duration(float64(time.Second)/rate))
	}
	return per / time.Duration(*b.Limit)
}
