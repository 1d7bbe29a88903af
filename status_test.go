package paceline_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/stub"
)

// Status names what binds a line now, with its figure.
func TestBinding(t *testing.T) {
	burst := func(l paceline.Limits) paceline.Limits {
		l.Pacing, l.WindowSlack = paceline.Burst, -1
		return l
	}
	for name, tt := range map[string]struct {
		limits paceline.Limits
		config stub.Config
		calls  int
		after  time.Duration
		what   string
		says   string
		until  time.Duration // since the start
	}{
		"nobody waits":      {burst(paceline.Limits{MaxPerMinute: 5}), stub.Config{Service: time.Minute}, 3, sec, paceline.BindsClients, "nothing waits", 0},
		"a declared rate":   {burst(paceline.Limits{MaxPerMinute: 5, MaxPerSecond: 100}), stub.Config{}, 7, sec, paceline.BindsLimit, "5 per minute", time.Minute},
		"a longer one":      {burst(paceline.Limits{MaxPerMinute: 50, MaxPerHour: 5}), stub.Config{}, 7, sec, paceline.BindsLimit, "5 per hour", time.Hour},
		"even pacing":       {paceline.Limits{MaxPerMinute: 15, WindowSlack: -1}, stub.Config{}, 7, sec, paceline.BindsLimit, "one start every 4s", 4 * sec},
		"places":            {burst(paceline.Limits{MaxConcurrent: 2}), stub.Config{Service: time.Minute}, 3, sec, paceline.BindsPlaces, "2 at once", 0},
		"tokens":            {burst(paceline.Limits{MaxInputTokensPerMinute: 30, MaxPerMinute: 50}), stub.Config{}, 7, sec, paceline.BindsLimit, "30 input tokens per minute", time.Minute},
		"a factor":          {paceline.Limits{MaxPerMinute: 7, WindowSlack: -1}, stub.Config{Script: []stub.Step{told(sec)}}, 9, 20 * sec, paceline.BindsFactor, "one start every 12.245s, at 0.7 of the declared rate", 0},
		"a stated wait":     {paceline.Limits{}, stub.Config{Script: []stub.Step{told(time.Minute)}}, 2, sec, paceline.BindsPause, "rate_limit (told) until 2000-01-01T00:01:00Z", time.Minute},
		"a probe":           {paceline.Limits{}, stub.Config{Script: []stub.Step{told(sec)}, Service: time.Minute}, 2, 2 * sec, paceline.BindsProbe, "one probe at a time after a pause", 3 * sec},
		"spacing after one": {paceline.Limits{}, stub.Config{Script: []stub.Step{told(20 * sec)}}, 9, 21 * sec, paceline.BindsSpacing, "one start every 20s, after a refusal", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, tt.config, paceline.Provider{Limits: tt.limits, Retry: paceline.Retry{MaxWait: time.Hour}})
				start := time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for i := range tt.calls {
					go r.chat(ctx)
					if i == 0 {
						synctest.Wait() // the others meet what it has met
					}
				}
				time.Sleep(tt.after)
				synctest.Wait()
				s := r.Status()
				if len(s) != 1 {
					t.Fatalf("%d callers", len(s))
				}
				b := s[0].Binding
				if b.What != tt.what || b.Says != tt.says || tt.until != 0 && b.Until.Sub(start) != tt.until {
					t.Errorf("bound by %+v\n%+v", b, s[0])
				}
				cancel()
				synctest.Wait()
			})
		})
	}
}

// The numbers of a status, and its JSON.
func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Service: 20 * sec}, paceline.Provider{
			Limits: paceline.Limits{MaxPerMinute: 60, MaxPerSecond: 5, MaxConcurrent: 2, SafetyMargin: 0.5, Pacing: paceline.Burst}})
		ctx, leave := context.WithCancel(t.Context())
		stay, stop := context.WithCancel(t.Context())
		defer stop()
		go r.chat(ctx)
		synctest.Wait()
		go r.chat(stay)
		time.Sleep(sec)
		for _, priority := range []string{"interactive", "normal", "background", "background"} {
			go r.chat(stay, "X-Paceline-Priority", priority)
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		b, err := json.Marshal(r.Status())
		if err != nil {
			t.Fatal(err)
		}
		want := `[{"provider":"test","credential":"test#1","waiting":{"interactive":1,"normal":1,"background":2},"active":1,"held":1,` +
			`"binding":{"what":"places","says":"2 at once","concurrent":2},"free":false,"base_url":"http://provider.test/v1",` +
			`"limits":{"per_second":5,"per_minute":60,"concurrent":2,"pacing":"burst","safety_margin":0.5,"window_slack_ms":1000,"abort_hold_ms":15000},` +
			`"effective":{"factor":1,"per_second":2.5,"per_minute":30,"concurrent":2},"sent_60s":2}]`
		if string(b) != want {
			t.Errorf("%s\nwant\n%s", b, want)
		}
	})
}

// What a provider reported is shown, and after it a learned rate.
func TestStatusBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Dialect: "openai"})
		r.Base = answers(func(*http.Request) (*http.Response, error) {
			return answer(200, http.Header{"X-Ratelimit-Limit-Requests": {"60"}, "X-Ratelimit-Remaining-Requests": {"59"}, "X-Ratelimit-Reset-Requests": {"1s"}}, "{}"), nil
		})
		r.chat(t.Context()).want(t, 200)
		s := r.Status()[0]
		if len(s.Buckets) != 1 || *s.Buckets[0].Limit != 60 || *s.Buckets[0].Remaining != 59 || s.Buckets[0].ResetAt.IsZero() {
			t.Errorf("%+v", s.Buckets)
		}
		if b := s.Buckets[0]; b.Projected == nil || *b.Projected != 59 || b.Floor == nil || *b.Floor != 0 {
			t.Errorf("projected %v, floor %v; want 59 and 0", b.Projected, b.Floor)
		}
		time.Sleep(sec) // one a second comes back
		if b := r.Status()[0].Buckets[0]; b.Projected == nil || *b.Projected != 60 {
			t.Errorf("a second later: %v, want 60", b.Projected)
		}
		time.Sleep(2 * time.Minute)
		if b := r.Status()[0].Buckets[0]; b.Projected != nil || b.Remaining == nil {
			t.Errorf("long after: %+v, want what was told alone", b)
		}
	})
}

// A bad list of providers changes nothing and says everything; a good one binds
// those who wait already.
func TestSetProviders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := paceline.Provider{Name: "test", BaseURL: base, Limits: paceline.Limits{MaxPerMinute: 1, WindowSlack: -1}}
		r := newRig(t, stub.Config{}, p)
		start := time.Now()
		for range 4 {
			go r.chat(t.Context())
		}
		time.Sleep(10 * sec)
		bad := p
		bad.MaxPerMinute, bad.Dialect = -1, "klingon"
		err := r.SetProviders([]paceline.Provider{p, bad, {Name: "x"}})
		for _, want := range []string{"MaxPerMinute is -1", "klingon", `provider "x": BaseURL`} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %s", err, want)
			}
		}
		time.Sleep(sec)
		wantInstants(t, r.sent(start), 0)
		p.MaxPerMinute = 60
		if err := r.SetProviders([]paceline.Provider{p}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * sec)
		wantInstants(t, r.sent(start), 0, 11*sec, 12*sec, 13*sec)
		// A provider that is gone lets go of nobody who waits for it.
		p.MaxPerMinute = 1
		if err := r.SetProviders([]paceline.Provider{p}); err != nil {
			t.Fatal(err)
		}
		go r.chat(t.Context())
		synctest.Wait()
		if err := r.SetProviders(nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if at := r.sent(start); len(at) != 5 || at[4] != 73*sec {
			t.Errorf("sent at %s", secs(at))
		}
	})
}

// Where nobody waits, status says whether the next request would be started at
// once, and else when: that is when it is.
func TestNextStart(t *testing.T) {
	for name, tt := range map[string]struct {
		limits paceline.Limits
		config stub.Config
		calls  int
		want   time.Duration // 0: at once; negative: no clock tells
	}{
		"nothing declared": {paceline.Limits{}, stub.Config{}, 3, 0},
		"room":             {paceline.Limits{MaxPerMinute: 5, WindowSlack: -1, Pacing: paceline.Burst}, stub.Config{}, 4, 0},
		"a full window":    {paceline.Limits{MaxPerMinute: 5, WindowSlack: -1, Pacing: paceline.Burst}, stub.Config{}, 5, time.Minute},
		"even pacing":      {paceline.Limits{MaxPerMinute: 15, WindowSlack: -1}, stub.Config{}, 1, 4 * sec},
		"a stated wait":    {paceline.Limits{}, stub.Config{Script: []stub.Step{told(20 * sec)}}, 1, 20 * sec},
		"places":           {paceline.Limits{MaxConcurrent: 2}, stub.Config{Service: time.Minute}, 2, -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, tt.config, paceline.Provider{Limits: tt.limits, Retry: paceline.Retry{Max: -1, MaxWait: time.Hour}})
				start := time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for range tt.calls {
					go r.chat(ctx)
				}
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
				s := r.Status()[0]
				if s.Free != (tt.want == 0) || s.NextStart.IsZero() != (tt.want <= 0) || tt.want > 0 && s.NextStart.Sub(start) != tt.want {
					t.Errorf("free %v, next start %v", s.Free, s.NextStart)
				}
				go r.chat(ctx)
				time.Sleep(2 * time.Minute)
				at := r.sent(start)
				if tt.want > 0 && at[len(at)-1] != tt.want || tt.want == 0 && at[len(at)-1] != 100*time.Millisecond {
					t.Errorf("sent after %v", at[len(at)-1])
				}
			})
		})
	}
}
