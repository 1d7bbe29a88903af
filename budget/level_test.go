package budget_test

import (
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/budget"
	"github.com/paceline-proxy/paceline/dialect"
)

const sec = time.Second

func told(unit string, limit, remaining int64, r dialect.Recovery) dialect.Snapshot {
	return dialect.Snapshot{Unit: unit, Window: dialect.Minute, Limit: &limit, Remaining: &remaining, Recovery: r}
}

// answer books a start and, a moment later, what its answer tells.
func answer(s *budget.State, starts *budget.Starts, at time.Time, told ...dialect.Snapshot) {
	sent := starts.Add(at, time.Hour, budget.Charge{Tokens: 98765})
	s.Observe(starts, budget.Observation{Sent: sent, Head: at.Add(10 * time.Millisecond), Admitted: true, Buckets: told})
}

// projected is the level of the only bucket.
func projected(t *testing.T, s *budget.State, starts *budget.Starts, at time.Time) budget.Level {
	t.Helper()
	levels := s.Levels(starts, at, budget.Charge{})
	if len(levels) != 1 {
		t.Fatalf("at %v: %d levels", at.Sub(now), len(levels))
	}
	return levels[0]
}

// How each recovery is projected, by itself: what is shared assumes none.
func TestProjection(t *testing.T) {
	at := func(d time.Duration) time.Time { return now.Add(d) }
	for name, tt := range map[string]struct {
		recovery dialect.Recovery
		want     map[time.Duration]float64 // -1: it says nothing any more
	}{
		// evenly towards the limit, and full from the instant on.
		"full at": {dialect.Recovery{Kind: dialect.FullAt, At: at(40 * sec), Relative: true}, map[time.Duration]float64{0: 20, 20 * sec: 40, 40 * sec: 60, 50 * sec: 60}},
		// at the rate told, capped at the limit.
		"continuous": {dialect.Recovery{Kind: dialect.Continuous, PerSecond: 2}, map[time.Duration]float64{0: 20, 5 * sec: 30, 30 * sec: 60}},
		// Nothing before the instant, all at it.
		"step": {dialect.Recovery{Kind: dialect.StepAt, At: at(40 * sec)}, map[time.Duration]float64{0: 20, 39 * sec: 20, 40 * sec: 60}},
		// nothing is added, and an old reading says nothing, rather
		// than inventing headroom.
		"unknown": {dialect.Recovery{}, map[time.Duration]float64{0: 20, 59 * sec: 20, 61 * sec: -1}},
	} {
		//
		t.Run(name, func(t *testing.T) {
			var s budget.State
			var starts budget.Starts
			sent := starts.Add(now, time.Hour, budget.Charge{})
			s.Observe(&starts, budget.Observation{Sent: sent, Head: sent, Admitted: true, Buckets: []dialect.Snapshot{told(dialect.Requests, 60, 20, tt.recovery)}})
			for after, want := range tt.want {
				levels := s.Levels(&starts, at(after), budget.Charge{})
				if want < 0 && len(levels) == 0 {
					continue
				}
				if len(levels) != 1 || levels[0].Projected < want-0.1 || levels[0].Projected > want+0.1 {
					t.Errorf("after %v: %+v, want %v", after, levels, want)
				}
			}
		})
	}
}

// What this process has sent since the reading is taken off, in order, and
// cannot overfill the bucket meanwhile. R-29: a bucket without a limit takes
// part all the same.
func TestReplay(t *testing.T) {
	var s budget.State
	var starts budget.Starts
	answer(&s, &starts, now, told(dialect.Requests, 60, 59, dialect.Recovery{Kind: dialect.Continuous, PerSecond: 1}))
	for i := range 10 {
		starts.Add(now.Add(30*sec+time.Duration(i)*time.Millisecond), time.Hour, budget.Charge{})
	}
	if l := projected(t, &s, &starts, now.Add(31*sec)); l.Projected < 50.9 || l.Projected > 51.1 {
		t.Errorf("projected to %v, want 51: full, less ten, and a second", l.Projected)
	}
	remaining := int64(5)
	var without budget.State
	answer(&without, &starts, now.Add(40*sec), dialect.Snapshot{Unit: dialect.Requests, Window: dialect.Minute, Remaining: &remaining})
	starts.Add(now.Add(45*sec), time.Hour, budget.Charge{})
	if l := projected(t, &without, &starts, now.Add(46*sec)); l.Projected != 4 {
		t.Errorf("without a limit: %v, want 4", l.Projected)
	}
}

// a newer reading is not replaced by an older one that comes later.
func TestReadingsByWhenTheyWereSent(t *testing.T) {
	var s budget.State
	var starts budget.Starts
	first := starts.Add(now, time.Hour, budget.Charge{})
	answer(&s, &starts, now.Add(20*sec), told(dialect.Requests, 60, 30, dialect.Recovery{}))
	s.Observe(&starts, budget.Observation{Sent: first, Head: now.Add(21 * sec), Admitted: true, Buckets: []dialect.Snapshot{told(dialect.Requests, 60, 50, dialect.Recovery{})}})
	if l := projected(t, &s, &starts, now.Add(22*sec)); l.Projected != 30 {
		t.Errorf("projected to %v, want 30", l.Projected)
	}
}

// What others take shows as drops, and the floor is the largest of the latest,
// beside the request's own charge.
func TestFloor(t *testing.T) {
	even := dialect.Recovery{Kind: dialect.Continuous, PerSecond: 1}
	var s budget.State
	var starts budget.Starts
	at := now
	tell := func(remaining int64) budget.Level {
		t.Helper()
		answer(&s, &starts, at, told(dialect.Requests, 60, remaining, even))
		l := projected(t, &s, &starts, at.Add(50*time.Millisecond))
		at = at.Add(10 * sec)
		return l
	}
	// without history it is 0.
	if l := tell(50); l.Floor != 0 {
		t.Errorf("without history the floor is %v", l.Floor)
	}
	tell(59)
	// 59 were to be left after ten seconds of refill, and 39 are: R-83, 20
	// were somebody else's, less what may have been on its way..
	floor := tell(39).Floor
	if floor < 18 || floor > 21 {
		t.Errorf("after others took 20 the floor is %v", floor)
	}
	// a reading that finds more gives none.
	if l := tell(60); l.Floor != floor {
		t.Errorf("a higher reading: %v, want %v", l.Floor, floor)
	}
	// At most half the limit.
	if l := tell(1); l.Floor != 30 {
		t.Errorf("after others took all the floor is %v, want 30", l.Floor)
	}
	// What has long not happened is forgotten.
	for range 14 {
		tell(60)
	}
	if l := tell(60); l.Floor > 1 {
		t.Errorf("after more than two quiet minutes the floor is %v", l.Floor)
	}
	// the drops are in what is stored. R-100: what requests cost is not.
	b, err := budget.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	back, err := budget.Decode(b, at)
	if err != nil || len(back.Readings) != 1 || len(back.Readings[0].Drops) == 0 || len(back.Readings[0].Drops) > 8 || strings.Contains(string(b), "98765") {
		t.Errorf("stored as %s, %v", b, err)
	}
}

// Rounded readings widen the floor by their rounding, once there is one.
func TestRoundingWidensTheFloor(t *testing.T) {
	var s budget.State
	var starts budget.Starts
	b := told(dialect.InputTokens, 40_000, 30_000, dialect.Recovery{Kind: dialect.Continuous, PerSecond: 600})
	b.Rounding = 1000
	for i := range 3 {
		answer(&s, &starts, now.Add(time.Duration(i)*10*sec), b)
	}
	levels := s.Levels(&starts, now.Add(21*sec), budget.Charge{Input: 500})
	if len(levels) != 1 || levels[0].Floor < 1500 {
		t.Errorf("%+v, want a floor of 1500 and more", levels)
	}
}

// What is started about when a window turns is on either side of it: it is no
// drop that it was taken for the other.
func TestTurningIsNoDrop(t *testing.T) {
	at := func(d time.Duration) time.Time { return now.Add(d) }
	step := func(d time.Duration) dialect.Recovery { return dialect.Recovery{Kind: dialect.StepAt, At: at(d)} }
	for name, tt := range map[string]struct {
		burst     time.Duration // when twenty start
		remaining int64         // at 70 s, after these and one more
		floor     float64
	}{
		"just before":        {59500 * time.Millisecond, 39, 0},
		"just after":         {60500 * time.Millisecond, 39, 0},
		"others took thirty": {60500 * time.Millisecond, 9, 8}, // what is certain of them, and its own
	} {
		t.Run(name, func(t *testing.T) {
			var s budget.State
			var starts budget.Starts
			answer(&s, &starts, at(45*sec), told(dialect.Requests, 60, 6, step(60*sec)))
			answer(&s, &starts, at(50*sec), told(dialect.Requests, 60, 5, step(60*sec)))
			for range 20 {
				starts.Add(at(tt.burst), time.Hour, budget.Charge{})
			}
			// This one is under way while the window turns.
			sent := starts.Add(at(59*sec), time.Hour, budget.Charge{})
			s.Observe(&starts, budget.Observation{Sent: sent, Head: at(62 * sec), Admitted: true, Buckets: []dialect.Snapshot{told(dialect.Requests, 60, 39, step(120*sec))}})
			answer(&s, &starts, at(70*sec), told(dialect.Requests, 60, tt.remaining, step(120*sec)))
			if l := projected(t, &s, &starts, at(71*sec)); l.Floor != tt.floor {
				t.Errorf("a floor of %v, want %v", l.Floor, tt.floor)
			}
		})
	}
}
