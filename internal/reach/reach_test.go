package reach

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

func minute(calls int) limiter.Request {
	return limiter.Request{Key: "p", Limits: []limiter.Limit{{Key: "p/requests", Calls: calls, Per: time.Minute}}}
}

func places(n int) limiter.Request {
	return limiter.Request{Key: "p", Hold: time.Minute, Limits: []limiter.Limit{{Key: "p/places", Concurrent: n}}}
}

// Three hosts that have seen each other share what they may do alone, less what
// each has been granted lately, and the shared windows know of it afterwards.
func TestLocal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		all := hosts(t, 3, s, Options{})
		if n := all[0].Status().Hosts; n != 3 {
			t.Fatalf("%d hosts seen", n)
		}
		if !acquire(t, all[0], minute(12)).Granted {
			t.Fatal("refused with the server there")
		}
		s.down()
		drive(t, all...)
		for i, want := range []int{3, 4, 4} { // the first has had one
			if got := granted(t, all[i], minute(12)); got != want {
				t.Errorf("host %d was granted %d alone, want %d", i, got, want)
			}
		}
		time.Sleep(10 * time.Second)
		s.up()
		back(t, all...)
		if got := granted(t, all[0], minute(12)); got != 0 {
			t.Errorf("%d more are granted in a window that is full", got)
		}
		if got := granted(t, all[1], minute(15)); got != 3 {
			t.Errorf("%d more are granted of 3", got)
		}
		time.Sleep(time.Minute)
		if got := granted(t, all[2], minute(12)); got != 12 {
			t.Errorf("%d are granted a minute later", got)
		}
	})
}

// What is less than one call is one call in a longer time, and a place is one.
func TestSmallLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := hosts(t, 1, s, Options{Share: 0.25})[0]
		s.down()
		drive(t, l)
		if got := granted(t, l, minute(2)); got != 1 {
			t.Fatalf("%d granted", got)
		}
		d := acquire(t, l, minute(2))
		if wait := d.RetryAfter(); d.Granted || wait != 2*time.Minute {
			t.Errorf("the next comes after %v, want 2m", wait)
		}
		if got := granted(t, l, places(2)); got != 1 {
			t.Errorf("%d places", got)
		}
	})
}

func TestOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := hosts(t, 1, s, Options{OnFailure: Open})[0]
		s.down()
		drive(t, l)
		if got := granted(t, l, minute(12)); got != 100 {
			t.Errorf("%d granted", got)
		}
		// A stated wait is kept all the same.
		if err := l.Throttle(t.Context(), "p", time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if d := acquire(t, l, minute(12)); d.Granted || d.RetryAfter() != time.Second {
			t.Errorf("into a stated wait: %+v", d)
		}
		s.up()
		back(t, l)
		time.Sleep(time.Second)
		if d := acquire(t, l, minute(12)); d.Granted {
			t.Error("what was granted alone does not count")
		}
	})
}

func TestClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := hosts(t, 1, s, Options{OnFailure: Closed})[0]
		s.down()
		drive(t, l)
		d := acquire(t, l, minute(12))
		if d.Granted || d.RetryAfter() != later || len(d.Refused) != 1 || d.Refused[0].Cause != limiter.Unreachable {
			t.Errorf("while it is away: %+v", d)
		}
		if v, err := l.Peek(t.Context(), "p", minute(12).Limits); err != nil || v.Throttled.Sub(v.Now) != later {
			t.Errorf("while it is away it holds %+v, %v", v, err)
		}
		s.up()
		back(t, l)
		if v, err := l.Peek(t.Context(), "p", minute(12).Limits); err != nil || !v.Throttled.IsZero() {
			t.Errorf("when it is back it holds %+v, %v", v, err)
		}
		if !acquire(t, l, minute(12)).Granted {
			t.Error("refused when it is back")
		}
	})
}

// Nothing takes longer than its time, and from the third failure on nothing
// waits at all.
func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := hosts(t, 1, s, Options{})[0]
		p := acquire(t, l, places(2)).Permit
		s.hang()
		took := func(what string, do func() error, most time.Duration) {
			t.Helper()
			began := time.Now()
			if err := do(); err != nil && !errors.Is(err, errAway) && !strings.Contains(err.Error(), "no answer within") {
				t.Errorf("%s: %v", what, err)
			}
			if d := time.Since(began); d > most {
				t.Errorf("%s takes %v", what, d)
			}
		}
		ask := func() error { _, err := l.Acquire(t.Context(), minute(12)); return err }
		took("acquire", ask, usualTimeout)
		took("renew", func() error { return l.Renew(t.Context(), []string{p}, time.Minute) }, usualTimeout)
		took("throttle", func() error { return l.Throttle(t.Context(), "q", time.Now().Add(time.Minute)) }, usualTimeout)
		if !l.Status().Away {
			t.Fatal("not away")
		}
		for what, do := range map[string]func() error{
			"acquire": ask,
			"release": func() error { return l.Release(t.Context(), p) },
			"renew":   func() error { return l.Renew(t.Context(), []string{p}, time.Minute) },
			"settle":  func() error { return l.Settle(t.Context(), p, nil) },
			"peek":    func() error { _, err := l.Peek(t.Context(), "p", nil); return err },
			"open":    func() error { return l.Open(t.Context(), "p") },
			"get":     func() error { _, err := l.Get(t.Context(), "p"); return err },
			"batch": func() error {
				_, err := l.AcquireBatch(t.Context(), []limiter.Request{minute(12), minute(12)})
				return err
			},
		} {
			took(what, do, 0)
		}
		s.up()
		back(t, l)
		if v, err := s.Peek(t.Context(), "q", nil); err != nil || v.Throttled.IsZero() {
			t.Errorf("the wait told meanwhile: %+v, %v", v, err)
		}
	})
}

// Calls that a short stall holds up together are one failure, however many.
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := hosts(t, 1, s, Options{})[0]
		s.hang()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { _, _ = l.Acquire(t.Context(), minute(12)) })
		}
		all.Wait()
		if l.Status().Away {
			t.Error("away after one stall")
		}
		s.up()
		if !acquire(t, l, minute(12)).Granted {
			t.Error("refused after it")
		}
	})
}

// A caller that leaves says nothing of the server.
func TestLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := hosts(t, 1, s, Options{})[0]
		s.hang()
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if _, err := l.Acquire(ctx, minute(1)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("an asker that left got %v", err)
			}
			cancel()
		}
		if l.Status().Away {
			t.Error("it counts as away")
		}
	})
}

// A wait that could not be told binds here at once, and everywhere once the
// server is back.
func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		all := hosts(t, 2, s, Options{})
		until := time.Now().Add(time.Minute)
		s.set(func(s *server) { s.after = 1 })
		if err := all[0].Throttle(t.Context(), "p", until); err != nil {
			t.Fatal(err)
		}
		s.up()
		if d := acquire(t, all[0], minute(12)); d.Granted || !d.RetryAt.Equal(until) || d.Refused[0].Cause != limiter.Throttle {
			t.Errorf("here, before the server knows: %+v", d)
		}
		time.Sleep(2 * soon)
		if d := acquire(t, all[1], minute(12)); d.Granted || d.RetryAfter() != time.Until(until) {
			t.Errorf("elsewhere: %+v", d)
		}
		// What another host was told of binds here while the server is away.
		s.down()
		drive(t, all[1])
		if d := acquire(t, all[1], minute(12)); d.Granted || d.RetryAfter() != time.Until(until) {
			t.Errorf("alone: %+v", d)
		}
		if err := all[1].Open(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
		s.up()
		back(t, all[1])
		if !acquire(t, all[0], minute(12)).Granted {
			t.Error("the end of a wait, told while the server was away, did not come through")
		}
	})
}

// Places are counted once, whatever becomes of the server between a grant and
// its release, and none is lost.
func TestPlaces(t *testing.T) {
	for name, lose := range map[string]bool{"kept": false, "lost": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				all := hosts(t, 2, s, Options{})
				l, other := all[0], all[1]
				var before []string
				for range 2 {
					before = append(before, acquire(t, l, places(4)).Permit)
				}
				s.down()
				drive(t, l, other)
				if d := acquire(t, l, places(4)); d.Granted {
					t.Error("two of two places were taken alone, and a third was granted")
				}
				if err := l.Release(t.Context(), before[0]); err != nil {
					t.Fatal(err)
				}
				alone := acquire(t, l, places(4)).Permit
				if alone == "" {
					t.Fatal("a place that was given back is not free here")
				}
				// Longer than the server holds what nobody renews.
				for range 5 {
					time.Sleep(20 * time.Second)
					if err := l.Renew(t.Context(), []string{before[1], alone}, time.Minute); err != nil {
						t.Fatal(err)
					}
				}
				if lose {
					s.lose()
				}
				s.up()
				back(t, l, other)
				if got := granted(t, other, places(4)); got != 2 {
					t.Errorf("%d places are free of 4 with 2 taken", got)
				}
				for _, p := range []string{before[1], alone} {
					if err := l.Release(t.Context(), p); err != nil {
						t.Fatal(err)
					}
				}
				if got := granted(t, l, places(4)); got != 2 {
					t.Errorf("%d places are free after two were given back", got)
				}
			})
		})
	}
}

// A place that could not be given back is given back soon, also where the
// server was never found to be away.
func TestOwedRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := hosts(t, 1, s, Options{})[0]
		p := acquire(t, l, places(1)).Permit
		s.set(func(s *server) { s.after = 1 })
		if err := l.Release(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		s.up()
		time.Sleep(2 * soon)
		if !acquire(t, l, places(1)).Granted {
			t.Error("the place is not free")
		}
	})
}

// Tokens that were granted alone count as what they came to.
func TestSettle(t *testing.T) {
	ask := limiter.Request{Key: "p", Hold: time.Minute, Limits: []limiter.Limit{{Key: "p/tokens", Calls: 1000, Per: time.Minute, Cost: 400}}}
	used := func(t *testing.T, s *server) int {
		v, err := s.Peek(t.Context(), "p", ask.Limits)
		if err != nil {
			t.Fatal(err)
		}
		return v.Usage[0].Used
	}
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := hosts(t, 1, s, Options{Share: 1})[0]
		settle := func(permit string, total int) {
			t.Helper()
			if err := l.Settle(t.Context(), permit, []limiter.Cost{{Key: "p/tokens", Cost: total}}); err != nil {
				t.Fatal(err)
			}
		}
		near := acquire(t, l, ask).Permit
		s.down()
		drive(t, l)
		settle(near, 100) // told when the server is back
		alone := acquire(t, l, ask).Permit
		settle(alone, 50)
		other := acquire(t, l, ask).Permit
		s.up()
		back(t, l)
		if got := used(t, s); got != 100+50+400 {
			t.Errorf("%d tokens count, want 550", got)
		}
		settle(other, 450)
		time.Sleep(2 * soon)
		if got := used(t, s); got != 100+50+450 {
			t.Errorf("%d tokens count, want 600", got)
		}
		settle(near, 150)
		if got := used(t, s); got != 150+50+450 {
			t.Errorf("%d tokens count, want 650", got)
		}
	})
}

// A host begins without a server that is not there, and finds it later.
func TestBeginsWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, there := newServer(), false
		l := New(t.Context(), Options{Share: 0.5, Host: "a", Open: func(context.Context) (limiter.Limiter, error) {
			if !there {
				return nil, errors.New("fake: no route to host")
			}
			return s, nil
		}})
		defer l.Close()
		if w := l.Warnings(); len(w) != 1 || !strings.Contains(w[0], "no route to host") {
			t.Errorf("warnings: %q", w)
		}
		if got := granted(t, l, minute(12)); got != 6 {
			t.Errorf("%d granted alone", got)
		}
		there = true
		back(t, l)
		if got := granted(t, l, minute(12)); got != 6 {
			t.Errorf("%d granted after it", got)
		}
		if w := l.Warnings(); len(w) != 1 || w[0] != "The fake forgets." {
			t.Errorf("warnings: %q", w)
		}
	})
}

// However slow the server is and however fast requests come: it is not asked
// before it knows of everything that was granted without it.
func TestReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := hosts(t, 1, s, Options{Share: 1})[0]
		s.down()
		drive(t, l)
		s.set(func(s *server) { s.fails, s.slow = nil, 100*time.Millisecond })
		n := 0
		for l.Status().Away {
			d, err := l.Acquire(t.Context(), minute(100000))
			if err != nil {
				t.Fatal(err)
			}
			if l.Status().Away && d.Granted {
				n++
			}
			time.Sleep(time.Millisecond)
		}
		s.set(func(s *server) { s.slow = 0 })
		v, err := s.Peek(t.Context(), "p", minute(100000).Limits)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 || v.Usage[0].Used < n {
			t.Errorf("%d were granted without it, and it knows of %d", n, v.Usage[0].Used)
		}
	})
}

// A limiter of the three methods alone is told by them.
func TestBare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := hosts(t, 1, bare{s}, Options{Share: 0.5})[0]
		s.down()
		drive(t, l)
		if got := granted(t, l, minute(12)); got != 6 {
			t.Errorf("%d granted alone", got)
		}
		s.up()
		back(t, l)
		if got := granted(t, l, minute(12)); got != 6 {
			t.Errorf("%d granted after it", got)
		}
		if _, err := l.Get(t.Context(), "x"); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("blobs of one that has none: %v", err)
		}
	})
}

// A place whose grant was never heard of is soon free again, and one that was
// heard of lasts as long as was asked for.
func TestLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := hosts(t, 1, s, Options{})[0]
		s.set(func(s *server) { s.mute = true })
		if d := acquire(t, l, places(2)); d.Granted {
			t.Fatalf("%+v", d)
		}
		s.set(func(s *server) { s.mute = false })
		if !acquire(t, l, places(2)).Granted {
			t.Fatal("refused")
		}
		began := time.Now()
		if acquire(t, l, places(2)).Granted {
			t.Error("the place of the lost answer is free at once")
		}
		time.Sleep(youngHold)
		if !acquire(t, l, places(2)).Granted {
			t.Error("the place of the lost answer is not free")
		}
		time.Sleep(time.Minute - time.Since(began) - 2*growAfter)
		if n := granted(t, l, places(3)); n != 1 {
			t.Errorf("%d places are free beside two", n)
		}
	})
}

// A place lasts as long as it is renewed, also where the shared limiter cannot
// renew it.
func TestRenew(t *testing.T) {
	for name, renews := range map[string]bool{"a renewer": true, "none": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				var shared limiter.Limiter = s
				if !renews {
					shared = bare{s}
				}
				l := hosts(t, 1, shared, Options{})[0]
				p := acquire(t, l, places(1)).Permit
				for range 5 {
					time.Sleep(20 * time.Second)
					if err := l.Renew(t.Context(), []string{p}, time.Minute); err != nil {
						t.Fatal(err)
					}
				}
				if acquire(t, l, places(1)).Granted {
					t.Error("the place was lost")
				}
				if err := l.Release(t.Context(), p); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * soon)
				if !acquire(t, l, places(1)).Granted {
					t.Error("the place is not free")
				}
			})
		})
	}
}

// Whatever a server does, and whenever: no window is exceeded beyond what the
// hosts' own shares let through, nothing hangs, and in the end every place is
// free.
func TestOutages(t *testing.T) {
	const calls, most, share = 20, 6, 0.25
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			s := newServer()
			all := hosts(t, 3, s, Options{Share: share})
			ask := limiter.Request{Key: "p", Hold: time.Minute, Limits: []limiter.Limit{
				{Key: "p/requests", Calls: calls, Per: 10 * time.Second}, {Key: "p/places", Concurrent: most}}}
			var starts, alone []time.Time
			held := make([][]string, len(all))
			live := 0
			for range 2000 {
				time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
				switch rng.IntN(80) {
				case 0:
					s.down()
				case 1:
					s.hang()
				case 2:
					s.set(func(s *server) { s.after = 1 + rng.IntN(5) })
				case 3, 4, 5, 6:
					s.up()
				}
				i := rng.IntN(len(all))
				l := all[i]
				if n := len(held[i]); n > 0 && rng.IntN(2) == 0 {
					if err := l.Release(t.Context(), held[i][n-1]); err != nil {
						t.Fatal(err)
					}
					held[i] = held[i][:n-1]
					live--
					continue
				}
				before, began := l.Status().Alone, time.Now()
				d := acquire(t, l, ask)
				if took := time.Since(began); took > usualTimeout {
					t.Fatalf("seed %d: an answer took %v", seed, took)
				}
				if !d.Granted {
					continue
				}
				now := time.Now()
				starts = append(starts, now)
				if l.Status().Alone > before {
					alone = append(alone, now)
				}
				held[i] = append(held[i], d.Permit)
				live++
				// A server that is there counts to its limit. Each host that is
				// alone may use its share beside what the others were granted.
				within := func(at []time.Time) (n int) {
					for _, a := range at {
						if now.Sub(a) < 10*time.Second {
							n++
						}
					}
					return n
				}
				if n, own := within(starts), within(alone); n > calls+own || own > 3*calls*share {
					t.Fatalf("seed %d: %d starts in a window of %d, %d of them alone", seed, n, calls, own)
				}
				if live > most+3 {
					t.Fatalf("seed %d: %d at once", seed, live)
				}
			}
			s.up()
			back(t, all...)
			for i, l := range all {
				for _, p := range held[i] {
					if err := l.Release(t.Context(), p); err != nil {
						t.Fatal(err)
					}
				}
			}
			// Answers that did not arrive may have been grants: they lapse.
			time.Sleep(time.Minute + lastRetry)
			if got := granted(t, all[0], places(most)); got != most {
				t.Errorf("seed %d: %d places are free of %d", seed, got, most)
			}
		})
	}
}

// While nobody is away, many hosts are exact together.
func TestExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		all := hosts(t, 3, s, Options{})
		n := 0
		for _, l := range all {
			n += granted(t, l, minute(12))
		}
		if n != 12 {
			t.Errorf("%d granted of 12", n)
		}
		ds, err := all[0].AcquireBatch(t.Context(), []limiter.Request{minute(13), minute(13), {Key: "q"}})
		if err != nil || fmt.Sprint(ds[0].Granted, ds[1].Granted, ds[2].Granted) != "true false true" {
			t.Errorf("a batch: %+v, %v", ds, err)
		}
	})
}
