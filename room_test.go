package paceline

import (
	"fmt"
	"testing"
	"time"
)

// A room that was full keeps places again once those in it are lost.
func TestFullRoomForgets(t *testing.T) {
	var r room
	now := time.Unix(1e9, 0)
	keep := func(n int) {
		for i := range n {
			r.keep(Place{Request: fmt.Sprint(i), Arrived: now, Until: now.Add(time.Minute)}, now)
		}
	}
	keep(mostPlaces + 1)
	if n := len(r.list(now)); n != mostPlaces {
		t.Fatalf("%d places are kept, want %d", n, mostPlaces)
	}
	keep(1) // one more does not change that
	now = now.Add(time.Hour)
	keep(3)
	if n := len(r.list(now)); n != 3 {
		t.Errorf("%d places are kept, want 3", n)
	}
}
