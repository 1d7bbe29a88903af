package paceline_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/stub"
)

// keeping is a rig of one start a minute that keeps places.
func keeping(t *testing.T, per time.Duration) *rig {
	r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{Windows: []paceline.Window{{Calls: 1, Per: per, Slack: -1}}}})
	r.Queue = paceline.Queue{ClientTimeout: 300 * sec, Keep: 2 * time.Minute}
	return r
}

// vanish sends a request whose client hangs up after a while.
func (r *rig) vanish(t *testing.T, after time.Duration, header ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(after, cancel)
	if a := r.chat(ctx, header...); !errors.Is(a.err, context.Canceled) {
		t.Errorf("the call of a client that left came to %d, %v", a.status, a.err)
	}
}

// A client that leaves unsent keeps its place for a while, and only it, and
// only for the same request.
func TestPlaceOutlivesItsConnection(t *testing.T) {
	for name, tt := range map[string]struct {
		after  time.Duration
		header []string
		body   string
		want   string
	}{
		"the same":       {after: 100 * sec, want: "@0 c@180"},
		"too late":       {after: 125 * sec, want: "@0 other@180 c@360"},
		"another client": {after: 100 * sec, header: said("Client", "d"), want: "@0 other@180 d@360"},
		"another body":   {after: 100 * sec, body: `{"model":"m","user":"x"}`, want: "@0 other@180 c@360"},
		"another model":  {after: 100 * sec, body: `{"model":"n","messages":[{"role":"user","content":"hi"}]}`, want: "@0 other@180 c@360"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := keeping(t, 3*time.Minute)
			start := time.Now()
			r.chat(t.Context()).want(t, 200)
			r.vanish(t, 5*sec, said("Client", "c")...)
			go r.chat(t.Context(), said("Client", "other")...)
			time.Sleep(tt.after)
			req := chatRequest(t.Context(), append(said("Client", "c"), tt.header...)...)
			if tt.body != "" {
				req = request(t.Context(), "POST", base+"/chat/completions", tt.body, said("Client", "c")...)
			}
			res, err := r.RoundTrip(req)
			for err == nil && res.Header.Get("X-Paceline-Refused") == "queue" {
				res, err = r.RoundTrip(req.Clone(t.Context()))
			}
			if err != nil || res.StatusCode != 200 {
				t.Fatalf("%s: %v, %v", name, res, err)
			}
			res.Body.Close()
			time.Sleep(10 * time.Minute)
			if got := r.started(start, client); got != tt.want {
				t.Errorf("%s: got %s, want %s", name, got, tt.want)
			}
		})
	}
}

// Requests that are the same have a place each.
func TestEqualRequestsHaveAPlaceEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := keeping(t, time.Minute)
		start := time.Now()
		r.chat(t.Context()).want(t, 200)
		for range 2 {
			go r.vanish(t, 5*sec)
			time.Sleep(sec)
		}
		go r.chat(t.Context(), said("Run", "late")...)
		time.Sleep(10 * sec)
		for _, run := range []string{"first", "second"} {
			go r.chat(t.Context(), said("Run", run)...)
			synctest.Wait()
		}
		go r.chat(t.Context(), said("Run", "third")...)
		time.Sleep(10 * time.Minute)
		got := r.started(start, func(r paceline.Record) string { return r.Run })
		if want := "@0 first@60 second@120 late@180 third@240"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// X-Paceline-Max-Wait is what its owner gives a request, over all its rounds.
func TestMaxWaitCountsFromTheFirstArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := keeping(t, time.Hour)
		r.chat(t.Context()).want(t, 200)
		start := time.Now()
		a := r.chat(t.Context(), said("Max-Wait", "50m")...)
		if a.header.Get("X-Paceline-Refused") != "deadline" || a.took != 0 {
			t.Errorf("a start after an hour, within 50 minutes: %v after %v", a.header, a.took)
		}
		go func() { // holds the line's head
			for r.chat(t.Context()).status == 429 {
			}
		}()
		synctest.Wait()
		for a = r.chat(t.Context(), said("Max-Wait", "90m")...); a.header.Get("X-Paceline-Refused") == "queue"; {
			time.Sleep(sec)
			a = r.chat(t.Context(), said("Max-Wait", "90m")...)
		}
		if a.header.Get("X-Paceline-Refused") != "deadline" || time.Since(start) > 90*time.Minute {
			t.Errorf("%v after %v", a.header, time.Since(start))
		}
		time.Sleep(2 * time.Hour)
	})
}

// Draining answers those who wait and those who come, lets what was sent go on,
// and hands the places to a successor, where everybody goes on in order.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := paceline.Provider{Limits: paceline.Limits{MaxConcurrent: 1}}
		old := newRig(t, stub.Config{Service: 20 * sec}, provider)
		old.Queue = paceline.Queue{ClientTimeout: 300 * sec, Keep: 2 * time.Minute}
		start := time.Now()
		running := old.later(said("Client", "running"))
		replies := make(chan reply, 4)
		for _, name := range []string{"a", "b", "c"} {
			go func() { replies <- old.chat(t.Context(), said("Client", name)...) }()
			time.Sleep(sec)
		}
		time.Sleep(2 * sec)
		old.Drain()
		if time.Since(start) != 5*sec {
			t.Errorf("draining took %v", time.Since(start)-5*sec)
		}
		if n := len(old.Places()); n != 3 {
			t.Errorf("%d places are kept when it returns, want 3", n)
		}
		replies <- old.chat(t.Context(), said("Client", "d")...)
		for range 4 {
			a := <-replies
			a.want(t, 503)
			if a.header.Get("Retry-After") != "1" || a.header.Get("X-Should-Retry") != "true" || a.header.Get("X-Paceline-Refused") != "drain" {
				t.Errorf("answered with %v", a.header)
			}
		}
		old.Drain() // once more is no harm
		b, err := json.Marshal(old.Places())
		if err != nil {
			t.Fatal(err)
		}
		var places []paceline.Place
		if err := json.Unmarshal(b, &places); err != nil {
			t.Fatal(err)
		}

		next := newRig(t, stub.Config{Service: sec}, provider)
		next.Limiter, next.Queue = old.Limiter, old.Queue
		next.Restore(places)
		time.Sleep(sec)
		for _, name := range []string{"new", "d", "c", "b", "a"} {
			go next.chat(t.Context(), said("Client", name)...)
			synctest.Wait()
		}
		running()[0].want(t, 200)
		time.Sleep(time.Minute)
		var order []string
		for _, rec := range next.logged() {
			order = append(order, rec.Client)
		}
		if got := fmt.Sprint(order); got != "[a b c d new]" {
			t.Errorf("the successor started %s", got)
		}
		if n := len(next.Places()); n != 0 {
			t.Errorf("%d places are left", n)
		}
	})
}

// Nothing is granted once Drain has returned, whatever is under way.
func TestNothingIsGrantedAfterDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{told(10 * sec)}}, paceline.Provider{Limits: paceline.Limits{MaxPerSecond: 5}})
		r.Queue = paceline.Queue{Keep: time.Minute}
		for range 50 {
			go r.chat(t.Context())
		}
		time.Sleep(3 * sec)
		r.Drain()
		at := time.Now()
		time.Sleep(time.Minute)
		for _, rec := range r.logged() {
			if rec.Sent.After(at) {
				t.Errorf("sent %v after it had been drained", rec.Sent.Sub(at))
			}
		}
	})
}

// Kept places are bounded and forgotten.
func TestPlacesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := keeping(t, time.Hour)
		r.chat(t.Context()).want(t, 200)
		for i := range 200 {
			r.vanish(t, sec, said("Client", fmt.Sprint(i))...)
		}
		if n := len(r.Places()); n != 120 {
			t.Errorf("%d places are kept of 200 that left one a second, want those of two minutes", n)
		}
		places := make([]paceline.Place, 200_000)
		for i := range places {
			places[i] = paceline.Place{Request: fmt.Sprint(i), Arrived: time.Now(), Until: time.Now().Add(time.Minute)}
		}
		r.Restore(places)
		if n := len(r.Places()); n > 1<<16 {
			t.Errorf("%d places are kept", n)
		}
		time.Sleep(time.Hour)
		if n := len(r.Places()); n != 0 {
			t.Errorf("%d places are kept for ever", n)
		}
	})
}

// BerriAI/litellm#20256, P-130: every way out gives its place back: 200 calls
// that end in any way, ten at once, leave all ten places free.
func TestEveryWayOutFreesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{MaxConcurrent: 10, AbortHold: -1}, Retry: paceline.Retry{Max5xx: -1}})
		r.Queue = paceline.Queue{ClientTimeout: 60 * sec, Keep: time.Minute}
		rng := rand.New(rand.NewPCG(3, 4))
		r.Base = answers(func(req *http.Request) (*http.Response, error) {
			time.Sleep(sec)
			switch req.Header.Get("Way") {
			case "0":
				return answer(502, nil, "{}"), nil
			case "1":
				return answer(504, nil, "{}"), nil
			case "2":
				<-req.Context().Done()
				return nil, req.Context().Err()
			case "3":
				return nil, io.ErrUnexpectedEOF
			}
			return answer(200, nil, "{}"), nil
		})
		for range 200 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(60)+1)*sec)
			defer cancel()
			go r.chat(ctx, "Way", fmt.Sprint(rng.IntN(5)))
		}
		time.Sleep(10 * time.Minute)
		start := time.Now()
		for i, a := range r.together(10) {
			if a.status != 200 || a.took != sec {
				t.Errorf("call %d afterwards came to %d, %v after %v", i, a.status, a.err, time.Since(start))
			}
		}
	})
}

// BerriAI/litellm#28160: a release that is lost is repeated; where the limiter
// takes none any more, the place lapses within a minute, under steady traffic
// too.
func TestLostReleaseHeals(t *testing.T) {
	for name, tt := range map[string]struct {
		loses int
		free  time.Duration
	}{
		"the first":         {1, 250 * time.Millisecond},
		"the first three":   {3, 1750 * time.Millisecond},
		"all of the permit": {1000, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{MaxConcurrent: 1}})
				r.Limiter = &forgetful{Limiter: r.Limiter, loses: tt.loses}
				start := time.Now()
				for range 3 {
					r.chat(t.Context()).want(t, 200)
				}
				wantInstants(t, r.sent(start), 0, tt.free, tt.free)
			})
		})
	}
}

// forgetful loses releases of the first permit that is released.
type forgetful struct {
	limiter.Limiter
	mu    sync.Mutex
	loses int
	first string
}

func (f *forgetful) Release(ctx context.Context, permit string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first == "" {
		f.first = permit
	}
	if permit == f.first && f.loses > 0 {
		f.loses--
		return errors.New("lost")
	}
	return f.Limiter.Release(ctx, permit)
}

func (f *forgetful) Renew(ctx context.Context, permits []string, hold time.Duration) error {
	return f.Limiter.(limiter.Renewer).Renew(ctx, permits, hold)
}

// SGrondin/bottleneck#112: a limiter that has lost its state while requests wait
// answers them all; nobody hangs.
func TestWaitersSurviveALostLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{MaxPerSecond: 1}})
		l := &lostLimiter{Limiter: r.Limiter}
		r.Limiter = l
		done := make(chan error, 20)
		for range 20 {
			go func() { done <- r.chat(t.Context()).err }()
		}
		time.Sleep(5500 * time.Millisecond)
		l.fails.Store(true)
		time.Sleep(2 * sec)
		l.fails.Store(false)
		failed := 0
		for range 20 {
			if err := <-done; err != nil {
				failed++
			}
		}
		if failed != 14 {
			t.Errorf("%d of the 14 that waited were told", failed)
		}
		r.chat(t.Context()).want(t, 200)
	})
}

type lostLimiter struct {
	limiter.Limiter
	fails atomic.Bool
}

func (f *lostLimiter) Acquire(ctx context.Context, q limiter.Request) (limiter.Decision, error) {
	if f.fails.Load() {
		return limiter.Decision{}, errors.New("the state is gone")
	}
	return f.Limiter.Acquire(ctx, q)
}

// Waiting leaves no goroutine behind, whatever ended it: the bubble would not
// end.
func TestWaitingLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := keeping(t, 10*time.Minute)
		r.Clients = map[string]paceline.Client{"c0": {MaxConcurrent: 1}}
		for i := range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*10*sec)
			defer cancel()
			priority := []string{"interactive", "normal", "background"}[i%3]
			go r.chat(ctx, "X-Paceline-Client", fmt.Sprint("c", i%7), "X-Paceline-Priority", priority)
		}
		time.Sleep(time.Hour)
	})
}

// A request that has been sent, and waits to be sent again after a failure, is
// handed what it met when its client is about to give up: it did not wait for
// its turn, and who came again would have it tried for ever.
func TestFailureIsHandedBack(t *testing.T) {
	for name, tt := range map[string]struct {
		fault  stub.FaultKind
		status int
	}{
		"a 500":             {stub.FaultStatus, 500},
		"a lost connection": {stub.FaultReset, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, stub.Config{Faults: stub.Faults{{Kind: tt.fault, Status: tt.status}}}, paceline.Provider{
				Retry: paceline.Retry{Base: 3 * sec, Max5xx: 5},
			})
			r.Queue = paceline.Queue{ClientTimeout: 5 * sec, Keep: 2 * time.Minute}
			a := r.chat(t.Context())
			if a.status != tt.status || (a.err == nil) != (tt.status > 0) || a.header.Get("X-Paceline-Refused") != "" ||
				tt.status > 0 && a.header.Get("X-Should-Retry") != "false" {
				t.Errorf("%s: %d %v %v", name, a.status, a.err, a.header)
			}
			if a.took > 5*sec {
				t.Errorf("%s: after %v", name, a.took)
			}
			if kept := r.Places(); len(kept) > 0 {
				t.Errorf("%s: it has its answer, and keeps %d places", name, len(kept))
			}
		})
	}
}

// A failure whose body does not end cannot be handed back. Who waits after it
// is refused for what it waits for, not answered with nothing.
func TestUnreadableFailureIsNotHandedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Retry: paceline.Retry{Base: 20 * sec}})
		r.Base = sink(func(req *http.Request) (*http.Response, error) {
			body, never := io.Pipe()
			t.Cleanup(func() { never.Close() })
			return &http.Response{StatusCode: 500, Header: http.Header{}, Body: body}, nil
		})
		r.Queue = paceline.Queue{ClientTimeout: 10 * sec, Keep: time.Minute}
		a := r.chat(t.Context())
		a.want(t, 429)
		if a.header.Get("X-Paceline-Refused") != "queue" || len(r.Places()) != 1 {
			t.Errorf("%v, and %d places are kept", a.header, len(r.Places()))
		}
	})
}
