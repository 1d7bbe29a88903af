package demo_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/internal/demo"
	"github.com/paceline-proxy/paceline/stub"
)

// lanes are both sides over stand-in providers without sockets.
func lanes(t *testing.T, seed uint64) (burst, even *demo.Lane, left, right *stub.Stub) {
	t.Helper()
	provider := func() *stub.Stub {
		s, err := stub.New(demo.Provider(seed))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	left, right = provider(), provider()
	return demo.NewLane(demo.Burst, "http://127.0.0.1:1/v1", left),
		demo.NewLane(demo.Even, "http://127.0.0.1:2/v1", right), left, right
}

// P-159, P-160, P-161: under burst pacing refusals come early, all of them
// while under the limit; under even pacing there is none.
func TestDemo(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			burst, even, left, right := lanes(t, seed)
			began := time.Now()
			r := demo.Run(t.Context(), demo.Duration, burst, even)
			if took := time.Since(began); took < demo.Duration || took > demo.Duration+time.Second {
				t.Errorf("seed %d: took %v", seed, took)
			}
			b, e := demo.StatsOf(demo.Burst, r).Total, demo.StatsOf(demo.Even, r).Total
			if b.R429 == 0 || b.R429UnderLimit != b.R429 || b.PeakPerMin > demo.PerMinute {
				t.Errorf("seed %d: burst: want refusals, all of them under the limit: %+v", seed, b)
			}
			early := 0
			for _, rec := range r.Burst {
				if rec.Status == http.StatusTooManyRequests && rec.Sent.Sub(r.Start) < 5*time.Second {
					early++
				}
			}
			if early*2 <= b.R429 {
				t.Errorf("seed %d: burst: only %d of %d refusals in the first seconds", seed, early, b.R429)
			}
			if e.R429 != 0 || e.Sent != 12 || e.OK != e.Sent {
				t.Errorf("seed %d: even: want 12 answers and no refusal: %+v", seed, e)
			}
			if e.OK <= b.OK {
				t.Errorf("seed %d: even brought %d answers, burst %d", seed, e.OK, b.OK)
			}
			// What the sides say of themselves is what their providers saw.
			if c := left.Counts(); c.Admitted != b.OK || c.Refused != b.R429 || c.Left != 0 {
				t.Errorf("seed %d: burst: the provider saw %+v, the records say %+v", seed, c, b)
			}
			if c := right.Counts(); c.Admitted != e.OK || c.Refused != 0 || c.Left != 0 {
				t.Errorf("seed %d: even: the provider saw %+v, the records say %+v", seed, c, e)
			}
			if b.Err+e.Err+b.Timeout+e.Timeout != 0 {
				t.Errorf("seed %d: errors: %+v %+v", seed, b, e)
			}
		})
	}
}

// Who waits when it ends is given up and is no error; who is under way gets
// the answer.
func TestDemoEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		burst, even, left, _ := lanes(t, 1)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(4*time.Second+100*time.Millisecond, func() { cancel(errors.New("enough")) })
		r := demo.Run(ctx, demo.Duration, burst, even)
		if r.Took != 4*time.Second+100*time.Millisecond || r.Of != demo.Duration {
			t.Errorf("took %v of %v", r.Took, r.Of)
		}
		b, e := demo.StatsOf(demo.Burst, r).Total, demo.StatsOf(demo.Even, r).Total
		if e.Sent != 2 || e.OK != 2 {
			t.Errorf("even: want both that were sent answered: %+v", e)
		}
		if b.OK+b.R429 != b.Sent || b.OK != left.Counts().Admitted {
			t.Errorf("burst: %+v, provider %+v", b, left.Counts())
		}
	})
}
