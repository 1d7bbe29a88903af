package paceline_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/stub"
)

// A request without a body goes out without one: with a length of zero where
// its method usually has a body, and not in chunks.
func TestBodylessOnTheWire(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		want := int64(0)
		if r.ContentLength != want || len(r.TransferEncoding) > 0 {
			t.Errorf("%s arrived with length %d, encoding %v", r.Method, r.ContentLength, r.TransferEncoding)
		}
		if sent := r.Header.Get("Content-Length"); r.Method == "POST" && sent != "0" && r.ContentLength != 0 {
			t.Errorf("POST arrived with Content-Length %q", sent)
		}
	}))
	defer server.Close()
	tr := &paceline.Transport{Base: server.Client().Transport, Limiter: memory.New()}
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"} {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/v1/batches/b/cancel", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(method, err)
		}
		res.Body.Close()
	}
}

// A connection that its server has closed for being idle costs a repeat and no
// backoff, here of an hour.
func TestStaleConnection(t *testing.T) {
	var requests atomic.Int32
	var server *httptest.Server
	conns := make(chan net.Conn, 10)
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 2 {
			// The second request finds that nobody is there any more.
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				c.Close()
			}
		}
	}))
	server.Config.ConnState = func(c net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns <- c
		}
	}
	server.Start()
	defer server.Close()
	tr := &paceline.Transport{Base: server.Client().Transport, Limiter: memory.New(), Providers: []paceline.Provider{{
		Name: "p", BaseURL: server.URL, Retry: paceline.Retry{Base: time.Hour}}}}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for range 2 {
		res, err := tr.RoundTrip(request(ctx, "POST", server.URL+"/v1/chat/completions", "{}"))
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	if n := requests.Load(); n != 3 || len(conns) != 2 {
		t.Errorf("%d requests over %d connections, want 3 over 2", n, len(conns))
	}
}

// One that is lost with the beginning of an answer was no idle one: its repeat
// waits, here longer than its caller does.
func TestLostAnswerCostsABackoff(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 2 {
			c, rw, err := w.(http.Hijacker).Hijack()
			if err == nil {
				rw.WriteString("HTTP/1.1 429 Too Ma")
				rw.Flush()
				c.Close()
			}
		}
	}))
	defer server.Close()
	tr := &paceline.Transport{Base: server.Client().Transport, Limiter: memory.New(), Providers: []paceline.Provider{{
		Name: "p", BaseURL: server.URL, Retry: paceline.Retry{Base: time.Hour}}}}
	for i := range 2 {
		res, err := tr.RoundTrip(request(t.Context(), "POST", server.URL+"/v1/chat/completions", "{}", "X-Paceline-Max-Wait", "1m"))
		if (err != nil) != (i == 1) {
			t.Errorf("request %d: %v", i+1, err)
		}
		if err == nil {
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

// A refusal whose body takes its time is judged by what has come, and handed on
// whole.
func TestSlowRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{})
		r.Base = answers(func(req *http.Request) (*http.Response, error) {
			pr, pw := io.Pipe()
			go func() {
				for range 7 {
					time.Sleep(sec)
					io.WriteString(pw, "still wrong; ")
				}
				pw.Close()
			}()
			return &http.Response{StatusCode: 400, Header: http.Header{}, Body: pr, ContentLength: -1}, nil
		})
		a := r.chat(t.Context())
		a.want(t, 400)
		if a.body != strings.Repeat("still wrong; ", 7) || a.took != 7*sec {
			t.Errorf("after %v: %q", a.took, a.body)
		}
	})
}

// A request that begins something which is kept is not begun twice.
func TestJobsAreNotRepeated(t *testing.T) {
	for name, tt := range map[string]struct{ path, body string }{
		"a video":               {"/videos", "{}"},
		"a background response": {"/responses", `{"model":"m","background":true}`},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, stub.Config{}, paceline.Provider{})
			r.Base = answers(func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF })
			if _, err := r.RoundTrip(request(t.Context(), "POST", base+tt.path, tt.body)); err == nil {
				t.Errorf("%s: no error", name)
			}
			if n := len(r.logged()); n != 1 {
				t.Errorf("%s: sent %d times", name, n)
			}
		})
	}
}

// A body that is not as long as its request says is not sent.
func TestWrongContentLength(t *testing.T) {
	r := newRig(t, stub.Config{}, paceline.Provider{})
	req := chatRequest(t.Context())
	req.Body, req.GetBody, req.ContentLength = io.NopCloser(strings.NewReader("abc")), nil, 10
	if _, err := r.RoundTrip(req); err == nil || !strings.Contains(err.Error(), "ContentLength 10 and its body has 3") {
		t.Errorf("error %v", err)
	}
}

// The pauses of other answers end without a herd too.
func TestNoHerdAfterAnyPause(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		path   string
	}{"unavailable": {503, "/chat/completions"}, "not a generation": {429, "/files"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, stub.Config{}, paceline.Provider{})
				start := time.Now()
				r.Base = answers(func(*http.Request) (*http.Response, error) {
					if time.Since(start) == 0 {
						return answer(tt.status, http.Header{"Retry-After": {"10"}}, "{}"), nil
					}
					return answer(200, nil, "{}"), nil
				})
				for range 20 {
					go func() {
						res, err := r.RoundTrip(request(t.Context(), "GET", base+tt.path, "", "Idempotency-Key", "k"))
						if err == nil {
							res.Body.Close()
						}
					}()
					synctest.Wait()
				}
				time.Sleep(time.Minute)
				if n := mostWithin(r.sent(start), 400*time.Millisecond); n > 1 {
					t.Errorf("%d sent together: %s", n, secs(r.sent(start)))
				}
			})
		})
	}
}

// P-88: where no rate is declared, those that waited for a pause are not let
// go in a herd either, whatever the headers tell.
func TestNoHerdWithoutDeclaredRates(t *testing.T) {
	for name, h := range map[string]http.Header{
		"nothing told":             {},
		"a limit of some window":   {"X-Ratelimit-Limit-Requests": {"60"}},
		"a limit in general words": {"X-Ratelimit-Limit": {"60"}, "X-Ratelimit-Remaining": {"10"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				step := told(2 * sec)
				step.Header = h
				r := newRig(t, stub.Config{Script: []stub.Step{step}}, paceline.Provider{Limits: paceline.Limits{MaxConcurrent: 50}})
				start := time.Now()
				go r.chat(t.Context())
				synctest.Wait()
				for _, a := range r.together(30) {
					a.want(t, 200)
				}
				if n := mostWithin(r.sent(start), 100*time.Millisecond); n > 1 {
					t.Errorf("%d started within 100 ms: %s", n, secs(r.sent(start)))
				}
			})
		})
	}
}
