package paceline_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/stub"
)

// leave sends a request and leaves after a while.
func (r *rig) leave(t *testing.T, after time.Duration, header ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), after, errors.New("left"))
	defer cancel()
	if a := r.chat(ctx, header...); a.err == nil {
		t.Errorf("the call of a client that left came to %d", a.status)
	}
}

// P-123, P-125, P-126, P-127, P-128, P-129: a client that leaves after the
// send is logged with 499, and its place stays taken for abortHoldMs, by
// default 30 s for openference and 15 s for others.
func TestAbortedPlaceIsHeld(t *testing.T) {
	for name, hold := range map[string]time.Duration{"openference": 30 * sec, "test": 15 * sec} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, stub.Config{Service: 10 * sec}, paceline.Provider{Name: name, Limits: paceline.Limits{MaxConcurrent: 1}})
			start := time.Now()
			r.leave(t, 5*sec)
			r.chat(t.Context()).want(t, 200)
			wantInstants(t, r.sent(start), 0, 5*sec+hold)
			if rec := r.logged()[0]; rec.Status != 499 || !rec.Aborted || rec.NotSent {
				t.Errorf("%s: the aborted attempt is logged as %+v", name, rec)
			}
		})
	}
}

// P-130: a request that leaves while queued holds nothing.
func TestAbortedInQueueHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Service: 10 * sec}, paceline.Provider{Limits: paceline.Limits{MaxConcurrent: 1}})
		start := time.Now()
		go r.chat(t.Context())
		synctest.Wait()
		r.leave(t, 2*sec)
		r.chat(t.Context()).want(t, 200)
		wantInstants(t, r.sent(start), 0, 10*sec)
	})
}

// P-124, P-127, P-131: the duration cap cuts an attempt with 504 and
// timeout: true, before its head as well as after, and its place is held.
func TestDurationCap(t *testing.T) {
	provider := paceline.Provider{Limits: paceline.Limits{MaxConcurrent: 1}, Timeouts: paceline.Timeouts{Total: 20 * sec}}
	for name, body := range map[string]string{"before the head": `{"model":"m"}`, "after the head": `{"model":"m","stream":true}`} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, stub.Config{Service: 60 * sec}, provider)
				start := time.Now()
				res, err := r.RoundTrip(request(t.Context(), "POST", base+"/chat/completions", body))
				if err != nil {
					t.Fatal(err)
				}
				b, err := io.ReadAll(res.Body)
				res.Body.Close()
				if streamed := err != nil; streamed != (name == "after the head") {
					t.Errorf("status %d, %q, error %v", res.StatusCode, b, err)
				} else if !streamed && (res.StatusCode != 504 || res.Header.Get("X-Should-Retry") != "false") {
					t.Errorf("status %d, %v", res.StatusCode, res.Header)
				}
				if took := time.Since(start); took != 20*sec {
					t.Errorf("took %v, want 20 s", took)
				}
				if rec := r.logged()[0]; rec.Status != 504 || !rec.Timeout || rec.Done.Sub(rec.Sent) != 20*sec {
					t.Errorf("logged as %+v", rec)
				}
				go r.chat(t.Context())
				time.Sleep(60 * sec)
				wantInstants(t, r.sent(start), 0, 35*sec)
			})
		})
	}
}

// P-173: aborted and repeated calls never put more than maxConcurrent to work
// at the provider, where the hold is longer than its work.
func TestAbortsNeverOverfillTheProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Service: 10 * sec}, paceline.Provider{Limits: paceline.Limits{MaxConcurrent: 3}})
		for i := range 30 {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%7+1)*sec)
				defer cancel()
				r.chat(ctx)
				r.chat(t.Context())
			}()
		}
		time.Sleep(20 * time.Minute)
		if c := r.stub.Counts(); c.PeakLive != 3 {
			t.Errorf("%d at work at once, want 3", c.PeakLive)
		}
	})
}

// An answer read to its end, or closed behind its last byte, is no abort.
func TestReadingToTheEndIsNoAbort(t *testing.T) {
	for name, read := range map[string]func(*http.Response){
		"to the end":          func(res *http.Response) { io.Copy(io.Discard, res.Body) },
		"to the last byte":    func(res *http.Response) { io.ReadFull(res.Body, make([]byte, max(0, res.ContentLength))) },
		"to [DONE], streamed": readUntilDone,
		"not at all, short":   func(*http.Response) {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, stub.Config{Service: sec}, paceline.Provider{Limits: paceline.Limits{MaxConcurrent: 1}})
				body := `{"model":"m"}`
				if name == "to [DONE], streamed" {
					body = `{"model":"m","stream":true}`
				}
				res, err := r.RoundTrip(request(t.Context(), "POST", base+"/chat/completions", body))
				if err != nil {
					t.Fatal(err)
				}
				read(res)
				res.Body.Close()
				if rec := r.logged()[0]; rec.Aborted || rec.Status != 200 {
					t.Errorf("logged as %+v", rec)
				}
				start := time.Now()
				r.chat(t.Context()).want(t, 200)
				if took := time.Since(start); took != sec {
					t.Errorf("the place was free after %v, want at once", took-sec)
				}
			})
		})
	}
}

// readUntilDone stops at the terminator, as SSE readers do.
func readUntilDone(res *http.Response) {
	var all []byte
	p := make([]byte, 64)
	for {
		n, err := res.Body.Read(p)
		all = append(all, p[:n]...)
		if err != nil || len(all) > 14 && string(all[len(all)-14:]) == "data: [DONE]\n\n" {
			return
		}
	}
}

// A permit is renewed while a long answer streams, and lapses with its holder.
func TestLongAnswersKeepTheirPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Service: 10 * time.Minute}, paceline.Provider{Limits: paceline.Limits{MaxConcurrent: 1}})
		start := time.Now()
		r.together(2)
		wantInstants(t, r.sent(start), 0, 10*time.Minute)
	})
}

// A body that its caller forgets neither keeps its place nor leaks.
func TestForgottenBody(t *testing.T) {
	s, err := stub.New(stub.Config{Service: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan paceline.Record, 1)
	tr := &paceline.Transport{Base: s, Log: func(r paceline.Record) { ended <- r }, Providers: []paceline.Provider{{
		Name: "forgotten", BaseURL: base, Limits: paceline.Limits{MaxConcurrent: 1, AbortHold: -1}}}}
	func() {
		res, err := tr.RoundTrip(request(t.Context(), "POST", base+"/chat/completions", `{"stream":true}`))
		if err != nil || res.StatusCode != 200 {
			t.Fatal(res, err)
		}
	}()
	for {
		runtime.GC()
		select {
		case rec := <-ended:
			if !rec.Aborted {
				t.Errorf("logged as %+v", rec)
			}
			return
		case <-time.After(10 * time.Millisecond): // the collector takes its time
		}
	}
}

// A body that nobody reads is given up when its context ends.
func TestUnreadBodyEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Service: time.Hour}, paceline.Provider{Limits: paceline.Limits{MaxConcurrent: 1, AbortHold: -1}})
		ctx, cancel := context.WithCancel(t.Context())
		res, err := r.RoundTrip(request(ctx, "POST", base+"/chat/completions", `{"stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		synctest.Wait()
		if recs := r.logged(); len(recs) != 1 || recs[0].Status != 499 {
			t.Errorf("logged %+v", recs)
		}
		res.Body.Close()
	})
}

// A provider that falls silent in mid-answer is cut after idleMs.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{})
		pr, pw := io.Pipe()
		r.Base = answers(func(req *http.Request) (*http.Response, error) {
			context.AfterFunc(req.Context(), func() { pw.CloseWithError(req.Context().Err()) })
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: pr, ContentLength: -1}, nil
		})
		a := r.chat(t.Context())
		if a.err == nil || a.took != 5*time.Minute {
			t.Errorf("came to %v after %v; want an error after five minutes", a.err, a.took)
		}
	})
}

// A head that does not come in time is a timeout, and repeated only where a
// key makes that safe.
func TestHeaderTimeout(t *testing.T) {
	for _, key := range []string{"", "k1"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, stub.Config{Script: []stub.Step{{Fault: stub.FaultSilence}}},
				paceline.Provider{Timeouts: paceline.Timeouts{Header: 30 * sec}})
			a := r.chat(t.Context(), "Idempotency-Key", key)
			want := 504
			if key != "" {
				want = 200
			}
			a.want(t, want)
			if recs := r.logged(); !recs[0].Timeout || recs[0].Status != 504 {
				t.Errorf("logged as %+v", recs[0])
			}
		})
	}
}
