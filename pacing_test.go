package paceline_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/stub"
)

// P-58: with even pacing starts are 60 s ÷ maxPerMinute apart.
func TestEvenPacingSpacesStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 15, WindowSlack: -1}})
		start := time.Now()
		for _, a := range r.together(5) {
			a.want(t, 200)
		}
		wantInstants(t, r.sent(start), 0, 4*sec, 8*sec, 12*sec, 16*sec)
	})
}

// P-59, P-160: a bucket of 3 refilled every 4 s never refuses an even load.
// P-159, P-161: under burst pacing it does, and every refusal is under limit.
func TestBucketSmallerThanTheMinute(t *testing.T) {
	bucket := stub.Config{Meters: []stub.Meter{{Kind: stub.Bucket, Limit: 15, Per: time.Minute, Burst: 3}}}
	for _, pacing := range []string{"even", "burst"} {
		t.Run(pacing, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limits := paceline.Limits{MaxPerMinute: 15}
				if pacing == "burst" {
					limits.Pacing = paceline.Burst
				}
				r := newRig(t, bucket, paceline.Provider{Limits: limits})
				for _, a := range r.together(30) {
					a.want(t, 200)
				}
				refused := refusals(r.logged(), dialect.RateLimited)
				if pacing == "even" && refused > 0 {
					t.Errorf("%d refusals under even pacing, want none", refused)
				}
				if pacing == "burst" && refused == 0 {
					t.Error("no refusal under burst pacing: the test shows nothing")
				}
				for _, rec := range r.logged() {
					if rec.Class == dialect.RateLimited && (rec.Evidence == nil || !rec.Evidence.UnderLimit) {
						t.Errorf("a refusal is not under limit: %+v", rec.Evidence)
					}
				}
				if c := r.stub.Counts(); c.Early > 0 {
					t.Errorf("%d requests were sent into a stated wait", c.Early)
				}
			})
		})
	}
	_ = fmt.Sprint
	_ = context.Background
}
