package limitertest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// A stalled limiter is one whose machine is late once, in a step that is no
// acquire.
type stalled struct {
	*suspect
	peeks int
	pers  []time.Duration // of the first window of each question
	by    time.Duration
}

func (s *stalled) Peek(ctx context.Context, key string, limits []limiter.Limit) (limiter.View, error) {
	s.pers = append(s.pers, limits[0].Per)
	if s.peeks++; s.peeks == 2 {
		time.Sleep(s.by)
	}
	return s.suspect.Peek(ctx, key, limits)
}

// Where time is real, a machine that is late in any step is no fault of the
// limiter (L-118).
func TestLateMachineIsNoFault(t *testing.T) {
	for _, c := range Cases {
		if c.Name != "peeking says what is counted" {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			s := &stalled{suspect: newSuspect(""), by: time.Minute}
			Harness{Open: func(*testing.T) limiter.Limiter { return s }, Unit: time.Second}.run(t, c)
			if s.peeks != 6 {
				t.Errorf("%d peeks: it was not run again", s.peeks)
			}
			if first, last := s.pers[0], s.pers[2]; last != 2*first {
				t.Errorf("run again with a window of %v after one of %v, want twice as long", last, first)
			}
		})
	}
}
