package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/internal/config"
)

// says answers as a provider that does not care what it sends.
func says(answer string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			io.WriteString(c, answer)
			c.Close()
		}
	}
}

// h2c is a client that speaks HTTP/2 without TLS.
func h2c(t *testing.T) *http.Transport {
	tr := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// The headers of an answer's connection end here, and none is made up.
func TestAnswerHeaders(t *testing.T) {
	g := newRig(t, says("HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nUpgrade: h2c\r\n"+
		"Date: Tue, 01 Jan 2030 00:00:00 GMT\r\nX-Kept: 1\r\nX-Kept: 2\r\nContent-Length: 14\r\n\r\n<html>no type."))
	for name, tr := range map[string]*http.Transport{"HTTP/1.1": {DisableCompression: true, DisableKeepAlives: true}, "HTTP/2": h2c(t)} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", g.url+"/own/v1/files/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if string(body) != "<html>no type." || err != nil || res.Proto[:6] != name[:6] {
			t.Errorf("%s: %s %q, %v", name, res.Proto, body, err)
		}
		for header, values := range res.Header {
			switch {
			case strings.HasPrefix(header, "X-Paceline-"), header == "Date" && values[0] == "Tue, 01 Jan 2030 00:00:00 GMT",
				header == "X-Kept" && len(values) == 2, header == "Content-Length" && values[0] == "14":
			default:
				t.Errorf("%s: %s: %q came", name, header, values)
			}
		}
	}
}

// That the client takes trailers goes on, and no other thing of TE.
func TestTE(t *testing.T) {
	g := newRig(t, nil)
	for sent, want := range map[string]string{"trailers": "trailers", "gzip, trailers": "trailers", "deflate": ""} {
		g.raw(t, "GET /own/v1/files/x HTTP/1.1\r\nHost: localhost\r\nConnection: close, TE\r\nTE: "+sent+"\r\n\r\n")
		if r, _ := g.last(); r.Header.Get("Te") != want {
			t.Errorf("TE: %s became %q", sent, r.Header.Get("Te"))
		}
	}
}

// Trailers pass, announced or not, also of a name that a header has, and to
// those who see a heartbeat; the proxy's own key does not.
func TestTrailersPass(t *testing.T) {
	for _, announced := range []bool{true, false} {
		for _, path := range []string{"/own", "/stored"} {
			for _, beats := range []time.Duration{0, time.Hour} {
				g := newRig(t, func(w http.ResponseWriter, r *http.Request) {
					h := w.Header()
					h.Set("X-Sum", "head")
					if announced {
						h.Set("Trailer", "X-Sum, X-Key, X-Never")
					}
					io.WriteString(w, "body")
					flush(w)
					h.Del("X-Sum")
					h.Set(http.TrailerPrefix+"X-Sum", "42")
					h.Set(http.TrailerPrefix+"X-Key", storedKey)
				}, func(c *config.Config) {
					for i := range c.Providers {
						c.Providers[i].StreamHeartbeat = beats
					}
				})
				for name, tr := range map[string]*http.Transport{"HTTP/1.1": {DisableCompression: true, DisableKeepAlives: true}, "HTTP/2": h2c(t)} {
					what := fmt.Sprintf("%s, announced %v, heartbeat %v, %s", path, announced, beats, name)
					req, err := http.NewRequestWithContext(t.Context(), "POST", g.url+path+"/v1/chat/completions", strings.NewReader(`{"stream":true}`))
					if err != nil {
						t.Fatal(err)
					}
					req.Header.Set("X-Paceline-Token", homeToken)
					res, err := tr.RoundTrip(req)
					if err != nil {
						t.Fatal(what, err)
					}
					body, err := io.ReadAll(res.Body)
					res.Body.Close()
					if string(body) != "body" || err != nil || res.Header.Get("X-Sum") != "head" || fmt.Sprint(res.Trailer["X-Sum"]) != "[42]" {
						t.Errorf("%s: %q, %v, headers %v, trailers %v", what, body, err, res.Header, res.Trailer)
					}
					if shown := res.Trailer.Get("X-Key") != ""; shown == (path == "/stored") {
						t.Errorf("%s: trailers %v", what, res.Trailer)
					}
				}
			}
		}
	}
}

// Answers without a body have none.
func TestNoBody(t *testing.T) {
	g := newRig(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"x"`)
		if r.Header.Get("X-Status") == "304" {
			w.WriteHeader(304)
		} else {
			w.WriteHeader(204)
		}
	})
	for _, status := range []string{"204", "304"} {
		got := g.raw(t, "GET /own/v1/files/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Status: "+status+"\r\n\r\n")
		head, body, _ := strings.Cut(got, "\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 "+status) || body != "" || strings.Contains(head, "Transfer-Encoding") || !strings.Contains(head, `Etag: "x"`) {
			t.Errorf("%s: %q", status, got)
		}
	}
}

// A provider that switches protocols, or answers in a status that there is not,
// has not answered.
func TestOddStatus(t *testing.T) {
	for _, status := range []string{"101", "099", "000"} {
		g := newRig(t, says("HTTP/1.1 "+status+" Odd\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"))
		if res := g.do(t, "GET", "/own/v1/files/x", ""); res.StatusCode != 502 || !strings.Contains(res.body, "for which nobody asked") {
			t.Errorf("%s: %s %s", status, res.Status, res.body)
		}
		g.eventually(t, func() bool { return len(g.records) > 0 })
	}
}

// A cut stream does not look complete where the protocol has no other sign of
// it than the connection: there that is reset. HTTP/2 resets the stream.
func TestCutIsSeen(t *testing.T) {
	g := newRig(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: 1\n\n")
		flush(w)
		if r.Header.Get("X-Cut") != "" {
			panic(http.ErrAbortHandler)
		}
	})
	for _, cut := range []string{"", "1"} {
		c := g.dial(t)
		io.WriteString(c, "POST /own/v1/chat/completions HTTP/1.0\r\nX-Cut: "+cut+"\r\nContent-Length: 2\r\n\r\n{}")
		got, err := io.ReadAll(c)
		if reset := errors.Is(err, syscall.ECONNRESET); reset != (cut != "") || !reset && !strings.HasSuffix(string(got), "\r\n\r\ndata: 1\n\n") {
			t.Errorf("HTTP/1.0, cut %q: %q, %v", cut, got, err)
		}
		req, err := http.NewRequestWithContext(t.Context(), "POST", g.url+"/own/v1/chat/completions", strings.NewReader(chat))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Cut", cut)
		res, err := h2c(t).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if string(body) != "data: 1\n\n" || (err != nil) != (cut != "") {
			t.Errorf("HTTP/2, cut %q: %q, %v", cut, body, err)
		}
	}
}

// What a client says after its body is looked at by nobody, so it stays here.
func TestRequestTrailersEndHere(t *testing.T) {
	trailer := make(chan http.Header, 1)
	g := newRig(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		trailer <- r.Trailer
	})
	g.transport.MaxReplayBytes = 1 // a body that is kept goes out with a length, and so without trailers
	g.raw(t, "POST /own/v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Unread: 1\r\nTransfer-Encoding: chunked\r\nTrailer: X-Paceline-Token\r\n\r\n"+
		"2\r\n{}\r\n0\r\nX-Paceline-Token: "+homeToken+"\r\n\r\n")
	if got := <-trailer; len(got) > 0 {
		t.Errorf("%v arrived", got)
	}
}

// endless is a body that goes on until it is closed.
func endless() io.ReadCloser {
	body, more := io.Pipe()
	go func() {
		for err := error(nil); err == nil; {
			_, err = more.Write(make([]byte, 4<<10))
		}
	}()
	return body
}

// A provider may answer before it has read the request: its answer passes.
func TestEarlyAnswer(t *testing.T) {
	g := newRig(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		io.WriteString(w, "too large")
	})
	g.transport.MaxReplayBytes = 1 << 10
	for name, tr := range map[string]*http.Transport{"HTTP/1.1": {DisableKeepAlives: true}, "HTTP/2": h2c(t)} {
		for range 5 {
			body := endless()
			req, err := http.NewRequestWithContext(t.Context(), "POST", g.url+"/own/v1/files", body)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Unread", "1")
			res, err := tr.RoundTrip(req)
			if err != nil {
				// Who is still writing may find the connection closed.
				if name == "HTTP/2" {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			got, _ := io.ReadAll(res.Body)
			res.Body.Close()
			body.Close()
			if res.StatusCode != http.StatusRequestEntityTooLarge || string(got) != "too large" {
				t.Errorf("%s: %s %q", name, res.Status, got)
			}
		}
	}
}

// A provider that is lost while a body is on its way is told of.
func TestLostWhileSending(t *testing.T) {
	g := newRig(t, func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) })
	g.transport.MaxReplayBytes = 1 << 10
	body := endless()
	req, err := http.NewRequestWithContext(t.Context(), "POST", g.url+"/own/v1/files", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Unread", "1")
	res, err := h2c(t).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(res.Body)
	res.Body.Close()
	body.Close()
	if res.StatusCode != http.StatusBadGateway || !strings.Contains(string(got), "paceline_lost") && !strings.Contains(string(got), "paceline_failed") {
		t.Errorf("%s %s", res.Status, got)
	}
}

// A large body that waits here for its turn is no client that has stopped
// sending, whatever the protocol.
func TestBodyWaitsInLine(t *testing.T) {
	inBubble(t, paceline.Provider{Limits: paceline.Limits{Windows: []paceline.Window{{Calls: 1, Per: 2 * time.Minute}}}}, func(w http.ResponseWriter, r *http.Request) {},
		func(t *testing.T, dial func() net.Conn, _ func() []paceline.Record) {
			if res, body, _ := ask(t, dial(), ""); res.StatusCode != 200 {
				t.Fatal(res.Status, body)
			}
			tr := h2c(t)
			tr.DialContext = func(context.Context, string, string) (net.Conn, error) { return dial(), nil }
			req, err := http.NewRequestWithContext(t.Context(), "POST", "http://localhost/own/v1/chat/completions", strings.NewReader(strings.Repeat("x", 4<<20)))
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			res, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode != 200 || time.Since(begun) < 2*time.Minute {
				t.Errorf("%s %s after %v", res.Status, body, time.Since(begun))
			}
			tr.CloseIdleConnections()
			synctest.Wait()
		})
}
