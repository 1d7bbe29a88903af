package sqlite

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/limiter/internal/spans"
)

// A line is a grant in a plain log, which these tests believe instead of the
// code.
type line struct{ at, cost int64 }

// used is what a log counts in a span.
func used(log []line, now, per int64) (sum int64) {
	for _, e := range log {
		if e.at > now-per {
			sum += e.cost
		}
	}
	return sum
}

// opens is when a log has room for a cost; 0 where it has now.
func opens(log []line, now, per, calls, cost int64) (at int64) {
	sum := used(log, now, per)
	for _, e := range log {
		if sum <= calls-cost {
			break
		}
		if e.at > now-per {
			sum -= e.cost
			at = e.at + per
		}
	}
	return at
}

// again is the bucket as another process finds it.
func (b *bucket) again(t *testing.T) *bucket {
	t.Helper()
	c := &bucket{id: b.id, key: b.key}
	if err := c.decode(b.encode()); err != nil {
		t.Fatal(err)
	}
	return c
}

// While no window holds more than 1024 grants, every decision and every instant
// is that of a plain log, whoever else has the bucket meanwhile: L-46, L-63, L-67,
// L-68, L-72, CC-07, CC-09, CC-10. Spans come and go.
func TestExactWhileSmall(t *testing.T) {
	for seed := range uint64(15) {
		rng := rand.New(rand.NewPCG(seed, 1))
		b := &bucket{}
		var log []line
		var longest int64
		now := earliest
		for step := range 2000 {
			if rng.IntN(3) == 0 {
				now += int64(rng.ExpFloat64() * float64(time.Second) / 4)
			}
			if rng.IntN(4) == 0 {
				b = b.again(t)
			}
			// What is older than the longest span so far is not known to anybody.
			for len(log) > 0 && log[0].at <= now-longest {
				log = log[1:]
			}
			cost := 1 + rng.Int64N(5)
			pers := []int64{(1 + rng.Int64N(6)) * int64(time.Second) / 2}
			if rng.IntN(2) == 0 {
				pers = append(pers, 2*pers[0]+1)
			}
			free := true
			calls := make([]int64, len(pers))
			for i, per := range pers {
				longest = max(longest, per)
				calls[i] = 5 + rng.Int64N(20)
				until, full := b.ask(per, now).full(calls[i], cost)
				want := opens(log, now, per, calls[i], cost)
				if full != (want > 0) || full && until != want {
					t.Fatalf("seed %d, step %d: full %t for %v, want %v", seed, step, full, time.Duration(until-now), time.Duration(want-now))
				}
				free = free && !full
			}
			if !free {
				continue
			}
			for _, per := range pers {
				b.seek(per).book(now, cost)
			}
			b.bookUnnamed(now, cost, now, func(per int64) bool { return per == pers[0] || per == pers[len(pers)-1] })
			log = append(log, line{now, cost})
			if n := len(b.windows); n > spans.Most {
				t.Fatalf("seed %d: %d windows", seed, n)
			}
		}
	}
}

// Beyond 1024 grants a window is never over, gives up at most a 1023rd of its
// span, and keeps its word on when it opens: L-46, L-72.
func TestMergingIsNeverEarly(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 2))
		per := int64([]time.Duration{time.Second, 10 * time.Second, 7 * time.Millisecond, time.Minute + 1}[seed%4])
		calls := 3000 + rng.Int64N(4000)
		mostCost := 1 + rng.Int64N(4)
		b := &bucket{}
		var log []line
		now := earliest
		granted := func(cost int64, w *window) {
			w.book(now, cost)
			log = append(log, line{now, cost})
			for log[0].at <= now-per {
				log = log[1:]
			}
		}
		for step := range 10_000 {
			now += int64(rng.ExpFloat64() * float64(per) / float64(calls))
			if rng.IntN(50) == 0 {
				b = b.again(t)
			}
			cost := 1 + rng.Int64N(mostCost)
			w := b.ask(per, now)
			until, full := w.full(calls, cost)
			if !full {
				granted(cost, w)
				if step%64 == 0 && used(log, now, per) > calls {
					t.Fatalf("seed %d, step %d: %d of %d", seed, step, used(log, now, per), calls)
				}
				if n := len(w.entries); n > mostEntries {
					t.Fatalf("seed %d: %d entries", seed, n)
				}
				continue
			}
			if rng.IntN(20) > 0 {
				continue
			}
			// The plain log's instant, and a quantum more at most.
			want := max(now, opens(log, now, per, calls, cost))
			if late := until - want; late < 0 || late > per/1000 {
				t.Fatalf("seed %d, step %d: %v late, of a window of %v", seed, step, time.Duration(late), time.Duration(per))
			}
			now = until - 1
			if _, full := b.ask(per, now).full(calls, cost); !full {
				t.Fatalf("seed %d, step %d: open before its instant", seed, step)
			}
			now = until
			if _, full := b.ask(per, now).full(calls, cost); full {
				t.Fatalf("seed %d, step %d: full at its instant", seed, step)
			}
			granted(cost, b.seek(per))
		}
	}
}

// A window that is full all the time gives up at most 0.1 % of its rate.
func TestMergingGivesUpLittle(t *testing.T) {
	const calls, cost, spans = 100_000, 10, 20
	const per = int64(10 * time.Second)
	w := window{per: per}
	now, granted := earliest, int64(0)
	for now < earliest+spans*per {
		w.expire(now)
		until, full := w.full(calls, cost)
		if full {
			now = until
			continue
		}
		w.book(now, cost)
		granted += cost
		now += per / calls * 9 // a little faster than the window allows
	}
	if share := float64(granted) / (spans * calls); share < 0.999 {
		t.Errorf("%.4f of the rate was used", share)
	}
}

// Spans that differ each time leave no more than a few windows, and the longest
// keeps the history: L-63.
func TestSpansComeAndGo(t *testing.T) {
	b := &bucket{}
	now := earliest
	for i := range int64(2000) {
		now += int64(30 * time.Millisecond)
		pace := int64(100*time.Millisecond) + i
		for _, per := range []int64{int64(time.Minute), pace} {
			b.ask(per, now).book(now, 1)
		}
		b.bookUnnamed(now, 1, now, func(per int64) bool { return per == pace || per == int64(time.Minute) })
		if n := len(b.windows); n > spans.Most {
			t.Fatalf("%d windows", n)
		}
		if n := b.ask(int64(time.Minute), now).used; n != i+1 {
			t.Fatalf("the minute holds %d of %d", n, i+1)
		}
	}
}

// What was counted at an instant can be taken off again wherever it has gone, and
// no more than that: of a merged entry too.
func TestTakingOff(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	w := window{per: int64(time.Hour)}
	now, sum := earliest, int64(0)
	var log []line
	for range 5000 {
		now += 1 + rng.Int64N(int64(time.Second)/2)
		cost := 1 + rng.Int64N(9)
		w.book(now, cost)
		sum += cost
		log = append(log, line{now, cost})
	}
	rng.Shuffle(len(log), func(i, j int) { log[i], log[j] = log[j], log[i] })
	for _, e := range log {
		w.takeOff(e.at, e.cost)
		if sum -= e.cost; w.used != sum {
			t.Fatalf("%d used, want %d", w.used, sum)
		}
	}
	if len(w.entries) != 0 || w.idle() != 0 {
		t.Errorf("%d entries left of nothing", len(w.entries))
	}
}

// Seeded grants are put in order, also among more than a window keeps apart.
func TestInsertingKeepsOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	per := int64(time.Minute)
	w := window{per: per}
	now := earliest + per
	var log []line
	for range 4000 {
		at := now - rng.Int64N(per)
		w.insert(at, 1)
		log = append(log, line{at, 1})
	}
	if len(w.entries) > mostEntries {
		t.Errorf("%d entries", len(w.entries))
	}
	for i := 1; i < len(w.entries); i++ {
		if w.entries[i-1].at >= w.entries[i].at {
			t.Fatal("out of order")
		}
	}
	for range 60 {
		now += int64(time.Second)
		w.expire(now)
		if least := used(log, now, per); w.used < least {
			t.Fatalf("%d used, at least %d are in the window", w.used, least)
		}
	}
}

// Entries that lie further apart than a window reaches, as a clock that was set
// back leaves them, are bounded too: nothing is lost, and nothing leaves early.
func TestBoundIsHard(t *testing.T) {
	per := int64(time.Second)
	w := window{per: per}
	var log []line
	for i := range int64(3 * mostEntries) {
		e := line{earliest + i*per/mostEntries, 1 + i%3}
		log = append(log, e)
		w.insert(e.at, e.cost)
	}
	if n := len(w.entries); n > mostEntries {
		t.Errorf("%d entries", n)
	}
	for i := range int64(40) {
		now := earliest + i*per/10
		w.expire(now)
		if least := used(log, now, per); w.used < least {
			t.Fatalf("%d used, at least %d are in the window", w.used, least)
		}
		var sum int64
		for _, e := range w.entries {
			sum += e.cost
		}
		if sum != w.used {
			t.Fatalf("%d used, entries of %d", w.used, sum)
		}
	}
}
