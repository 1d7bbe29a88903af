package paceline

import (
	"fmt"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/policy"
)

// Keys that come and go, as strangers' do, are not remembered for ever by what
// observes them.
func TestShadowForgets(t *testing.T) {
	var s shadow
	now := time.Unix(1e9, 0)
	for i := range 100_000 {
		now = now.Add(time.Second)
		plan := policy.Plan{Limits: []limiter.Limit{{Key: fmt.Sprint(i / 2), Calls: 1, Per: time.Minute}}}
		if at, _ := s.place(plan, now); i%2 == 1 && at.Sub(now) != 59*time.Second {
			t.Fatalf("start %d would have waited %v, want 59s", i, at.Sub(now))
		}
	}
	if n := len(s.buckets); n > 200 {
		t.Errorf("%d buckets are remembered, of which about 60 are not empty", n)
	}
}
