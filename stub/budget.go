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

// A telling is how a provider tells of its meters. In the names of its headers
// {unit} and {window} stand for those of the meter.
type telling struct {
	limit, remaining, reset string // names of headers, empty: not told
	form                    form   // of the reset
	next                    bool   // the reset is when there is more, not when all is there
	units                   map[Unit]string
	rounds                  int   // what remaining tokens are a whole number of, 0: of one
	silent                  kinds // where nothing is told
	daily                   bool  // of requests only those of a day
	// more adds what does not fit the pattern.
	more func(h http.Header, b budget, now time.Time)
}

// kinds are sets of kinds of answers.
type kinds int

const (
	onRefusals kinds = 1 << iota
	onStreams
)

var (
	requestsOnly = map[Unit]string{Requests: "requests"}
	plain        = map[Unit]string{Requests: "requests", Tokens: "tokens"}

	// likeOpenAI are the names that most providers took over.
	likeOpenAI = telling{limit: "x-ratelimit-limit-{unit}", remaining: "x-ratelimit-remaining-{unit}", reset: "x-ratelimit-reset-{unit}", units: plain}
)

// but is a telling with a few differences.
func (t telling) but(change func(*telling)) telling {
	change(&t)
	return t
}

// tellings are the providers that tell of their meters in headers.
var tellings = map[Headers]telling{
	HeadersOpenAI:       likeOpenAI,
	HeadersXAI:          likeOpenAI,
	HeadersAzure:        likeOpenAI.but(func(t *telling) { t.form, t.more = seconds, tellRenewal }),
	HeadersGitHubModels: likeOpenAI.but(func(t *telling) { t.form, t.more = seconds, tellRenewal }),
	HeadersGroq:         likeOpenAI.but(func(t *telling) { t.daily = true }),
	HeadersDigitalOcean: likeOpenAI.but(func(t *telling) { t.form, t.next = epoch, true }),
	HeadersLiteLLM: likeOpenAI.but(func(t *telling) {
		t.limit, t.remaining, t.reset = "llm_provider-"+t.limit, "llm_provider-"+t.remaining, "llm_provider-"+t.reset
	}),
	HeadersCerebras: likeOpenAI.but(func(t *telling) {
		t.limit, t.remaining, t.reset = t.limit+"-{window}", t.remaining+"-{window}", t.reset+"-{window}"
		t.form, t.silent = decimal, onRefusals
	}),
	HeadersAnthropic: {limit: "anthropic-ratelimit-{unit}-limit", remaining: "anthropic-ratelimit-{unit}-remaining", reset: "anthropic-ratelimit-{unit}-reset",
		form: rfc3339, rounds: 1000,
		units: map[Unit]string{Requests: "requests", Tokens: "tokens", InputTokens: "input-tokens", OutputTokens: "output-tokens"}},
	HeadersMistral: {limit: "x-ratelimit-limit-{unit}-{window}", remaining: "x-ratelimit-remaining-{unit}-{window}", silent: onStreams,
		units: map[Unit]string{Requests: "req", Tokens: "tokens"}},
	HeadersTogether: {limit: "x-{unit}-limit", remaining: "x-{unit}-remaining", reset: "x-{unit}-reset", form: seconds,
		units: map[Unit]string{Requests: "ratelimit", Tokens: "tokenlimit"}},
	HeadersFireworks: {limit: "x-ratelimit-limit-{unit}", remaining: "x-ratelimit-remaining-{unit}",
		units: map[Unit]string{Requests: "requests", InputTokens: "tokens-prompt", OutputTokens: "tokens-generated"}},
	HeadersCohere:      {limit: "x-trial-endpoint-call-limit", remaining: "x-trial-endpoint-call-remaining", silent: onRefusals, units: requestsOnly},
	HeadersGitHub:      {limit: "x-ratelimit-limit", remaining: "x-ratelimit-remaining", reset: "x-ratelimit-reset", form: epoch, units: requestsOnly, more: tellGitHub},
	HeadersIETF:        {units: requestsOnly, more: tellIETF(`"default"`, `"default"`)},
	HeadersCloudflare:  {units: requestsOnly, more: tellIETF(`"default"`, `"default"`)},
	HeadersHuggingFace: {units: requestsOnly, more: tellIETF(`"fixed window";"api"`, `"api"`)},
	HeadersCodex:       {units: requestsOnly, silent: onRefusals, more: tellCodex},
	HeadersClaudePlan:  {units: requestsOnly, more: tellClaudePlan},
}

// setBudgets tells what is left of the meters, as it was at now, in an answer
// of a kind.
//
// The limit told is what a meter holds when full, so a bucket's Burst: the
// reset is the time until remaining is limit again, and a client that divides
// one by the other gets the true rate.
func setBudgets(h http.Header, of Headers, bs []budget, now time.Time, kind kinds) {
	t := tellings[of]
	if t.silent&kind != 0 {
		return
	}
	for _, b := range bs {
		unit, tells := t.units[b.unit]
		if !tells || t.daily && b.unit == Requests && b.per != 24*time.Hour {
			continue
		}
		set := func(name, value string) {
			if name != "" {
				setOnce(h, strings.NewReplacer("{unit}", unit, "{window}", windowName(b.per)).Replace(name), value)
			}
		}
		remaining, reset := b.remaining, b.full
		if t.rounds > 0 && b.unit != Requests {
			remaining = (remaining + t.rounds/2) / t.rounds * t.rounds
		}
		if t.next {
			reset = b.more
		}
		set(t.limit, strconv.Itoa(b.limit))
		set(t.remaining, strconv.Itoa(remaining))
		set(t.reset, t.form.write(reset, now))
		if t.more != nil {
			t.more(h, b, now)
		}
	}
}

// setOnce leaves to the first of several meters what only one can be told in.
func setOnce(h http.Header, name, value string) {
	if h.Get(name) == "" {
		h.Set(name, value)
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

// tellIETF has the fields of the draft, whose t is the time to more quota.
func tellIETF(policy, name string) func(http.Header, budget, time.Time) {
	return func(h http.Header, b budget, now time.Time) {
		setOnce(h, "RateLimit-Policy", policy+";q="+strconv.Itoa(b.limit)+";w="+strconv.Itoa(int(b.per/time.Second)))
		setOnce(h, "RateLimit", name+";r="+strconv.Itoa(b.remaining)+";t="+seconds.write(b.more, now))
	}
}

func tellRenewal(h http.Header, b budget, _ time.Time) {
	setOnce(h, "x-ratelimit-renewalperiod-"+plain[b.unit], strconv.Itoa(int(b.per/time.Second)))
}

func tellGitHub(h http.Header, b budget, _ time.Time) {
	setOnce(h, "x-ratelimit-used", strconv.Itoa(b.limit-b.remaining))
	h.Set("x-ratelimit-resource", "core")
}

// spent is the part of a meter that is used, in percent.
func (b budget) spent() float64 { return 100 * float64(b.limit-b.remaining) / float64(b.limit) }

// A plan has two windows, of hours and of days. Only what part of them is
// spent is told.
const shortPlan = 24 * time.Hour

func tellCodex(h http.Header, b budget, now time.Time) {
	window := "x-codex-primary-"
	if b.per > shortPlan {
		window = "x-codex-secondary-"
	}
	h.Set(window+"used-percent", strconv.FormatFloat(math.Round(b.spent()), 'f', -1, 64))
	h.Set(window+"window-minutes", strconv.Itoa(int(b.per/time.Minute)))
	h.Set(window+"reset-at", epoch.write(b.full, now))
}

func tellClaudePlan(h http.Header, b budget, now time.Time) {
	window, claim := "5h", "five_hour"
	if b.per > shortPlan {
		window, claim = "7d", "seven_day"
	}
	status := "allowed"
	if b.remaining == 0 {
		status = "rejected"
	}
	const unified = "anthropic-ratelimit-unified-"
	set := func(of string) {
		h.Set(unified+of+"status", status)
		h.Set(unified+of+"reset", epoch.write(b.full, now))
	}
	set(window + "-")
	h.Set(unified+window+"-utilization", strconv.FormatFloat(math.Round(b.spent())/100, 'f', -1, 64))
	// The window that binds stands for all.
	if status == "rejected" || h.Get(unified+"status") == "" {
		set("")
		h.Set(unified+"representative-claim", claim)
	}
}

// headBudgets sets the headers of an answer whose head is written now.
func (s *Stub) headBudgets(h http.Header, v verdict, kind kinds) {
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
	setBudgets(h, s.config.Headers, bs, at, kind)
}
