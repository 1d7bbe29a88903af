package paceline_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/stub"
)

// A body counts how often it is closed.
type body struct {
	io.Reader
	closed atomic.Int32
}

func (b *body) Close() error { b.closed.Add(1); return nil }

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the disk is gone") }

// Bodies of every kind are closed, and what can be sent is.
func TestBodies(t *testing.T) {
	endless := io.LimitReader(zeros{}, 1<<62)
	for name, tt := range map[string]struct {
		body   io.Reader
		err    string
		status int
	}{
		"none":       {nil, "", 200},
		"empty":      {strings.NewReader(""), "", 200},
		"unreadable": {failing{}, "the disk is gone", 0},
		"100 MB":     {io.LimitReader(zeros{}, 100<<20), "", 200},
		"endless":    {endless, "context deadline exceeded", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var got atomic.Int64
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			tr := &paceline.Transport{Limiter: memory.New(), Base: sink(func(r *http.Request) (*http.Response, error) {
				defer r.Body.Close()
				n, err := io.Copy(&counting{n: &got}, &ctxReader{r.Context(), r.Body})
				if err != nil {
					return nil, err
				}
				_ = n
				return answer(200, nil, "{}"), nil
			})}
			req, err := http.NewRequestWithContext(ctx, "POST", base+"/chat/completions", nil)
			if err != nil {
				t.Fatal(err)
			}
			var b *body
			if tt.body != nil {
				b = &body{Reader: tt.body}
				req.Body = b
			}
			res, err := tr.RoundTrip(req)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v; want %q", err, tt.err)
				}
			} else if err != nil || res.StatusCode != tt.status {
				t.Errorf("came to %v, %v", res, err)
			}
			if b != nil && b.closed.Load() == 0 {
				t.Error("the body was not closed")
			}
			if res != nil {
				res.Body.Close()
			}
			if name == "100 MB" && got.Load() != 100<<20 {
				t.Errorf("%d bytes arrived", got.Load())
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type counting struct{ n *atomic.Int64 }

func (c *counting) Write(p []byte) (int, error) { c.n.Add(int64(len(p))); return len(p), nil }

type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *ctxReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// sink is a RoundTripper that reads the body itself.
type sink func(*http.Request) (*http.Response, error)

func (f sink) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Each attempt gets the whole body, whether its request can replay it or not;
// one larger than MaxReplayBytes is sent once and its refusal handed back.
func TestBodyIsReplayed(t *testing.T) {
	for name, tt := range map[string]struct {
		most     int64
		getBody  bool
		attempts int
		status   int
	}{
		"kept":              {0, false, 2, 200},
		"had again":         {4, true, 2, 200},
		"too large to keep": {4, false, 1, 429},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var bodies []string
				r := newRig(t, stub.Config{}, paceline.Provider{})
				r.MaxReplayBytes = tt.most
				r.Base = sink(func(req *http.Request) (*http.Response, error) {
					b, err := io.ReadAll(req.Body)
					req.Body.Close()
					if bodies = append(bodies, string(b)); len(bodies) == 1 {
						return answer(429, http.Header{"Retry-After": {"1"}}, "slow down"), err
					}
					return answer(200, nil, "ok"), err
				})
				req := chatRequest(t.Context())
				want, _ := io.ReadAll(req.Body)
				given := &body{Reader: bytes.NewReader(want)}
				req.Body = given
				if !tt.getBody {
					req.GetBody = nil
				}
				defer func() {
					if given.closed.Load() == 0 {
						t.Error("the body was not closed")
					}
				}()
				res, err := r.RoundTrip(req)
				if err != nil || res.StatusCode != tt.status {
					t.Fatalf("came to %v, %v", res, err)
				}
				if b, _ := io.ReadAll(res.Body); tt.status == 429 && string(b) != "slow down" {
					t.Errorf("the refusal's body is %q", b)
				}
				res.Body.Close()
				if len(bodies) != tt.attempts {
					t.Errorf("%d attempts, want %d", len(bodies), tt.attempts)
				}
				for _, b := range bodies {
					if b != string(want) {
						t.Errorf("an attempt sent %q", b)
					}
				}
			})
		})
	}
}

// What is ours never reaches a provider, and the request is not changed.
func TestOurHeadersStayHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{})
		r.Base = answers(func(req *http.Request) (*http.Response, error) {
			for name := range req.Header {
				if strings.HasPrefix(strings.ToLower(name), "x-paceline") {
					t.Errorf("%s reached the provider", name)
				}
			}
			return answer(200, nil, "{}"), nil
		})
		req := chatRequest(t.Context(), "X-Paceline-Client", "night", "x-paceline-run", "7", "X-Paceline-Max-Wait", "1m")
		req.Header["x-paceline-odd"] = []string{"1"}
		before := req.Header.Clone()
		res, err := r.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		for name := range before {
			if _, ok := req.Header[name]; !ok {
				t.Errorf("%s was taken out of the caller's request", name)
			}
		}
		if rec := r.logged()[0]; rec.Client != "night" || rec.Run != "7" {
			t.Errorf("logged as %+v", rec)
		}
	})
}

// Wrong headers of ours, and wrong requests, are errors that say what to do.
func TestWrongRequests(t *testing.T) {
	r := newRig(t, stub.Config{}, paceline.Provider{})
	for want, req := range map[string]*http.Request{
		"give a duration such as 90s": chatRequest(t.Context(), "X-Paceline-Max-Wait", "soon"),
		"it is 1 or 0":                chatRequest(t.Context(), "X-Paceline-Wait-For-Capacity", "yes"),
		"no host":                     {Method: "GET", Header: http.Header{}},
	} {
		b := &body{Reader: strings.NewReader("x")}
		req.Body = b
		if _, err := r.RoundTrip(req); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v; want %q", err, want)
		}
		if b.closed.Load() == 0 {
			t.Error("the body was not closed")
		}
	}
}

// Impossible declarations are reported all at once; a million is no problem.
func TestDeclaredNumbers(t *testing.T) {
	bad := &paceline.Transport{Limiter: memory.New(), Providers: []paceline.Provider{
		{Name: "a", BaseURL: "nowhere", Limits: paceline.Limits{MaxPerMinute: -1, MaxConcurrent: -5}},
		{BaseURL: base, Dialect: "klingon", Limits: paceline.Limits{Windows: []paceline.Window{{Calls: 0, Per: sec}}}},
		{Name: "b", BaseURL: base, Scope: "galaxy", Limits: paceline.Limits{SafetyMargin: -1, Adaptive: paceline.Adaptive{Decrease: 2}}},
	}}
	_, err := bad.RoundTrip(chatRequest(t.Context()))
	for _, want := range []string{"MaxPerMinute is -1", "MaxConcurrent is -5", `BaseURL "nowhere"`, "needs a Name", `"klingon" is not known`, "Windows[0]", `scope is "galaxy"`, "SafetyMargin is -1", "Decrease"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		for _, pacing := range []struct{ l paceline.Limits }{
			{paceline.Limits{MaxPerMinute: 1_000_000, MaxPerSecond: 1_000_000, MaxPerDay: 1 << 30, MaxConcurrent: 1_000_000}},
			{paceline.Limits{MaxPerMinute: 1_000_000, Pacing: paceline.Burst}},
		} {
			r := newRig(t, stub.Config{}, paceline.Provider{Limits: pacing.l})
			start := time.Now()
			r.together(2000)
			if took := time.Since(start); took > sec {
				t.Errorf("2000 of a million a minute took %v", took)
			}
		}
	})
}

// A provider that is down, hangs up, or answers nonsense is an error or an
// answer, soon, and nothing stays behind: no goroutine, no permit, no socket.
func TestBrokenProviders(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	down := closed.Addr().String()
	closed.Close()
	before, files := runtime.NumGoroutine(), descriptors() // the poller has its own by now
	hangUp := listen(t, func(c net.Conn) { c.Close() })
	nonsense := listen(t, func(c net.Conn) {
		c.Read(make([]byte, 4096))
		io.WriteString(c, "SSH-2.0-not-http\r\n\r\n")
		c.Close()
	})
	silent := listen(t, func(c net.Conn) { io.Copy(io.Discard, c); c.Close() })
	for name, addr := range map[string]string{"down": down, "hangs up": hangUp, "nonsense": nonsense, "silent": silent} {
		t.Run(name, func(t *testing.T) {
			baseTransport := &http.Transport{}
			defer baseTransport.CloseIdleConnections()
			lim := memory.New()
			tr := &paceline.Transport{Base: baseTransport, Limiter: lim, Providers: []paceline.Provider{{
				Name: "p", BaseURL: "http://" + addr,
				Limits:   paceline.Limits{MaxConcurrent: 1},
				Retry:    paceline.Retry{Base: time.Millisecond},
				Timeouts: paceline.Timeouts{Header: 50 * time.Millisecond},
			}}}
			for range 3 { // a leaked permit would block the second
				res, err := tr.RoundTrip(request(t.Context(), "POST", "http://"+addr+"/v1/chat/completions", "{}"))
				if name == "silent" {
					if err != nil || res.StatusCode != 504 {
						t.Fatalf("came to %v, %v", res, err)
					}
					res.Body.Close()
				} else if err == nil {
					t.Fatalf("came to status %d", res.StatusCode)
				}
			}
		})
	}
	// Three listeners remain, each with a goroutine and a socket; connections
	// close in their own time.
	for range 100 {
		if runtime.NumGoroutine() <= before+3 && descriptors() <= files+3 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("goroutines: %d before, %d after; descriptors: %d before, %d after",
		before, runtime.NumGoroutine(), files, descriptors())
}

// descriptors counts the open files of the process, where the system tells.
func descriptors() int {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(open)
}

// A request cancelled at any step of its way leaves nothing behind: the next
// one has its place and its turn as if it had not been.
func TestCancelledAtEveryStep(t *testing.T) {
	// Refused and paused until 3 s, failed and apart until 5 s or so, at work
	// for 5 s, streamed.
	for step := range 26 {
		at := time.Duration(step) * sec / 2
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, stub.Config{
				Script: []stub.Step{told(3 * sec), {Status: 500}}, Service: 5 * sec, StopsWithClient: true,
			}, paceline.Provider{Limits: paceline.Limits{MaxConcurrent: 1, AbortHold: -1, Adaptive: paceline.Adaptive{Off: true}}})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() {
				res, err := r.RoundTrip(request(ctx, "POST", base+"/chat/completions", `{"stream":true}`))
				if err == nil {
					_, err = io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
				done <- err
			}()
			time.Sleep(at)
			synctest.Wait()
			cancel()
			if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled after %v: %v", at, err)
			}
			left := time.Now()
			if a := r.chat(t.Context()); a.status != 200 || time.Since(left) > 13*sec {
				t.Errorf("cancelled after %v: the next came to %d after %v", at, a.status, time.Since(left))
			}
			again := time.Now()
			if a := r.chat(t.Context()); a.status != 200 || time.Since(again) != 5*sec {
				t.Errorf("cancelled after %v: the one after it took %v", at, time.Since(again))
			}
			for _, rec := range r.logged() {
				if rec.Done.IsZero() {
					t.Errorf("cancelled after %v: unsettled: %+v", at, rec)
				}
			}
		})
	}
}

// listen serves raw connections until the test ends.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return l.Addr().String()
}

// net/http repeats nothing by itself: each request that arrives is an attempt
// of ours, over connections that a server closes idle, HTTP/1.1 and HTTP/2.
func TestEveryArrivalIsOurAttempt(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		var arrived atomic.Int32
		var conns sync.Map
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n := arrived.Add(1)
			io.Copy(io.Discard, r.Body)
			io.WriteString(w, "{}")
			if n%2 == 0 && !h2 {
				// Close the connection without saying so: the next request on
				// it dies unused.
				go conns.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
			}
		}))
		server.Config.ConnState = func(c net.Conn, s http.ConnState) {
			if s == http.StateIdle {
				conns.Store(c, true)
			}
		}
		server.EnableHTTP2 = h2
		server.StartTLS()
		var sent atomic.Int32
		tr := &paceline.Transport{
			Base: server.Client().Transport, Limiter: memory.New(),
			Log:       func(r paceline.Record) { sent.Add(1) },
			Providers: []paceline.Provider{{Name: "p", BaseURL: server.URL, Retry: paceline.Retry{Base: time.Millisecond, Max5xx: 10}}},
		}
		for i := range 30 {
			method, b := "POST", "{}"
			path := "/v1/chat/completions"
			if i%3 == 0 {
				method, b, path = "GET", "", "/v1/batches/b"
			}
			res, err := tr.RoundTrip(request(t.Context(), method, server.URL+path, b))
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
		server.Close()
		if arrived.Load() > sent.Load() {
			t.Errorf("HTTP/2 %v: %d requests arrived, %d attempts were ours", h2, arrived.Load(), sent.Load())
		}
	}
}
