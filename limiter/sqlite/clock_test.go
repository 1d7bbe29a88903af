package sqlite

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// A computer is a machine whose clocks the test sets.
type computer struct {
	run        string
	boot, wall time.Duration
}

func (c *computer) machine() machine {
	return machine{run: c.run, boot: func() int64 { return int64(c.boot) }, wall: func() int64 { return int64(c.wall) }}
}

// pass lets time pass by both clocks.
func (c *computer) pass(d time.Duration) {
	c.boot += d
	c.wall += d
}

func newComputer() *computer {
	return &computer{run: "first", boot: time.Minute, wall: time.Duration(time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC).UnixNano())}
}

func (c *computer) open(t *testing.T, path string) *Limiter {
	t.Helper()
	l, err := open(context.Background(), path, Options{}, c.machine())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func ask(t *testing.T, l *Limiter, limits ...limiter.Limit) limiter.Decision {
	t.Helper()
	d, err := l.Acquire(context.Background(), limiter.Request{Key: "caller", Limits: limits, Hold: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var aMinute = limiter.Limit{Key: "a", Calls: 1, Per: time.Minute}

// left wants a window that is full for so long.
func left(t *testing.T, l *Limiter, want, late time.Duration) {
	t.Helper()
	d := ask(t, l, aMinute)
	if d.Granted || d.RetryAfter() < want || d.RetryAfter() > want+late {
		t.Errorf("granted %t, full for %v, want %v", d.Granted, d.RetryAfter(), want)
	}
}

// Within a run of the machine nobody who sets the wall clock moves an instant,
// and all processes agree about it.
func TestWallClockMovesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	c := newComputer()
	one, other := c.open(t, path), c.open(t, path)
	ask(t, one, aMinute)
	for _, step := range []time.Duration{-10 * time.Hour, 20 * time.Hour, 1000 * time.Hour} {
		c.wall += step
		c.pass(10 * time.Second)
		left(t, one, 2*time.Minute-c.boot, 0)
		left(t, other, 2*time.Minute-c.boot, 0)
	}
	c.boot = 2*time.Minute - 1
	left(t, other, 1, 0)
	c.boot++
	if d := ask(t, other, aMinute); !d.Granted {
		t.Errorf("refused for %v after a minute", d.RetryAfter())
	}
}

// A place is free from the very instant its hold has passed: L-58, L-59, CC-14.
func TestLapseIsExact(t *testing.T) {
	c := newComputer()
	l := c.open(t, filepath.Join(t.TempDir(), "limits.db"))
	place := limiter.Limit{Key: "p", Concurrent: 1}
	ask(t, l, place) // for a minute
	c.pass(time.Minute - 1)
	if d := ask(t, l, place); d.Granted || d.RetryAfter() != 1 {
		t.Errorf("granted %t, held for %v", d.Granted, d.RetryAfter())
	}
	c.pass(1)
	if d := ask(t, l, place); !d.Granted {
		t.Errorf("held for %v", d.RetryAfter())
	}
	if d := ask(t, l, place); d.Granted || d.RetryAfter() != 100*time.Millisecond {
		t.Errorf("granted %t, to look again in %v", d.Granted, d.RetryAfter())
	}
}

// How long the machine was off is by the wall clock. CC-27: what was granted
// before still counts. The clock is stored once a second, so the wall clock that
// was set back right before may give a second away, to the safe side.
func TestAnotherRunOfTheMachine(t *testing.T) {
	for _, test := range []struct {
		name      string
		off, want time.Duration
	}{
		{"off for a while", 20 * time.Second, 30 * time.Second},
		{"the wall clock was set back", -time.Hour, 50 * time.Second},
		{"off for no time that can be told", 0, 50 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "limits.db")
			c := newComputer()
			l := c.open(t, path)
			ask(t, l, aMinute)
			if err := l.Throttle(context.Background(), "closed", time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			c.pass(10 * time.Second)
			left(t, l, 50*time.Second, 0)

			c.run, c.boot, c.wall = "second", time.Second, c.wall+test.off
			l = c.open(t, path)
			left(t, l, test.want, 0)
			d, err := l.Acquire(context.Background(), limiter.Request{Key: "closed"})
			if off := d.RetryAfter() - test.want; err != nil || d.Granted || off < -time.Second || off > time.Second {
				t.Errorf("closed for %v, want about %v: %v", d.RetryAfter(), test.want, err)
			}
			c.wall += 100 * time.Hour // only the boot clock counts again
			c.boot += test.want - 1
			left(t, l, 1, 0)
			c.boot++
			if d := ask(t, l, aMinute); !d.Granted {
				t.Errorf("refused for %v after a minute", d.RetryAfter())
			}
		})
	}
	t.Run("granted since the clock was stored", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "limits.db")
		c := newComputer()
		l := c.open(t, path)
		ask(t, l)
		c.pass(900 * time.Millisecond)
		ask(t, l, aMinute)
		c.run, c.boot, c.wall = "second", 0, c.wall-time.Hour
		left(t, c.open(t, path), time.Minute, time.Second)
	})
}

// Where no clock is known but the wall's, time stands still while that is behind
// what it was, and then goes on.
func TestWallClockAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	c := newComputer()
	c.run = ""
	l := c.open(t, path)
	ask(t, l, aMinute)
	c.wall += 10 * time.Second
	left(t, l, 50*time.Second, 0)
	c.wall -= time.Hour
	left(t, c.open(t, path), 50*time.Second, 0)
	c.wall += 20 * time.Second
	left(t, l, 30*time.Second, 0)
}

// No instant comes before an earlier one, though the processes read boot clocks
// that know nothing of each other. What one of them does not know of a wall clock
// that is set back costs a second at most.
func TestTimeNeverStepsBack(t *testing.T) {
	for _, back := range []time.Duration{0, time.Second} {
		path := filepath.Join(t.TempDir(), "limits.db")
		here, there := newComputer(), newComputer()
		there.run, there.boot = "a container", time.Hour
		limiters := []*Limiter{here.open(t, path), there.open(t, path)}
		rng := rand.New(rand.NewPCG(1, 1))
		var last time.Time
		for range 150 {
			d := ask(t, limiters[rng.IntN(2)], limiter.Limit{Key: "b", Calls: 1000, Per: time.Second})
			if last.Sub(d.Now) > back {
				t.Fatalf("%v after %v", d.Now, last)
			}
			last = d.Now
			step := time.Duration(rng.ExpFloat64() * float64(time.Second) / 3)
			here.pass(step)
			there.pass(step)
			if back > 0 && rng.IntN(10) == 0 {
				here.wall += time.Duration(rng.NormFloat64() * float64(time.Minute))
				there.wall = here.wall
			}
		}
	}
}

// What the caller's clock says of a call or a throttle is told no earlier than it
// is, though the process stalls between looking at one clock and at the other.
func TestStalledBetweenClocks(t *testing.T) {
	c := newComputer()
	m := c.machine()
	m.boot = func() int64 {
		read := c.boot
		time.Sleep(20 * time.Millisecond)
		c.boot += 20 * time.Millisecond
		return int64(read)
	}
	l, err := open(context.Background(), filepath.Join(t.TempDir(), "limits.db"), Options{}, m)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx := context.Background()
	first := ask(t, l).Now
	if err := l.Seed(ctx, []limiter.Limit{aMinute}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if early := first.Add(time.Minute).Sub(ask(t, l, aMinute).RetryAt); early > 0 {
		t.Errorf("a seeded call leaves %v early", early)
	}
	start := ask(t, l).Now
	if err := l.Throttle(ctx, "caller", time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if early := start.Add(time.Minute).Sub(ask(t, l).RetryAt); early > 0 {
		t.Errorf("a throttle ends %v early", early)
	}
}

// A machine that was put back to an earlier state of itself, without its disk, has
// a boot clock that is behind: time stands still until it has caught up.
func TestRestoredMachine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	c := newComputer()
	l := c.open(t, path)
	ask(t, l, aMinute)
	c.pass(10 * time.Second)
	left(t, l, 50*time.Second, 0)
	c.boot -= 5 * time.Second
	left(t, l, 50*time.Second, 0)
	c.boot += 6 * time.Second
	left(t, l, 49*time.Second, 0)
}
