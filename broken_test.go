package paceline_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/budget"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/stub"
)

// A hanging body never comes to an end, unless it is closed.
type hanging struct {
	once sync.Once
	end  chan struct{}
}

func newHanging() *hanging { return &hanging{end: make(chan struct{})} }

func (h *hanging) Read([]byte) (int, error) { <-h.end; return 0, errors.New("closed") }
func (h *hanging) Close() error             { h.once.Do(func() { close(h.end) }); return nil }

// While a refusal is being read nobody else is sent: its head states a wait, and
// only its body says what for.
func TestNobodyIsSentWhileARefusalIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{})
		start := time.Now()
		r.Base = answers(func(*http.Request) (*http.Response, error) {
			if time.Since(start) == 0 {
				return &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"30"}}, Body: newHanging()}, nil
			}
			return answer(200, nil, "{}"), nil
		})
		go r.chat(t.Context())
		time.Sleep(sec)
		r.chat(t.Context()).want(t, 200)
		synctest.Wait()
		for _, at := range r.sent(start)[1:] {
			if at < 30*sec {
				t.Errorf("sent at %v into a stated wait of 30 s", at)
			}
		}
	})
}

// A transport that panics, as servers recover from, leaves no place taken.
func TestPanickingBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{MaxConcurrent: 1}})
		good := r.Base
		r.Base = answers(func(*http.Request) (*http.Response, error) { panic("a bug in a transport") })
		func() {
			defer func() { recover() }()
			r.chat(t.Context())
		}()
		r.Base = good
		if a := r.chat(t.Context()); a.status != 200 || a.took != 0 {
			t.Errorf("the next came to %d after %v", a.status, a.took)
		}
	})
}

// Answers without a header or a body, as careless transports give them, are
// answers.
func TestBareAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, status := range []int{200, 400} {
			r := newRig(t, stub.Config{}, paceline.Provider{})
			r.Base = answers(func(*http.Request) (*http.Response, error) { return &http.Response{StatusCode: status}, nil })
			r.chat(t.Context()).want(t, status)
		}
	})
}

// Close returns although the answer's body does not care for its context.
func TestCloseOfABodyThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{})
		r.Base = answers(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: newHanging(), ContentLength: -1}, nil
		})
		res, err := r.RoundTrip(chatRequest(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		res.Body.Close()
		if took := time.Since(start); took > sec {
			t.Errorf("Close took %v", took)
		}
	})
}

// A request's body that does not come is given up with its context.
func TestRequestBodyThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{})
		ctx, cancel := context.WithTimeout(t.Context(), 3*sec)
		defer cancel()
		req := chatRequest(ctx)
		req.Body, req.GetBody, req.ContentLength = newHanging(), nil, -1
		start := time.Now()
		if _, err := r.RoundTrip(req); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 3*sec {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// A body that cannot be had again is nobody's failure but its own: the refusal
// that asked for another try is handed back.
func TestBodyThatCannotBeHadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{told(2 * sec)}}, paceline.Provider{})
		req := chatRequest(t.Context())
		opened := 0
		whole := req.GetBody
		req.GetBody = func() (io.ReadCloser, error) {
			if opened++; opened > 2 { // once to look at it and once to send it
				return nil, errors.New("the file is gone")
			}
			return whole()
		}
		start := time.Now()
		res, err := r.RoundTrip(req)
		if err != nil || res.StatusCode != 429 || time.Since(start) != 2*sec {
			t.Fatalf("after %v: %v, %v", time.Since(start), res, err)
		}
		res.Body.Close()
		if at := r.sent(start); len(at) != 1 {
			t.Errorf("sent at %s, want once", secs(at))
		}
	})
	r := newRig(t, stub.Config{}, paceline.Provider{})
	r.MaxReplayBytes = math.MaxInt64
	req := chatRequest(t.Context())
	req.GetBody = nil
	r.Base = sink(func(req *http.Request) (*http.Response, error) {
		b, err := io.ReadAll(req.Body)
		if !strings.Contains(string(b), "messages") {
			t.Errorf("sent %q, %v", b, err)
		}
		return answer(200, nil, "{}"), nil
	})
	if res, err := r.RoundTrip(req); err != nil || res.StatusCode != 200 {
		t.Errorf("%v, %v", res, err)
	}
}

// A quota that is always over in a second is not asked for for ever.
func TestQuotaThatIsAlwaysOverSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{})
		r.Base = answers(func(*http.Request) (*http.Response, error) {
			return answer(429, http.Header{"Retry-After": {"1"}}, `{"error":{"message":"Rate limit reached on requests per day (RPD): Limit 200, Used 200, Requested 1.","code":"rate_limit_exceeded"}}`), nil
		})
		a := r.chat(t.Context())
		a.want(t, 429)
		if a.took > 11*time.Minute {
			t.Errorf("tried for %v, longer than a caller is held", a.took)
		}
	})
}

// A refusal that made an earlier pause is not the answer to a later one.
func TestHeldRefusalGoesWithItsPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{
			told(700 * sec), {},
			{Status: 402, Body: `{"error":{"code":"insufficient_quota","message":"` + strings.Repeat("x", 70<<10) + `"}}`},
		}}, paceline.Provider{})
		r.chat(t.Context()).want(t, 429)
		time.Sleep(time.Hour)
		r.chat(t.Context()).want(t, 200)
		r.chat(t.Context()).want(t, 402)
		if a := r.chat(t.Context()); a.header.Get("X-Paceline-Refused") != "pause" || !strings.Contains(a.body, "billing") {
			t.Errorf("in the pause of the 402 came %d %v %s", a.status, a.header, a.body)
		}
	})
}

// A probe whose client leaves is followed by another at once.
func TestProbeWhoseClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{told(10 * sec)}, Service: 10 * sec},
			paceline.Provider{Limits: paceline.Limits{MaxPerSecond: 10, Pacing: paceline.Burst, Adaptive: paceline.Adaptive{Off: true}}})
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		go r.chat(ctx)
		synctest.Wait()
		go r.chat(t.Context())
		time.Sleep(10*sec + sec/2) // the first is the probe
		cancel()
		time.Sleep(time.Minute)
		wantInstants(t, r.sent(start), 0, 10*sec, 10*sec+sec/2)
	})
}

// A deadline is not judged by what eases with the next answer: a probe, a
// spacing.
func TestDeadlineBehindWhatEases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{told(10 * sec)}, Service: sec / 2},
			paceline.Provider{Limits: paceline.Limits{MaxPerSecond: 100, Pacing: paceline.Burst, Adaptive: paceline.Adaptive{Off: true}}})
		go r.chat(t.Context())
		time.Sleep(10*sec + sec/4) // the probe is under way
		r.chat(t.Context(), "X-Paceline-Max-Wait", "1s").want(t, 200)
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{told(30 * sec)}}, paceline.Provider{})
		r.chat(t.Context()).want(t, 200)
		for _, a := range r.together(8, "X-Paceline-Max-Wait", "70s") { // 30 s, 15 s, 7.5 s, …
			a.want(t, 200)
		}
	})
}

// Where a limiter cannot renew and nothing caps an attempt, its place does not
// lapse under it.
func TestPlaceWithoutRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Service: 10 * time.Minute}, paceline.Provider{
			Limits: paceline.Limits{MaxConcurrent: 1}, Timeouts: paceline.Timeouts{Total: -1}})
		r.Limiter = plain{memory.New()}
		r.together(2)
		if c := r.stub.Counts(); c.PeakLive != 1 {
			t.Errorf("%d at once", c.PeakLive)
		}
	})
}

// plain is a limiter with its three methods and no upgrade.
type plain struct{ limiter.Limiter }

// A mapStore is a budget.Store in a map, which fails where it is given an
// error.
type mapStore struct {
	mu  sync.Mutex
	m   map[string][]byte
	err error
}

func (s *mapStore) Get(_ context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m[key], s.err
}

func (s *mapStore) Update(_ context.Context, key string, f func([]byte) []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if s.m == nil {
		s.m = make(map[string][]byte)
	}
	s.m[key] = f(s.m[key])
	return nil
}

// Two processes over one store share a pause, however soon after another write
// it comes, and send one probe between them.
func TestProcessesShareAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := paceline.Provider{Dialect: "openai", Limits: paceline.Limits{MaxPerMinute: 100, Pacing: paceline.Burst, WindowSlack: -1}}
		a, b := newRig(t, stub.Config{}, provider), newRig(t, stub.Config{}, provider)
		var store budget.Store = &mapStore{}
		a.Store, b.Store, b.Log = store, store, a.log
		start := time.Now()
		n := 0
		a.Base = answers(func(*http.Request) (*http.Response, error) {
			switch n++; n {
			case 1: // a reading, which is written
				return answer(200, http.Header{"X-Ratelimit-Limit-Tokens": {"60000"}, "X-Ratelimit-Remaining-Tokens": {"50000"}}, "{}"), nil
			case 2:
				return answer(429, http.Header{"Retry-After": {"10"}}, "{}"), nil
			}
			time.Sleep(1500 * time.Millisecond)
			return answer(200, nil, "{}"), nil
		})
		b.Base = a.Base
		a.chat(t.Context()).want(t, 200)
		go a.chat(t.Context()) // refused within 100 ms of the write, and sleeps
		time.Sleep(5 * sec)
		if c := b.chat(t.Context(), "X-Paceline-Max-Wait", "1s"); c.status != 429 || c.took != 0 {
			t.Errorf("another process came to %d after %v", c.status, c.took)
		}
		time.Sleep(5*sec + sec/2)
		b.chat(t.Context()).want(t, 200)
		synctest.Wait()
		at := a.sent(start)
		if len(at) != 4 || at[3] < 11*sec {
			t.Errorf("sent at %s; want nothing beside the probe of 10 s, answered at 11.5 s", secs(at))
		}
	})
}

// a store that hangs delays requests a little and stops none.
func TestStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{})
		r.Store = &hangingStore{}
		if a := r.chat(t.Context()); a.status != 200 || a.took > 2*sec {
			t.Errorf("came to %d after %v", a.status, a.took)
		}
	})
}

type hangingStore struct{ _ int }

func (*hangingStore) Get(ctx context.Context, _ string) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (*hangingStore) Update(ctx context.Context, _ string, _ func([]byte) []byte) error {
	<-ctx.Done()
	return ctx.Err()
}
