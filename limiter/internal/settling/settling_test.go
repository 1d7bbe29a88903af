package settling

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

func TestOf(t *testing.T) {
	const minute, hour = int64(time.Minute), int64(time.Hour)
	r := limiter.Request{Cost: 3, Limits: []limiter.Limit{
		{Key: "tokens", Calls: 100, Per: time.Minute, Cost: 40},
		{Key: "requests", Calls: 5, Per: time.Minute},
		{Key: "tokens", Calls: 20, Per: time.Hour, Cost: 40},
		{Key: "tokens", Calls: 9, Per: time.Second},
		{Key: "tokens", Concurrent: 2, Cost: 50},
		{Key: "places", Concurrent: 2, Cost: 50},
	}}
	got, ok := Of(&r, "tokens", 7)
	want := Share{Granted: 7, Tallies: []Tally{
		{Per: minute, Calls: 100, First: 40},
		{Per: hour, Calls: 20, First: 20}, // a cost above calls counts as calls
		{Per: int64(time.Second), Calls: 9, First: 3},
		{Calls: 100, First: 40},
	}}
	if !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %v, want %+v", got, ok, want)
	}
	for _, bucket := range []string{"requests", "places", "none"} {
		if s, ok := Of(&r, bucket, 7); ok {
			t.Errorf("%s can be settled: %+v", bucket, s)
		}
	}
}

func TestIn(t *testing.T) {
	s := Share{Tallies: []Tally{{Per: 60, First: 1}, {First: 2}}}
	for per, first := range map[int64]int64{60: 1, 61: 2} {
		if c := s.In(per); c.First != first {
			t.Errorf("%+v in %d, want first %d", c, per, first)
		}
	}
}

// Each tally follows a total by itself: what is more counts later, what is less
// comes off the grant first.
func TestSettle(t *testing.T) {
	s := Share{Granted: 1, Tallies: []Tally{{Per: 60, Calls: 100, First: 40}, {Calls: 50, First: 40}}}
	for _, step := range []struct {
		total, since int64
		named        [2]int64 // first, later
		unnamed      [2]int64
	}{
		{40, 0, [2]int64{40, 0}, [2]int64{40, 0}},
		{45, 12, [2]int64{40, 5}, [2]int64{40, 5}},
		{math.MaxInt64, 12, [2]int64{40, 60}, [2]int64{40, 10}},
		{70, 12, [2]int64{10, 60}, [2]int64{40, 10}},
		{4, 12, [2]int64{0, 4}, [2]int64{0, 4}},
		{0, 12, [2]int64{0, 0}, [2]int64{0, 0}},
		{9, 12, [2]int64{0, 9}, [2]int64{0, 9}},
	} {
		before := s.Tallies[0]
		more, first, later := before.Change(step.total)
		s.Settle(step.total, step.since)
		got := [2][2]int64{{s.Tallies[0].First, s.Tallies[0].Later}, {s.Tallies[1].First, s.Tallies[1].Later}}
		if got != [2][2]int64{step.named, step.unnamed} || s.Since != step.since || s.Granted != 1 {
			t.Errorf("settled as %d: %+v", step.total, s)
		}
		if c := s.Tallies[0]; c.First != before.First-first || c.Later != before.Later+more-later || min(more, first+later) != 0 {
			t.Errorf("settled as %d: %d more, %d and %d less than %+v, which became %+v", step.total, more, first, later, before, c)
		}
	}
}
