package paceline_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/stub"
)

// A noting limiter remembers what it was asked and told.
type noting struct {
	limiter.Limiter
	asked     []limiter.Request
	throttled []string
}

func (n *noting) Acquire(ctx context.Context, r limiter.Request) (limiter.Decision, error) {
	n.asked = append(n.asked, r)
	return n.Limiter.Acquire(ctx, r)
}

func (n *noting) Throttle(ctx context.Context, key string, until time.Time) error {
	n.throttled = append(n.throttled, key)
	return n.Limiter.Throttle(ctx, key, until)
}

// L-44: buckets are named by provider, account and scope, and L-83: a throttle
// by the same, the credential standing for an account nobody has named. No
// credential is in any of them.
func TestKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &noting{Limiter: memory.New()}
		r := newRig(t, stub.Config{Script: []stub.Step{told(sec)}}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 60, MaxConcurrent: 2}})
		r.Limiter = l
		r.Providers = append(r.Providers, paceline.Provider{
			Name: "a/b", BaseURL: "http://other.test", Account: "team one", Scope: paceline.ScopeModel, Limits: paceline.Limits{MaxPerMinute: 60}})
		r.chat(t.Context()).want(t, 200)
		res, err := r.RoundTrip(request(t.Context(), "POST", "http://other.test/v1/chat/completions", `{"model":"Big/One-2026-01-31"}`))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()

		first, last := l.asked[0], l.asked[len(l.asked)-1]
		if parts := strings.Split(first.Key, "/"); len(parts) != 3 || parts[0] != "test" || len(parts[1]) != 8 || parts[2] != "" {
			t.Errorf("the caller is %q; want the provider and the hash of its credential", first.Key)
		}
		if last.Key != "a%2Fb/team%20one/big%2Fone" {
			t.Errorf("the caller is %q; want provider, account and model", last.Key)
		}
		var units []string
		for _, lim := range first.Limits {
			unit, ok := strings.CutPrefix(lim.Key, first.Key+"/")
			if !ok || strings.Contains(lim.Key, "sk-test") {
				t.Errorf("the bucket is %q", lim.Key)
			}
			units = append(units, unit)
		}
		if !slices.Contains(units, "requests") || !slices.Contains(units, "places") {
			t.Errorf("the units are %v", units)
		}
		if !slices.Equal(l.throttled, []string{first.Key}) {
			t.Errorf("throttled %v", l.throttled)
		}
	})
}

// L-07: a limiter is asked for one call for each request that is sent, the
// repeated one too.
func TestOneAcquireARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &noting{Limiter: memory.New()}
		r := newRig(t, stub.Config{Script: []stub.Step{told(sec)}}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 600, Pacing: paceline.Burst}})
		r.Limiter = l
		start := time.Now()
		for range 3 {
			r.chat(t.Context()).want(t, 200)
		}
		if sent := len(r.sent(start)); sent != 4 || len(l.asked) != sent {
			t.Errorf("%d requests were sent, one of them again, and the limiter was asked %d times; want 4 and 4", sent, len(l.asked))
		}
	})
}
