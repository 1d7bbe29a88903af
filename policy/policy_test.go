package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/budget"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/policy"
)

var t0 = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

const sec = time.Second

func rules(l policy.Limits) policy.Rules {
	return policy.Rules{
		Limits: l.Or(policy.Limits{Adaptive: policy.Adaptive{Decrease: 0.7, Min: 0.2, Increase: 0.1, Cooldown: 5 * time.Minute, Gap: 5 * sec}}),
		Retry:  policy.Retry{Max: 6, Max5xx: 2, Base: 2 * sec, MaxWait: 10 * time.Minute, Overload: 2 * time.Minute},
		Bucket: func(unit string) string { return unit },
	}
}

// write shows limits as a test would.
func write(ls []limiter.Limit) string {
	var s []string
	for _, l := range ls {
		if l.Concurrent > 0 {
			s = append(s, fmt.Sprintf("%d %s", l.Concurrent, l.Key))
		} else {
			s = append(s, fmt.Sprintf("%d/%v", l.Calls, l.Per))
		}
	}
	return strings.Join(s, ", ")
}

// What each setting compiles to, with margin, slack and factor.
func TestLimitsCompile(t *testing.T) {
	burst := policy.Burst
	for _, tt := range []struct {
		limits policy.Limits
		factor float64
		want   string
	}{
		{policy.Limits{}, 1, ""},
		{policy.Limits{MaxPerMinute: 15}, 1, "15/1m0s, 1/4s"},
		{policy.Limits{MaxPerMinute: 15, WindowSlack: 1500 * time.Millisecond}, 1, "15/1m1.5s, 1/4s"},
		{policy.Limits{MaxPerMinute: 15, SafetyMargin: 0.2}, 1, "12/1m0s, 1/5s"},
		{policy.Limits{MaxPerMinute: 15, Pacing: burst}, 0.7, "10/1m0s"},
		{policy.Limits{MaxPerMinute: 15}, 0.7, "10/1m0s, 1/5.715s"},
		// A fraction of a call becomes a call in a longer window.
		{policy.Limits{MaxPerSecond: 2, Pacing: burst}, 0.2, "1/2.5s"},
		{policy.Limits{MaxPerMinute: 1, Pacing: burst, SafetyMargin: 0.9}, 1, "1/10m0s"},
		// The faster of two windows does not set the pace.
		{policy.Limits{MaxPerSecond: 5, MaxPerMinute: 60}, 1, "1/1s, 60/1m0s"}, // the pacing is the smaller
		{policy.Limits{MaxPerSecond: 1, MaxPerMinute: 600}, 1, "1/1s, 600/1m0s"},
		// Above 600 a minute starts go in small groups.
		{policy.Limits{MaxPerMinute: 600}, 1, "600/1m0s, 1/100ms"},
		{policy.Limits{MaxPerMinute: 1000}, 1, "1000/1m0s, 2/120ms"},
		{policy.Limits{MaxPerMinute: 1_000_000}, 1, "1000000/1m0s, 1667/101ms"},
		// Hours and days are bounded, not paced.
		{policy.Limits{MaxPerHour: 800, MaxPerDay: 5000}, 1, "800/1h0m0s, 5000/24h0m0s"},
		// Other windows: slack from ten seconds up, at most a fiftieth.
		{policy.Limits{Windows: []policy.Window{{Calls: 10, Per: 5 * sec}, {Calls: 20, Per: 10 * sec}, {Calls: 30, Per: 20 * sec, Slack: sec}}, WindowSlack: sec, Pacing: burst}, 1, "10/5s, 20/10.2s, 30/21s"},
		{policy.Limits{MaxConcurrent: 10, SafetyMargin: 0.5}, 0.7, "7 places"},
		{policy.Limits{MaxConcurrent: 1}, 0.2, "1 places"},
	} {
		s := &budget.State{Factor: budget.Factor{Value: tt.factor, Changed: t0}}
		p := rules(tt.limits).Plan(s, nil, t0, policy.Activity{})
		if got := write(p.Limits); got != tt.want {
			t.Errorf("%+v at %v:\ngot  %s\nwant %s", tt.limits, tt.factor, got, tt.want)
		}
	}
}

// Every plan of a limit, at every factor, is one a limiter takes, and slows by
// at least the factor.
func TestCompiledLimitsAreValid(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 60, 599, 601, 15_000, 1_000_000, 1 << 30} {
		for _, factor := range []float64{0.2, 0.343, 0.7, 0.9, 1} {
			for _, l := range []policy.Limits{{MaxPerSecond: n}, {MaxPerMinute: n}, {MaxPerHour: n}, {MaxPerDay: n, MaxConcurrent: n}} {
				s := &budget.State{Factor: budget.Factor{Value: factor, Changed: t0}}
				p := rules(l).Plan(s, nil, t0, policy.Activity{})
				if err := (limiter.Request{Limits: p.Limits, Hold: sec}).Validate(); err != nil {
					t.Errorf("%+v at %v: %v", l, factor, err)
				}
				declared := map[time.Duration]int{sec: l.MaxPerSecond, time.Minute: l.MaxPerMinute, time.Hour: l.MaxPerHour, 24 * time.Hour: l.MaxPerDay}
				for per, most := range declared {
					if most == 0 {
						continue
					}
					fits := slices.ContainsFunc(p.Limits, func(c limiter.Limit) bool {
						return c.Per > 0 && float64(c.Calls)/float64(c.Per) <= float64(most)*factor/float64(per)*(1+1e-9)
					})
					if !fits {
						t.Errorf("%d per %v at %v is not held by %s", most, per, factor, write(p.Limits))
					}
				}
			}
		}
	}
}

// A told interval spaces what follows a pause where nothing is declared.
func TestToldIntervalSpacesTheProbe(t *testing.T) {
	limit := int64(30)
	s := &budget.State{}
	s.Observe(nil, budget.Observation{Sent: t0, Head: t0, Admitted: true, Buckets: []dialect.Snapshot{{Unit: dialect.Requests, Window: dialect.Minute, Limit: &limit}}})
	r := rules(policy.Limits{})
	r.Learn(s, nil, policy.Answer{Sent: t0, Now: t0, Reading: dialect.Reading{Class: dialect.RateLimited, Told: true, Wait: sec}})
	if got := write(r.Plan(s, nil, t0.Add(sec), policy.Activity{}).Limits); got != "1/2s" {
		t.Errorf("the probe is under %q, want 1/2s", got)
	}
}

// Three answers within ten seconds that the provider is full halve the starts
// for half a minute.
func TestOverloadHalvesStarts(t *testing.T) {
	s := &budget.State{}
	r := rules(policy.Limits{})
	full := func(at time.Time) {
		r.Learn(s, nil, policy.Answer{Sent: at, Now: at, Reading: dialect.Reading{Class: dialect.Overloaded}, Recent: 20})
	}
	full(t0)
	full(t0.Add(11 * sec))
	full(t0.Add(12 * sec))
	if p := r.Plan(s, nil, t0.Add(12*sec), policy.Activity{}); len(p.Limits) != 0 {
		t.Errorf("two within ten seconds: %s", write(p.Limits))
	}
	full(t0.Add(13 * sec))
	if got := write(r.Plan(s, nil, t0.Add(13*sec), policy.Activity{}).Limits); got != "1/1s" {
		t.Errorf("twenty starts in ten seconds became %s, want one a second", got)
	}
	if p := r.Plan(s, nil, t0.Add(44*sec), policy.Activity{}); len(p.Limits) != 0 {
		t.Errorf("half a minute later: %s", write(p.Limits))
	}
}

// Learned places grow by one for every twenty admissions while all are in
// use.
func TestPlacesGrow(t *testing.T) {
	s := &budget.State{}
	r := rules(policy.Limits{})
	r.Learn(s, nil, policy.Answer{Sent: t0, Now: t0, Reading: dialect.Reading{Class: dialect.RateLimited, Concurrent: true}, Activity: policy.Activity{InFlight: 5}})
	if s.Places.N != 4 {
		t.Fatalf("%d places after a refusal at five, want 4", s.Places.N)
	}
	admit := func(n, inFlight int) {
		for i := range n {
			at := t0.Add(time.Duration(i+1) * sec)
			r.Learn(s, nil, policy.Answer{Sent: at, Now: at, Reading: dialect.Reading{Class: dialect.OK}, Activity: policy.Activity{InFlight: inFlight}})
		}
	}
	admit(100, 3)
	if s.Places.N != 4 {
		t.Errorf("%d places without all in use", s.Places.N)
	}
	admit(20, 4)
	if s.Places.N != 5 {
		t.Errorf("%d places after twenty admissions, want 5", s.Places.N)
	}
}

// refuse and admit drive a key that has to learn its rate.
type key struct {
	r policy.Rules
	s budget.State
}

func (k *key) refuse(sent, now time.Time) {
	k.r.Learn(&k.s, nil, policy.Answer{Sent: sent, Now: now, Reading: dialect.Reading{Class: dialect.RateLimited}})
}

// admit lets one request through at an instant; during a pause's probing that
// is the probe.
func (k *key) admit(at time.Time) {
	k.r.Plan(&k.s, nil, at, policy.Activity{})
	k.r.Started(&k.s, at)
	k.r.Learn(&k.s, nil, policy.Answer{Sent: at, Now: at, Reading: dialect.Reading{Class: dialect.OK}, Activity: policy.Activity{InFlight: 1}})
}

// The first episode leaves a spacing, a second within the hour a rate, one
// much later a spacing again.
func TestEpisodes(t *testing.T) {
	k := &key{r: rules(policy.Limits{})}
	k.refuse(t0, t0)
	k.admit(t0.Add(10 * sec)) // the probe
	if k.s.Rate.PerSecond != 0 || k.s.Spacing.Every != 2*sec {
		t.Fatalf("after the first episode: %+v %+v", k.s.Rate, k.s.Spacing)
	}
	for i := range 60 {
		k.admit(t0.Add(time.Duration(11+i) * sec))
	}
	k.refuse(t0.Add(71*sec), t0.Add(71*sec))
	k.admit(t0.Add(130 * sec))
	// 60 admitted and the probe, in the 120 s since the first episode ended.
	if got := k.s.Rate.PerSecond; got < 61.0/120-1e-9 || got > 61.0/120+1e-9 {
		t.Errorf("after the second episode the rate is %v, want 61 in 120 s", got)
	}

	later := &key{r: rules(policy.Limits{})}
	later.refuse(t0, t0)
	later.admit(t0.Add(10 * sec))
	later.refuse(t0.Add(2*time.Hour), t0.Add(2*time.Hour))
	later.admit(t0.Add(2*time.Hour + 10*sec))
	if later.s.Rate.PerSecond != 0 || later.s.Spacing.Every == 0 {
		t.Errorf("two episodes two hours apart: %+v", later.s)
	}
}

// A rate is cut by at most a half, raised by a tenth with every ten
// admissions, by a hundredth near the rate that was refused, and forgotten
// after an hour of little use.
func TestLearnedRate(t *testing.T) {
	k := &key{r: rules(policy.Limits{})}
	k.s.Rate = budget.Rate{PerSecond: 1, Refused: 1, Changed: t0}
	k.s.Episode = budget.Episode{Ended: t0, Changed: t0}
	at := t0
	ten := func() {
		for range 10 {
			at = at.Add(sec)
			k.admit(at)
		}
	}
	ten()
	if k.s.Rate.PerSecond != 1.01 {
		t.Errorf("near the refused rate it rose to %v, want 1.01", k.s.Rate.PerSecond)
	}
	at = at.Add(1000 * sec) // admitted little in a long time
	k.refuse(at, at)
	at = at.Add(20 * sec)
	k.admit(at)
	if got := k.s.Rate.PerSecond; got != 0.505 {
		t.Errorf("cut to %v, want to no less than half", got)
	}
	ten()
	if got := k.s.Rate.PerSecond; got < 0.5554 || got > 0.5556 {
		t.Errorf("away from the refused rate it rose to %v, want by a tenth", got)
	}
	k.admit(at.Add(30 * time.Minute))
	k.admit(at.Add(61 * time.Minute))
	k.admit(at.Add(122 * time.Minute))
	if k.s.Rate.PerSecond != 0 {
		t.Errorf("after an hour of little use the rate is still %v", k.s.Rate.PerSecond)
	}
}

// One answer teaches once: thirty refusals of one burst are one, and
// successes already under way undo nothing.
func TestOneAnswerTeachesOnce(t *testing.T) {
	k := &key{r: rules(policy.Limits{})}
	for i := range 30 {
		k.refuse(t0, t0.Add(time.Duration(i)*time.Millisecond))
	}
	if k.s.Episode.Refusals != 1 {
		t.Errorf("one burst counted as %d refusals", k.s.Episode.Refusals)
	}
	if rest := k.s.Pause.Until.Sub(t0); rest > 2*sec+sec/2+30*time.Millisecond {
		t.Errorf("one burst pauses for %v", rest)
	}
	k.r.Learn(&k.s, nil, policy.Answer{Sent: t0, Now: t0.Add(sec), Reading: dialect.Reading{Class: dialect.OK}})
	if !k.s.Episode.Open || !k.s.Probe.Needed {
		t.Error("a success under way ended the episode")
	}
}

// P-87: a pause is made longer by a later refusal, never shorter, by whatever
// it is made.
func TestPausesOnlyGrow(t *testing.T) {
	s := &budget.State{}
	r := rules(policy.Limits{})
	for _, step := range []struct{ wait, until time.Duration }{
		{60 * sec, 60 * sec}, {5 * sec, 60 * sec}, {0, 60 * sec}, {61 * sec, 61 * sec},
	} {
		r.Learn(s, nil, policy.Answer{Sent: t0, Now: t0, Reading: dialect.Reading{Class: dialect.RateLimited, Told: step.wait > 0, Wait: step.wait}})
		if got := s.Pause.Until.Sub(t0); got != step.until {
			t.Errorf("after %v was asked for the pause lasts %v, want %v", step.wait, got, step.until)
		}
	}
}

// P-96: a refusal of a request sent before the factor was lowered does not lower
// it again, however late it comes.
func TestLateRefusalLowersNothing(t *testing.T) {
	s := &budget.State{}
	r := rules(policy.Limits{MaxPerMinute: 60})
	refused := func(sent, now time.Duration) bool {
		return r.Learn(s, nil, policy.Answer{Sent: t0.Add(sent), Now: t0.Add(now), Reading: dialect.Reading{Class: dialect.RateLimited}}).Lowered
	}
	if !refused(0, sec) || refused(0, 20*sec) || !refused(2*sec, 21*sec) {
		t.Errorf("the factor is %v; want one decrease for the two sent at 0, and one for the one sent after it", s.Factor.Value)
	}
}

// A reading is of no use for ever: an empty bucket explains refusals for its
// window, and a rate that was told long ago is not the plan's any more.
func TestReadingsAge(t *testing.T) {
	limit, none := int64(3), int64(0)
	s := &budget.State{}
	s.Observe(nil, budget.Observation{Sent: t0, Head: t0, Buckets: []dialect.Snapshot{{Unit: dialect.Requests, Window: dialect.Minute, Limit: &limit, Remaining: &none}}})
	r := rules(policy.Limits{MaxConcurrent: 4})
	refuse := func(at time.Duration) bool {
		return r.Learn(s, nil, policy.Answer{Sent: t0.Add(at), Now: t0.Add(at), Reading: dialect.Reading{Class: dialect.RateLimited}}).Lowered
	}
	if refuse(30*sec) || !refuse(2*time.Hour) {
		t.Errorf("the factor is %+v; want it lowered by the refusal hours later only", s.Factor)
	}
	p := r.Plan(s, nil, t0.Add(3*time.Hour), policy.Activity{})
	for _, l := range p.Limits {
		if l.Per == 20*sec {
			t.Errorf("a rate told three hours ago still spaces: %s", write(p.Limits))
		}
	}
}

// A probe that is refused after it counted as admitted teaches all the same.
func TestLateRefusalOfAProbe(t *testing.T) {
	k := &key{r: rules(policy.Limits{})}
	k.refuse(t0, t0)
	at := k.s.Pause.Until
	k.r.Started(&k.s, at)
	k.r.Plan(&k.s, nil, at.Add(2*sec), policy.Activity{}) // not refused for two seconds
	if k.s.Probe.Needed {
		t.Fatal("the probe is still awaited")
	}
	k.refuse(at, at.Add(3*sec))
	if !k.s.Pause.Active(at.Add(4 * sec)) {
		t.Error("its refusal paused nothing")
	}
}

// Nothing is learned where nobody wants adaptation, a rate is declared, or the
// answers to what is let through name the limit.
func TestWhoDoesNotLearn(t *testing.T) {
	limit := int64(60)
	told := budget.State{}
	told.Observe(nil, budget.Observation{Sent: t0, Head: t0, Admitted: true, Buckets: []dialect.Snapshot{{Unit: dialect.Requests, Window: dialect.Minute, Limit: &limit}}})
	for name, k := range map[string]*key{
		"adaptive off": {r: rules(policy.Limits{Adaptive: policy.Adaptive{Off: true}})},
		"declared":     {r: rules(policy.Limits{MaxPerMinute: 60})},
		"told":         {r: rules(policy.Limits{}), s: told},
	} {
		k.refuse(t0, t0)
		k.admit(t0.Add(10 * sec))
		k.refuse(t0.Add(20*sec), t0.Add(20*sec))
		k.admit(t0.Add(40 * sec))
		if k.s.Rate.PerSecond != 0 || k.s.Spacing.Every != 0 {
			t.Errorf("%s: learned %+v %+v", name, k.s.Rate, k.s.Spacing)
		}
	}
}

// An episode with few admissions is measured with what came before it: a
// window that is still full of the last burst says nothing of the rate.
func TestShortEpisodesAreMeasuredTogether(t *testing.T) {
	k := &key{r: rules(policy.Limits{})}
	k.refuse(t0, t0)
	k.admit(t0.Add(10 * sec)) // ends the first episode
	for i := range 60 {
		k.admit(t0.Add(time.Duration(11+i) * sec))
	}
	k.refuse(t0.Add(71*sec), t0.Add(71*sec))
	k.admit(t0.Add(130 * sec)) // 61 in 120 s
	before := k.s.Rate.PerSecond
	k.refuse(t0.Add(131*sec), t0.Add(131*sec))
	k.admit(t0.Add(150 * sec)) // one more in 20 s
	if got, want := k.s.Rate.PerSecond, 62.0/140; got < want-1e-9 || got > want+1e-9 {
		t.Errorf("the rate went from %v to %v, want %v: what was let through since the first episode", before, got, want)
	}
	if k.s.Rate.Refused != 0 {
		t.Errorf("a rate that was never in force counts as refused: %v", k.s.Rate.Refused)
	}
}

// While no rate has been refused the steps are a fifth; beyond the refused
// rate they are not small for ever.
func TestRaiseSteps(t *testing.T) {
	for _, tt := range []struct{ refused, rate, want float64 }{
		{0, 1, 1.2}, {2, 1, 1.1}, {1, 0.95, 0.95 * 1.01}, {1, 1.05, 1.05 * 1.01}, {1, 1.2, 1.2 * 1.1},
	} {
		k := &key{r: rules(policy.Limits{})}
		k.s.Rate = budget.Rate{PerSecond: tt.rate, Refused: tt.refused, Changed: t0}
		for i := range 10 {
			k.admit(t0.Add(time.Duration(i+1) * sec))
		}
		if got := k.s.Rate.PerSecond; got < tt.want-1e-9 || got > tt.want+1e-9 {
			t.Errorf("%v with %v refused rose to %v, want %v", tt.rate, tt.refused, got, tt.want)
		}
	}
}

// The backoff is about the time that one more request takes to fit: at most
// two intervals of a fast learned rate, at least one of a slow one.
func TestBackoffFollowsTheLearnedRate(t *testing.T) {
	for rate, base := range map[float64]time.Duration{0: 2 * sec, 10: 200 * time.Millisecond, 0.25: 4 * sec, 0.001: time.Minute} {
		k := &key{r: rules(policy.Limits{})}
		if rate > 0 {
			k.s.Rate = budget.Rate{PerSecond: rate, Changed: t0}
		}
		k.refuse(t0.Add(1), t0.Add(1))
		if rest := k.s.Pause.Until.Sub(t0.Add(1)); rest < base || rest > base+base/4 {
			t.Errorf("at %v a second the first pause is %v, want %v and up to a quarter", rate, rest, base)
		}
	}
}

// Those that waited while a spacing was forgiven are not let go in a herd.
func TestForgivenSpacingLeavesARamp(t *testing.T) {
	k := &key{r: rules(policy.Limits{})}
	k.s.Spacing = budget.Spacing{Every: 300 * time.Millisecond, Changed: t0}
	at := t0.Add(sec)
	k.r.Learn(&k.s, nil, policy.Answer{Sent: at, Now: at, Reading: dialect.Reading{Class: dialect.OK}, Activity: policy.Activity{Waiting: 2}})
	for range 2 {
		if got := write(k.r.Plan(&k.s, nil, at, policy.Activity{}).Limits); got != "1/500ms" {
			t.Errorf("under %q, want 1/500ms", got)
		}
		k.r.Started(&k.s, at)
	}
	if p := k.r.Plan(&k.s, nil, at, policy.Activity{}); len(p.Limits) != 0 {
		t.Errorf("those that waited have gone, and still: %s", write(p.Limits))
	}
}

// P-73: background requests have windows of their own of a minute and longer:
// a share of the rates while others are started, and all of them after a
// minute without.
func TestBackgroundWindows(t *testing.T) {
	r := rules(policy.Limits{MaxPerSecond: 5, MaxPerMinute: 15, MaxPerHour: 801, MaxPerDay: 5000, SafetyMargin: 0.1, Pacing: policy.Burst,
		Windows: []policy.Window{{Calls: 30, Per: 20 * sec}, {Calls: 1, Per: 2 * time.Hour}}})
	r.Share = 0.7
	declared := "4/1s, 13/1m0s, 720/1h0m0s, 4500/24h0m0s, 27/20s, 1/2h13m20s"
	for _, tt := range []struct {
		a     policy.Activity
		want  string
		eases time.Duration
	}{
		{policy.Activity{}, declared, 0},
		{policy.Activity{Foreground: t0}, declared, 0},
		{policy.Activity{Background: true, Foreground: t0.Add(-59 * sec)},
			"9/1m0s, 504/1h0m0s, 3150/24h0m0s, 1/3h10m28.571428571s, " + declared, sec},
		{policy.Activity{Background: true, Foreground: t0.Add(-60 * sec)},
			"13/1m0s, 720/1h0m0s, 4500/24h0m0s, 1/2h13m20s, " + declared, 0},
		{policy.Activity{Background: true}, "13/1m0s, 720/1h0m0s, 4500/24h0m0s, 1/2h13m20s, " + declared, 0},
	} {
		p := r.Plan(&budget.State{}, nil, t0, tt.a)
		if got := write(p.Limits); got != tt.want {
			t.Errorf("%+v:\ngot  %s\nwant %s", tt.a, got, tt.want)
		}
		own := 0
		if tt.a.Background {
			own = 4
		}
		if p.Own != own || !(tt.eases == 0 && p.Eases.IsZero() || p.Eases.Equal(t0.Add(tt.eases))) {
			t.Errorf("%+v: %d of its own, easing at %v", tt.a, p.Own, p.Eases)
		}
		for i, l := range p.Limits {
			if (l.Key == policy.Background) != (i < own) {
				t.Errorf("%+v: limit %d counts in %s", tt.a, i, l.Key)
			}
		}
	}
}

// The limits of a model count in buckets of their own and under the same
// factor; a bound of the client's comes with them.
func TestModelAndClientLimits(t *testing.T) {
	r := rules(policy.Limits{MaxPerMinute: 60})
	r.Own = policy.Limits{MaxPerMinute: 10, MaxConcurrent: 4, Pacing: policy.Burst}
	r.OwnBucket = func(unit string) string { return "model/" + unit }
	r.Client = limiter.Limit{Key: "client", Concurrent: 8}
	p := r.Plan(&budget.State{Factor: budget.Factor{Value: 0.5, Changed: t0}}, nil, t0, policy.Activity{})
	if got, want := write(p.Limits), "8 client, 5/1m0s, 2 model/places, 30/1m0s, 1/2s"; got != want || p.Own != 3 {
		t.Errorf("got %s, %d of its own; want %s", got, p.Own, want)
	}
}

// Windows of tokens count what the request is going to cost, in buckets of their
// own; nothing of them is paced. What is estimated to be more than there is
// counts as the most that any cost, and never all of a window.
func TestTokenLimitsCompile(t *testing.T) {
	all := policy.Limits{
		MaxPerMinute: 60, MaxTokensPerMinute: 1000, MaxTokensPerDay: 5000, MaxInputTokensPerMinute: 800, MaxOutputTokensPerMinute: 100,
		Windows: []policy.Window{{Calls: 300, Per: 10 * sec, Unit: policy.Input}}, WindowSlack: sec,
	}
	for _, tt := range []struct {
		name    string
		limits  policy.Limits
		cost    budget.Charge
		largest budget.Charge
		factor  float64
		want    string
	}{
		{"fits", all, budget.Charge{Tokens: 250, Input: 200, Output: 50}, budget.Charge{}, 1,
			"requests 60/1m1s, tokens 250 of 1000/1m1s, tokens 250 of 5000/24h0m1s, input 200 of 800/1m1s, output 50 of 100/1m1s, input 200 of 300/10.2s, requests 1/1s"},
		{"too much, and nothing known", all, budget.Charge{Tokens: 2000, Input: 1900, Output: 100}, budget.Charge{}, 1,
			"requests 60/1m1s, tokens 999 of 1000/1m1s, tokens 2000 of 5000/24h0m1s, input 799 of 800/1m1s, output 100 of 100/1m1s, input 299 of 300/10.2s, requests 1/1s"},
		{"too much, as none has been", policy.Limits{MaxTokensPerMinute: 1000}, budget.Charge{Tokens: 2000}, budget.Charge{Tokens: 400}, 1, "tokens 400 of 1000/1m0s"},
		{"as some have been", policy.Limits{MaxTokensPerMinute: 1000}, budget.Charge{Tokens: 2000}, budget.Charge{Tokens: 4000}, 1, "tokens 999 of 1000/1m0s"},
		{"nothing", policy.Limits{MaxTokensPerMinute: 1000}, budget.Charge{}, budget.Charge{}, 1, "tokens 1 of 1000/1m0s"},
		{"a factor", policy.Limits{MaxTokensPerMinute: 1000}, budget.Charge{Tokens: 800}, budget.Charge{}, 0.7, "tokens 699 of 700/1m0s"},
		{"one token", policy.Limits{MaxTokensPerMinute: 1}, budget.Charge{Tokens: 800}, budget.Charge{}, 1, "tokens 1 of 1/1m0s"},
	} {
		s := &budget.State{Factor: budget.Factor{Value: tt.factor, Changed: t0}}
		if tt.largest != (budget.Charge{}) {
			s.Ratios.Learn(t0, "m", false, tt.largest, tt.largest)
		}
		r := rules(tt.limits)
		r.Cost = tt.cost
		p := r.Plan(s, nil, t0, policy.Activity{})
		var got []string
		for _, l := range p.Limits {
			text := fmt.Sprintf("%s %d/%v", l.Key, l.Calls, l.Per)
			if l.Cost > 0 {
				text = fmt.Sprintf("%s %d of %d/%v", l.Key, l.Cost, l.Calls, l.Per)
			}
			got = append(got, text)
		}
		if got := strings.Join(got, ", "); got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, got, tt.want)
		}
		if err := (limiter.Request{Limits: p.Limits, Hold: sec}).Validate(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// What the provider reserves is no estimate: beyond what a window allows it takes
// all of it, whatever others cost.
func TestReservedTokensTakeTheWholeWindow(t *testing.T) {
	for _, tt := range []struct {
		name             string
		cost, reserved   int
		want             int
		oversize, lowers bool
	}{
		{"more than there is", 5010, 5000, 500, true, false},
		{"all there is", 510, 490, 500, false, true}, // 490 and the 10 that were seen
		{"a prompt that is estimated too long", 900, 20, 30, false, true},
		{"fits", 30, 20, 30, false, true},
	} {
		s := &budget.State{}
		s.Ratios.Learn(t0, "m", false, budget.Charge{Tokens: 10, Input: 10}, budget.Charge{Tokens: 10, Input: 10})
		r := rules(policy.Limits{MaxTokensPerMinute: 500})
		r.Cost, r.Reserved = budget.Charge{Tokens: tt.cost}, budget.Charge{Tokens: tt.reserved}
		if l := r.Plan(s, nil, t0, policy.Activity{}).Limits[0]; l.Cost != tt.want || r.Oversize(s) != tt.oversize {
			t.Errorf("%s: %d of %d, oversize %t; want %d, %t", tt.name, l.Cost, l.Calls, r.Oversize(s), tt.want, tt.oversize)
		}
		l := r.Learn(s, nil, policy.Answer{Sent: t0, Now: t0.Add(sec), Reading: dialect.Reading{Class: dialect.RateLimited}})
		if l.Lowered != tt.lowers {
			t.Errorf("%s: lowered %t, factor %v", tt.name, l.Lowered, l.Factor)
		}
	}
}

// Background requests have their share of tokens too, counted apart, and what a
// request has cost is settled in every bucket that may have counted it.
func TestTokensOfTheBackground(t *testing.T) {
	r := rules(policy.Limits{MaxTokensPerMinute: 1000, MaxPerMinute: 100, Pacing: policy.Burst})
	r.Share, r.Cost = 0.7, budget.Charge{Tokens: 10, Input: 8, Output: 2}
	r.OwnBucket = func(unit string) string { return "own " + unit }
	r.Own = policy.Limits{MaxOutputTokensPerMinute: 50}
	p := r.Plan(&budget.State{}, nil, t0, policy.Activity{Background: true, Foreground: t0})
	var got []string
	for _, l := range p.Limits {
		got = append(got, fmt.Sprintf("%s %d of %d", l.Key, l.Cost, l.Calls))
	}
	want := "own output 2 of 50, own background-output 2 of 35, background 0 of 70, background-tokens 10 of 700, requests 0 of 100, tokens 10 of 1000"
	if got := strings.Join(got, ", "); got != want || p.Own != 4 {
		t.Errorf("%d of its own:\ngot  %s\nwant %s", p.Own, got, want)
	}
	costs := r.Costs(budget.Charge{Tokens: 7, Input: 5, Output: 1})
	for _, l := range p.Limits {
		i := slices.IndexFunc(costs, func(c limiter.Cost) bool { return c.Key == l.Key })
		if (i >= 0) != (l.Cost > 0) {
			t.Errorf("%s is settled: %t", l.Key, i >= 0)
		}
	}
	if len(rules(policy.Limits{MaxPerMinute: 5}).Costs(r.Cost)) > 0 {
		t.Error("tokens are settled where none are declared")
	}
}

// Who declares tokens alone has declared no rate of requests: one is learned,
// and nothing spaces starts.
func TestTokensAreNoRateOfRequests(t *testing.T) {
	l := policy.Limits{MaxTokensPerMinute: 1000, Windows: []policy.Window{{Calls: 5, Per: time.Hour, Unit: policy.Output}}}
	if !l.DeclaresRate() || !l.DeclaresTokens() || l.DeclaresRequests() || l.Longest() != time.Hour {
		t.Errorf("%+v declares otherwise", l)
	}
	if l.Exceeded(func(time.Duration) int { return 100 }) {
		t.Error("requests exceed a window of tokens")
	}
	s := &budget.State{Rate: budget.Rate{PerSecond: 2, Changed: t0}}
	if got := write(rules(l).Plan(s, nil, t0, policy.Activity{}).Limits); got != "1000/1m0s, 5/1h0m0s, 1/500ms" {
		t.Errorf("%s", got)
	}
	for _, bad := range []policy.Limits{{MaxTokensPerDay: -1}, {MaxInputTokensPerMinute: 1 << 41}, {Windows: []policy.Window{{Calls: 1, Per: sec, Unit: "words"}}}} {
		if bad.Validate() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
	e := rules(policy.Limits{MaxTokensPerMinute: 1000, MaxInputTokensPerMinute: 500, SafetyMargin: 0.1}).Effective(&budget.State{}, t0)
	if e.TokensPerMinute != 900 || e.InputPerMinute != 450 || e.Spacing != 0 || len(e.Bounds) != 2 {
		t.Errorf("%+v", e)
	}
}
