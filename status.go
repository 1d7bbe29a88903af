package paceline

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/paceline-proxy/paceline/budget"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/gate"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/policy"
)

// A CallerStatus is what one caller key is doing now.
type CallerStatus struct {
	Provider   string `json:"provider"`
	Credential string `json:"credential,omitempty"` // a name such as openai#1
	Account    string `json:"account,omitempty"`
	Scope      string `json:"scope,omitempty"`

	Waiting Waiting `json:"waiting"`
	// Active requests are at the provider; Held places are those of requests
	// whose client has left, while the provider may work on.
	Active int `json:"active"`
	Held   int `json:"held"`
	// Binding is what binds the line now.
	Binding Binding `json:"binding"`
	// Free is whether a request that came now would be started at once, and
	// NextStart where it would not when it could be at the earliest, as far as a
	// clock tells. A limiter that other hosts share is asked, where it can say:
	// one that they have used up names no instant.
	Free      bool      `json:"free"`
	NextStart time.Time `json:"next_start,omitzero"`

	PausedUntil  time.Time `json:"paused_until,omitzero"`
	PausedWhy    string    `json:"paused_why,omitempty"`
	PausedSource string    `json:"paused_source,omitempty"` // told, learned, operator

	BaseURL string `json:"base_url,omitempty"` // of the entry
	Dialect string `json:"dialect,omitempty"`  // where the entry names one

	// Limits are the declared ones, Effective what is left of them.
	Limits    LimitsStatus    `json:"limits"`
	Effective EffectiveStatus `json:"effective"`
	Sent60s   int             `json:"sent_60s"`
	Buckets   []BucketStatus  `json:"buckets,omitempty"`
	// Budgets is what is done about the buckets; absent where they are heeded.
	Budgets Budgets `json:"budgets,omitempty"`
}

// Waiting counts the requests in a line by their priority.
type Waiting struct {
	Interactive int `json:"interactive"`
	Normal      int `json:"normal"`
	Background  int `json:"background"`
}

// A Binding is what binds a line now: why its next request is not sent yet.
type Binding struct {
	// What is one of the Binds constants: clients, limit, factor, rate, spacing,
	// places, pause, probe, budget.
	What string `json:"what"`
	// Says is a short phrase with the figure: "15 per minute".
	Says string `json:"says"`
	// The figure, as far as it is one of these.
	Calls      int       `json:"calls,omitempty"` // or tokens, as Unit says
	Unit       string    `json:"unit,omitempty"`  // of Calls: tokens, input or output; absent for requests
	PerMs      int64     `json:"per_ms,omitempty"`
	Concurrent int       `json:"concurrent,omitempty"`
	Factor     float64   `json:"factor,omitempty"`
	Until      time.Time `json:"until,omitzero"`
}

// What may bind a line.
const (
	BindsClients = "clients" // nothing waits
	BindsLimit   = policy.BoundDeclared
	BindsFactor  = policy.BoundLowered
	BindsRate    = policy.BoundLearned
	BindsSpacing = policy.BoundSpacing
	BindsPlaces  = policy.BoundPlaces
	BindsPause   = "pause"
	BindsProbe   = "probe"  // one request looks whether a pause is over
	BindsBudget  = "budget" // what the provider told is left
)

// LimitsStatus are declared limits.
type LimitsStatus struct {
	PerSecond             int            `json:"per_second,omitempty"`
	PerMinute             int            `json:"per_minute,omitempty"`
	PerHour               int            `json:"per_hour,omitempty"`
	PerDay                int            `json:"per_day,omitempty"`
	Concurrent            int            `json:"concurrent,omitempty"`
	TokensPerMinute       int            `json:"tokens_per_minute,omitempty"`
	TokensPerDay          int            `json:"tokens_per_day,omitempty"`
	InputTokensPerMinute  int            `json:"input_tokens_per_minute,omitempty"`
	OutputTokensPerMinute int            `json:"output_tokens_per_minute,omitempty"`
	Windows               []WindowStatus `json:"windows,omitempty"`
	Pacing                string         `json:"pacing,omitempty"`
	SafetyMargin          float64        `json:"safety_margin,omitempty"`
	WindowSlackMs         int64          `json:"window_slack_ms,omitempty"`
	AbortHoldMs           int64          `json:"abort_hold_ms,omitempty"`
}

// A WindowStatus is a declared window of any length.
type WindowStatus struct {
	Calls   int    `json:"calls"` // or tokens, as Unit says
	PerMs   int64  `json:"per_ms"`
	Unit    string `json:"unit,omitempty"`     // absent for requests
	SlackMs int64  `json:"slack_ms,omitempty"` // negative: none; 0: that of the limits
}

// EffectiveStatus is what holds now: declared limits with margin and factor,
// or learned and told ones. What does not limit is absent.
type EffectiveStatus struct {
	Factor                float64 `json:"factor"`
	PerSecond             float64 `json:"per_second,omitempty"`
	PerMinute             float64 `json:"per_minute,omitempty"`
	PerHour               float64 `json:"per_hour,omitempty"`
	TokensPerMinute       float64 `json:"tokens_per_minute,omitempty"`
	TokensPerDay          float64 `json:"tokens_per_day,omitempty"`
	InputTokensPerMinute  float64 `json:"input_tokens_per_minute,omitempty"`
	OutputTokensPerMinute float64 `json:"output_tokens_per_minute,omitempty"`
	Concurrent            int     `json:"concurrent,omitempty"`
	SpacingMs             float64 `json:"spacing_ms,omitempty"` // the least time between starts
}

// A BucketStatus is a budget as the provider reported it last.
type BucketStatus struct {
	Unit      string `json:"unit"`
	Window    string `json:"window,omitempty"` // empty where it is not known
	Scope     string `json:"scope,omitempty"`
	Limit     *int64 `json:"limit,omitempty"`
	Remaining *int64 `json:"remaining,omitempty"`
	// Projected is what is left now, with what was sent and what has come back
	// since, and Floor what is kept for others. Both are absent where the report
	// says nothing any more.
	Projected *int64    `json:"projected,omitempty"`
	Floor     *int64    `json:"floor,omitempty"`
	ResetAt   time.Time `json:"reset_at,omitzero"`
}

// Status is what every caller key of this process is doing, in order of
// provider, account and scope. Keys that nobody has used for a while are
// forgotten, and with them their status.
func (t *Transport) Status() []CallerStatus {
	t.once.Do(t.init)
	es := t.entries.Load()
	if es == nil {
		return nil
	}
	now := time.Now()
	var all []CallerStatus
	var asks []roomAsk
	for name, caller := range t.home.book.Callers() {
		key, ok := parseCallerKey(name)
		if !ok {
			continue
		}
		e := es.find(key.provider)
		if e == nil {
			e = es.undeclared(key.provider)
		}
		s, limits := t.home.status(e, key, name, caller, now)
		if all = append(all, s); s.Free {
			asks = append(asks, roomAsk{len(all) - 1, name, limits})
		}
	}
	t.home.askRoom(all, asks)
	slices.SortFunc(all, func(a, b CallerStatus) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Credential, b.Credential),
			cmp.Compare(a.Account, b.Account), cmp.Compare(a.Scope, b.Scope))
	})
	return all
}

// A roomAsk is a question of a shared limiter: whether the caller key whose
// status is the at-th has room in limits.
type roomAsk struct {
	at     int
	name   string
	limits []limiter.Limit
}

// How long a status waits for a shared limiter, and how many caller keys it asks
// for at once. The wait is shorter than those after which a limiter that does not
// answer counts as away: that is not for looking to find.
const (
	roomWait = 200 * time.Millisecond
	roomAsks = 8
)

// askRoom has a shared limiter say which of the keys that are free as far as
// this process knows are not, since others have used them up.
func (h *home) askRoom(all []CallerStatus, asks []roomAsk) {
	if len(asks) == 0 || !h.gate.Peeks() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), roomWait)
	defer cancel()
	var wg sync.WaitGroup
	for first := range min(roomAsks, len(asks)) {
		wg.Go(func() {
			for i := first; i < len(asks) && ctx.Err() == nil; i += roomAsks {
				s := &all[asks[i].at]
				if r := h.gate.Room(ctx, asks[i].name, asks[i].limits); r.Taken {
					s.Free, s.NextStart = false, r.Opens.UTC()
				}
			}
		})
	}
	wg.Wait()
}

// status is what one caller key is doing, and the limits that its next request
// has to fit.
func (h *home) status(e *entry, key callerKey, name string, caller *budget.Caller, now time.Time) (s CallerStatus, limits []limiter.Limit) {
	rules := rulesOf(e, key, key.scope)
	line := h.gate.Line(name)
	s = CallerStatus{Provider: key.provider, Scope: key.scope, BaseURL: e.BaseURL, Dialect: e.Dialect, Limits: limitsStatus(rules.Limits)}
	s.Waiting = Waiting{line.Waiting[0], line.Waiting[1], line.Waiting[2]}
	s.Held = h.heldBy(name)
	s.Active = max(0, line.Active-s.Held)
	s.Credential, s.Account = h.who(e, key.account)
	if e.Budgets != HeedBudgets {
		s.Budgets = e.Budgets
	}
	orders := h.orders(operatorKey(key.provider), now)
	caller.Look(now, func(state *budget.State, starts *budget.Starts) {
		state.Obey(&orders, now)
		plan := rules.Plan(state, starts, now, policy.Activity{InFlight: line.Active, Waiting: line.Waiting[0] + line.Waiting[1] + line.Waiting[2]})
		effective := rules.Effective(state, now)
		s.Effective = effectiveStatus(effective)
		s.Sent60s = starts.Within(time.Minute, now)
		if p := state.Pause; p.Active(now) {
			s.PausedUntil, s.PausedWhy, s.PausedSource = p.Until.UTC(), string(p.Reason), string(p.Source)
		} else if line.Pause.After(now) {
			// Another process over the same limiter was told of it.
			s.PausedUntil, s.PausedWhy, s.PausedSource = line.Pause.UTC(), string(budget.RateLimit), string(budget.Told)
		}
		s.Binding = binding(&s, line, plan, effective, starts, now)
		s.Free, s.NextStart = next(&s, line, plan, effective, starts, now)
		s.Buckets = bucketStatuses(state, starts, now)
		limits = plan.Limits
	})
	return s, limits
}

// who is whom a caller key's account stands for: a credential, by the name
// that people may see, or an account that somebody has named.
func (h *home) who(e *entry, account string) (credential, name string) {
	if credential := h.sharing(e, account); credential != "" {
		return credential, ""
	}
	return "", account
}

// binding is why the next request of a line is not sent yet: of all that holds
// it up, what holds it up longest.
func binding(s *CallerStatus, line gate.Line, plan policy.Plan, e policy.Effective, starts *budget.Starts, now time.Time) Binding {
	until := func(at time.Time) string { return "until " + at.UTC().Format(time.RFC3339) }
	switch {
	case s.PausedUntil.After(now):
		return Binding{What: BindsPause, Until: s.PausedUntil, Says: fmt.Sprintf("%s (%s) %s", s.PausedWhy, s.PausedSource, until(s.PausedUntil))}
	case line.Waiting == [3]int{}:
		return Binding{What: BindsClients, Says: "nothing waits"}
	case plan.Full:
		return Binding{What: BindsPlaces, Concurrent: e.Concurrent, Says: plan.Why}
	case plan.NotBefore.After(now):
		what := BindsBudget
		if plan.Probing {
			what = BindsProbe
		}
		return Binding{What: what, Until: plan.NotBefore.UTC(), Says: plan.Why}
	}
	var last time.Time
	var found *policy.Bound
	for i := range e.Bounds {
		b := &e.Bounds[i]
		if l := b.Limit; b.Declared.OfTokens() {
			if slices.Contains(line.Refused, l.Key) && line.Until.After(last) {
				last, found = line.Until, b
			}
		} else if l.Calls > 0 {
			if at, ok := starts.Back(l.Calls); ok && at.Add(l.Per).After(now) && at.Add(l.Per).After(last) {
				last, found = at.Add(l.Per), b
			}
		} else if found == nil && line.Active >= l.Concurrent {
			found = b
		}
	}
	if found == nil {
		return Binding{What: BindsLimit, Until: line.Until.UTC(), Says: orElse(line.Why, "its turn is being asked for")}
	}
	b := Binding{What: found.What, Calls: found.Limit.Calls, PerMs: found.Limit.Per.Milliseconds(), Concurrent: found.Limit.Concurrent}
	if !last.IsZero() && b.Calls > 0 {
		b.Until = last.UTC()
	}
	if found.What == BindsFactor {
		b.Factor = e.Factor
	}
	if found.Declared.OfTokens() {
		b.Unit = found.Declared.Unit
	}
	b.Says = says(found, e.Factor)
	return b
}

// next says whether a request that came now would be started at once, and when
// it could be.
func next(s *CallerStatus, line gate.Line, plan policy.Plan, e policy.Effective, starts *budget.Starts, now time.Time) (free bool, at time.Time) {
	free = line.Waiting == [3]int{} && !plan.Full
	for _, t := range []time.Time{s.PausedUntil, plan.NotBefore} {
		if t.After(at) {
			at = t
		}
	}
	for i := range e.Bounds {
		if l := e.Bounds[i].Limit; l.Calls == 0 {
			free = free && line.Active < l.Concurrent
		} else if start, ok := starts.Back(l.Calls); ok && start.Add(l.Per).After(at) {
			at = start.Add(l.Per)
		}
	}
	if !at.After(now) {
		return free, time.Time{}
	}
	return false, at.UTC()
}

// says writes a bound with its figure.
func says(b *policy.Bound, factor float64) (text string) {
	l := b.Limit
	switch {
	case l.Concurrent > 0:
		return fmt.Sprintf("%d at once", l.Concurrent)
	case b.Declared.OfTokens():
		kind := "tokens"
		if b.Declared.Unit != policy.Tokens {
			kind = b.Declared.Unit + " tokens"
		}
		text = fmt.Sprintf("%d %s per %s", b.Declared.Calls, kind, span(b.Declared.Per))
	case b.Declared.Calls > 0:
		text = fmt.Sprintf("%d per %s", b.Declared.Calls, span(b.Declared.Per))
	case l.Calls == 1:
		text = fmt.Sprintf("one start every %v", l.Per)
	default:
		text = fmt.Sprintf("%d starts every %v", l.Calls, l.Per)
	}
	switch b.What {
	case BindsFactor:
		text += fmt.Sprintf(", at %v of the declared rate", factor)
	case BindsRate:
		text += ", learned from refusals"
	case BindsSpacing:
		text += ", after a refusal"
	}
	return text
}

// span names the length of a window.
func span(d time.Duration) string {
	switch d {
	case time.Second:
		return "second"
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	case 24 * time.Hour:
		return "day"
	}
	return d.String()
}

func limitsStatus(l Limits) LimitsStatus {
	s := LimitsStatus{
		PerSecond: l.MaxPerSecond, PerMinute: l.MaxPerMinute, PerHour: l.MaxPerHour, PerDay: l.MaxPerDay,
		TokensPerMinute: l.MaxTokensPerMinute, TokensPerDay: l.MaxTokensPerDay,
		InputTokensPerMinute: l.MaxInputTokensPerMinute, OutputTokensPerMinute: l.MaxOutputTokensPerMinute,
		Concurrent: l.MaxConcurrent, SafetyMargin: l.SafetyMargin,
		WindowSlackMs: max(0, l.WindowSlack).Milliseconds(), AbortHoldMs: max(0, l.AbortHold).Milliseconds(),
	}
	for _, w := range l.Windows {
		one := WindowStatus{Calls: w.Calls, PerMs: w.Per.Milliseconds(), SlackMs: w.Slack.Milliseconds()}
		if w.OfTokens() {
			one.Unit = w.Unit
		}
		if w.Slack < 0 {
			one.SlackMs = -1
		}
		s.Windows = append(s.Windows, one)
	}
	if l.DeclaresRequests() {
		s.Pacing = orElse(string(l.Pacing), string(Even))
	}
	return s
}

func effectiveStatus(e policy.Effective) EffectiveStatus {
	return EffectiveStatus{
		Factor: e.Factor, PerSecond: e.PerSecond, PerMinute: e.PerMinute, PerHour: e.PerHour,
		TokensPerMinute: e.TokensPerMinute, TokensPerDay: e.TokensPerDay,
		InputTokensPerMinute: e.InputPerMinute, OutputTokensPerMinute: e.OutputPerMinute,
		Concurrent: e.Concurrent, SpacingMs: float64(e.Spacing.Microseconds()) / 1000,
	}
}

// bucketStatuses are the told budgets as they are now.
func bucketStatuses(s *budget.State, starts *budget.Starts, now time.Time) (all []BucketStatus) {
	levels := s.Levels(starts, now, budget.Charge{})
	for _, r := range s.Readings {
		b := bucketStatus(r)
		for _, l := range levels {
			if budget.OneBucket(l.Snapshot, r.Snapshot) {
				b.Projected, b.Floor = new(int64(max(0, l.Projected))), new(int64(math.Ceil(l.Floor)))
			}
		}
		all = append(all, b)
	}
	return all
}

func bucketStatus(r budget.Reading) BucketStatus {
	b := BucketStatus{Unit: r.Unit, Scope: r.Scope, Limit: r.Limit, Remaining: r.Remaining}
	if r.Window != dialect.Unknown {
		b.Window = r.Window
	}
	if at := r.Recovery.At; !at.IsZero() {
		b.ResetAt = at.UTC()
	}
	return b
}
