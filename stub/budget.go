package stub

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A form is how a header writes the instant at which a meter is full again.
type form int

const (
	goDuration form = iota // 6m0s, to the millisecond
	seconds                // rounded up
	decimal                // of seconds
	rfc3339                // rounded up to a second
	epoch                  // seconds, rounded up
	epochMS
)

// A told is how a provider tells of its meters. In the names of its headers
// {unit} and {window} stand for those of the meter.
type telling struct {
	limit, remaining, reset, window string // names of headers, empty: not told
	reset2                          form
	// units are what it calls those it tells of.
	units map[Unit]string
	// rounds is to what remaining tokens are rounded, quiet whether refusals
	// tell nothing, and daily whether requests are told of per day alone.
	rounds       int
	quiet, daily bool
	// more adds what does not fit the pattern.
	more func(h http.Header, b budget, now time.Time)
}

var (
	requestsOnly = map[Unit]string{Requests: "requests"}
	plain        = map[Unit]string{Requests: "requests", Tokens: "tokens"}
)

// tellings are the providers that tell of their meters in headers.
var tellings = map[Headers]telling{
	HeadersOpenAI: {limit: "x-ratelimit-limit-{unit}", remaining: "x-ratelimit-remaining-{unit}", reset: "x-ratelimit-reset-{unit}", units: plain},
	HeadersAzure: {limit: "x-ratelimit-limit-{unit}", remaining: "x-ratelimit-remaining-{unit}", reset: "x-ratelimit-reset-{unit}",
		window: "x-ratelimit-renewalperiod-{unit}", reset2: seconds, units: plain},
	HeadersAnthropic: {limit: "anthropic-ratelimit-{unit}-limit", remaining: "anthropic-ratelimit-{unit}-remaining", reset: "anthropic-ratelimit-{unit}-reset",
		reset2: rfc3339, rounds: 1000, units: map[Unit]string{Requests: "requests", Tokens: "tokens", InputTokens: "input-tokens", OutputTokens: "output-tokens"}},
	HeadersGroq: {limit: "x-ratelimit-limit-{unit}", remaining: "x-ratelimit-remaining-{unit}", reset: "x-ratelimit-reset-{unit}", daily: true, units: plain},
	HeadersCerebras: {limit: "x-ratelimit-limit-{unit}-{window}", remaining: "x-ratelimit-remaining-{unit}-{window}", reset: "x-ratelimit-reset-{unit}-{window}",
		reset2: decimal, quiet: true, units: plain},
	HeadersMistral: {limit: "x-ratelimit-limit-{unit}-{window}", remaining: "x-ratelimit-remaining-{unit}-{window}",
		units: map[Unit]string{Requests: "req", Tokens: "tokens"}},
	HeadersXAI:       {limit: "x-ratelimit-limit-{unit}", remaining: "x-ratelimit-remaining-{unit}", reset: "x-ratelimit-reset-{unit}", units: plain},
	HeadersTogether:  {limit: "x-{unit}-limit", remaining: "x-{unit}-remaining", reset: "x-{unit}-reset", reset2: seconds, units: map[Unit]string{Requests: "ratelimit", Tokens: "tokenlimit"}},
	HeadersFireworks: {limit: "x-ratelimit-limit-{unit}", remaining: "x-ratelimit-remaining-{unit}", units: map[Unit]string{Requests: "requests", InputTokens: "tokens-prompt", OutputTokens: "tokens-generated"}},
	HeadersCohere:    {limit: "x-trial-endpoint-call-limit", remaining: "x-trial-endpoint-call-remaining", quiet: true, units: requestsOnly},
	HeadersGitHub:    {limit: "x-ratelimit-limit", remaining: "x-ratelimit-remaining", reset: "x-ratelimit-reset", reset2: epoch, units: requestsOnly},
	HeadersIETF:      {units: requestsOnly, more: tellIETF},
	HeadersLiteLLM: {limit: "llm_provider-x-ratelimit-limit-{unit}", remaining: "llm_provider-x-ratelimit-remaining-{unit}", reset: "llm_provider-x-ratelimit-reset-{unit}",
		units: plain},
	HeadersCodex:      {units: requestsOnly, more: tellCodex},
	HeadersClaudePlan: {units: requestsOnly, more: tellClaudePlan},
}

// setBudgets tells what is left of the meters, as it was at now.
//
// The limit told is what a meter holds when full, so a bucket's Burst: the
// reset is the time until remaining is limit again, and a client that divides
// one by the other gets the true rate.
func setBudgets(h http.Header, of Headers, bs []budget, now time.Time, refused bool) {
	t := tellings[of]
	if refused && t.quiet {
		return
	}
	for _, b := range bs {
		unit, tells := t.units[b.unit]
		if !tells || t.daily && b.unit == Requests && b.per != 24*time.Hour {
			continue
		}
		set := func(name, value string) {
			if name != "" {
				h.Set(strings.NewReplacer("{unit}", unit, "{window}", windowName(b.per)).Replace(name), value)
			}
		}
		remaining := b.remaining
		if t.rounds > 0 && b.unit != Requests {
			remaining = remaining / t.rounds * t.rounds
		}
		set(t.limit, strconv.Itoa(b.limit))
		set(t.remaining, strconv.Itoa(remaining))
		set(t.reset, t.reset2.write(b.full, now))
		set(t.window, strconv.Itoa(int(b.per/time.Second)))
		if t.more != nil {
			t.more(h, b, now)
		}
	}
}

func (f form) write(at, now time.Time) string {
	d := max(0, at.Sub(now))
	switch f {
	case seconds:
		return strconv.FormatInt(int64(roundUp(d, time.Second)/time.Second), 10)
	case decimal:
		return strconv.FormatFloat(roundUp(d, time.Millisecond).Seconds(), 'f', -1, 64)
	case rfc3339:
		return ceilSecond(at).UTC().Format(time.RFC3339)
	case epoch:
		return strconv.FormatInt(ceilSecond(at).Unix(), 10)
	case epochMS:
		return strconv.FormatInt(at.UnixMilli()+1, 10)
	}
	return roundUp(d, time.Millisecond).String()
}

func windowName(per time.Duration) string {
	switch per {
	case time.Second:
		return "second"
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	case 24 * time.Hour:
		return "day"
	}
	return strconv.Itoa(int(per/time.Second)) + "-second"
}

func tellIETF(h http.Header, b budget, now time.Time) {
	h.Set("RateLimit-Policy", `"default";q=`+strconv.Itoa(b.limit)+";w="+strconv.Itoa(int(b.per/time.Second)))
	h.Set("RateLimit", `"default";r=`+strconv.Itoa(b.remaining)+";t="+seconds.write(b.full, now))
}

// spent is the part of a meter that is used, in percent.
func (b budget) spent() float64 { return 100 * float64(b.limit-b.remaining) / float64(b.limit) }

func tellCodex(h http.Header, b budget, now time.Time) {
	h.Set("x-codex-primary-used-percent", strconv.FormatFloat(math.Round(b.spent()), 'f', -1, 64))
	h.Set("x-codex-primary-window-minutes", strconv.Itoa(int(b.per/time.Minute)))
	h.Set("x-codex-primary-reset-at", epoch.write(b.full, now))
}

func tellClaudePlan(h http.Header, b budget, now time.Time) {
	status := "allowed"
	if b.remaining == 0 {
		status = "rejected"
	}
	for _, claim := range []string{"", "5h-"} {
		h.Set("anthropic-ratelimit-unified-"+claim+"status", status)
		h.Set("anthropic-ratelimit-unified-"+claim+"reset", epoch.write(b.full, now))
	}
	h.Set("anthropic-ratelimit-unified-5h-utilization", strconv.FormatFloat(math.Round(b.spent())/100, 'f', -1, 64))
	h.Set("anthropic-ratelimit-unified-representative-claim", "five_hour")
}

// headBudgets sets the headers of an answer whose head is written now.
func (s *Stub) headBudgets(h http.Header, v verdict) {
	if len(v.budgets) == 0 {
		return
	}
	bs, at := v.budgets, v.arrived
	if s.config.HeadersAt == AtHead {
		s.mu.Lock()
		at = time.Now()
		bs = s.budgets(at)
		s.mu.Unlock()
	}
	setBudgets(h, s.config.Headers, bs, at, v.answered())
}
