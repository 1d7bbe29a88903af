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
	const step = 4 * time.Microsecond // 250,000 a window
	for range 600_000 {
		now = now.Add(step)
		got := p.add(now)
		if now.Sub(time.Unix(0, 0)) > p.per && (got < 250_000 || got > 250_000+2*250_000/maxCells+2) {
			t.Fatalf("%d in a window of 250000", got)
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

func TestArrivalsAreBounded(t *testing.T) {
	s, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Unix(0, 0)
	for n := range maxArrivals + 10 {
		s.arrivals.add(Arrival{At: began.Add(time.Duration(n))})
	}
	a := s.Arrivals()
	if len(a) != maxArrivals || !a[0].At.Equal(began.Add(10)) || !a[maxArrivals-1].At.Equal(began.Add(maxArrivals+9)) {
		t.Errorf("%d from %v to %v", len(a), a[0].At, a[len(a)-1].At)
	}
}
