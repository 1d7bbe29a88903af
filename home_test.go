package paceline_test

import (
	"crypto/rand"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/stub"
)

// All Transports over one limiter share its line, whichever way they came to
// it.
func TestTransportsShareALimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		p := paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 15, WindowSlack: -1}}
		a, b := newRig(t, stub.Config{}, p), newRig(t, stub.Config{}, p)
		a.Limiter, b.Limiter = l, l
		start := time.Now()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { a.chat(t.Context()) })
			wg.Go(func() { b.chat(t.Context()) })
		}
		wg.Wait()
		if took := time.Since(start); took != 20*sec {
			t.Errorf("six starts over one limiter took %v, want 20 s", took)
		}
	})
}

// Transports without a limiter share the process's, and in a bubble, whose time
// is its own, each has one of its own: no bubble waits for what happened in
// another, or outside.
func TestProcessLimiter(t *testing.T) {
	name := rand.Text() // what the process counts outlives this test
	zero := func(t *testing.T) *rig {
		r := newRig(t, stub.Config{}, paceline.Provider{Name: name, BaseURL: base,
			Limits: paceline.Limits{MaxPerHour: 1, WindowSlack: -1, Pacing: paceline.Burst}})
		r.Limiter = nil
		return r
	}
	call := func(t *testing.T, r *rig) reply { return r.chat(t.Context(), "X-Paceline-Max-Wait", "1m") }
	call(t, zero(t)).want(t, 200)
	call(t, zero(t)).want(t, 429)
	for range 3 {
		synctest.Test(t, func(t *testing.T) {
			r := zero(t)
			call(t, r).want(t, 200)
			call(t, r).want(t, 429)
			time.Sleep(time.Hour)
			call(t, r).want(t, 200)
		})
	}
	call(t, zero(t)).want(t, 429)
}

// A body that is forgotten in a bubble is left alone: the garbage collector runs
// outside.
func TestForgottenBodyInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Service: sec}, paceline.Provider{})
		func() {
			res, err := r.RoundTrip(request(t.Context(), "POST", base+"/chat/completions", `{"stream":true}`))
			if err != nil || res.StatusCode != 200 {
				t.Fatal(res, err)
			}
		}()
		for range 3 {
			runtime.GC()
			time.Sleep(sec)
		}
	})
}

// What a limiter's Transports share goes with them.
func TestForgottenLimiters(t *testing.T) {
	finalized := make(chan bool, 1)
	func() {
		l := memory.New()
		runtime.AddCleanup(l, func(c chan bool) { c <- true }, finalized)
		r := newRig(t, stub.Config{}, paceline.Provider{})
		r.Limiter = l
		r.chat(t.Context()).want(t, 200)
	}()
	for range 200 {
		runtime.GC()
		select {
		case <-finalized:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
	t.Error("a limiter that no Transport uses is still held")
}

// A limiter that cannot be a map's key works too.
func TestUnhashableLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 60, WindowSlack: -1}})
		r.Limiter = unhashable{memory.New(), nil}
		start := time.Now()
		r.together(3)
		wantInstants(t, r.sent(start), 0, sec, 2*sec)
	})
}

type unhashable struct {
	limiter.Limiter
	_ []int
}
