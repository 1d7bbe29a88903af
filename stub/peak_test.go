package stub

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestPeakWindowAgainstCounting(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	p := peakWindow{per: time.Second}
	var all []time.Time
	now := time.Unix(0, 0)
	for range 5000 {
		now = now.Add(time.Duration(random.IntN(4)) * 50 * time.Millisecond)
		all = append(all, now)
		want := 0
		for _, at := range all {
			if at.Add(p.per).After(now) {
				want++
			}
		}
		if got := p.add(now); got != want {
			t.Fatalf("at %v: %d, want %d", now, got, want)
		}
	}
}

func TestPeakWindowIsBoundedAndNeverTooLow(t *testing.T) {
	p := peakWindow{per: time.Second}
	now := time.Unix(0, 0)
	const step = 2 * time.Microsecond // 500,000 a window
	for range 2_000_000 {
		now = now.Add(step)
		got := p.add(now)
		if now.Sub(time.Unix(0, 0)) > p.per && (got < 500_000 || got > 500_000+2*500_000/maxCells+2) {
			t.Fatalf("%d in a window of 500000", got)
		}
	}
	if len(p.cells) > 5*maxCells {
		t.Errorf("%d cells", len(p.cells))
	}
}

func TestRepeatsAreBounded(t *testing.T) {
	var r repeats
	for id := range uint64(3 * maxRepeats) {
		if r.seen(id) {
			t.Fatal("seen before it came")
		}
	}
	if len(r.known) != maxRepeats || len(r.order) != maxRepeats {
		t.Errorf("%d, %d", len(r.known), len(r.order))
	}
	if !r.seen(3*maxRepeats-1) || !r.seen(2*maxRepeats) || r.seen(2*maxRepeats-1) {
		t.Error("the wrong ones were forgotten")
	}
}
