package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/internal/config"
	"github.com/paceline-proxy/paceline/internal/proxy"
	"github.com/paceline-proxy/paceline/limiter/memory"
)

// inBubble runs f in a bubble with a proxy between connections of memory, so
// that every instant is exact.
func inBubble(t *testing.T, p paceline.Provider, h http.HandlerFunc, f func(t *testing.T, dial func() net.Conn, log func() []paceline.Record)) {
	synctest.Test(t, func(t *testing.T) {
		upstream := newListener()
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) // from then on the server sees the proxy leave
			h(w, r)
		})}
		go server.Serve(upstream)
		defer server.Close()
		base := &http.Transport{DisableCompression: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return upstream.dial(), nil }}
		defer base.CloseIdleConnections()
		p.Name, p.BaseURL = "own", "http://own.test/v1"
		records := make(chan paceline.Record, 100)
		tr := &paceline.Transport{
			Base: base, Limiter: memory.New(), MaxReplayBytes: 64 << 10, Providers: []paceline.Provider{p}, Log: func(r paceline.Record) { records <- r },
			Queue: paceline.Queue{ClientTimeout: 5 * time.Minute, Keep: 2 * time.Minute},
		}
		c := config.Default()
		c.Providers = []config.Provider{{Provider: p}}
		px, err := proxy.New(proxy.Options{Config: c, Transport: tr, Token: homeToken})
		if err != nil {
			t.Fatal(err)
		}
		tr.Route = px.Route
		l := newListener()
		front := px.Server()
		go front.Serve(l)
		defer front.Close()
		f(t, l.dial, func() (all []paceline.Record) {
			synctest.Wait()
			for len(records) > 0 {
				all = append(all, <-records)
			}
			return all
		})
	})
}

// ask sends a request and returns its answer and when that was whole.
func ask(t *testing.T, conn net.Conn, headers string) (*http.Response, string, time.Duration) {
	t.Helper()
	begun := time.Now()
	defer conn.Close()
	go fmt.Fprintf(conn, "POST /own/v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n%s", headers, len(chat), chat)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("after %v: %v", time.Since(begun), err)
	}
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("after %v: reading the answer: %v", time.Since(begun), err)
	}
	return res, string(b), time.Since(begun)
}

// BlockRunAI/Franklin#74: once the head is there, what bounds the wait for it
// bounds nothing: the first token may come late.
func TestFirstTokenMayBeLate(t *testing.T) {
	inBubble(t, paceline.Provider{Timeouts: paceline.Timeouts{Header: 30 * time.Second}}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		flush(w)
		time.Sleep(100 * time.Second)
		io.WriteString(w, "data: [DONE]\n\n")
	}, func(t *testing.T, dial func() net.Conn, _ func() []paceline.Record) {
		if res, body, took := ask(t, dial(), ""); res.StatusCode != 200 || body != "data: [DONE]\n\n" || took != 100*time.Second {
			t.Errorf("%s %q after %v", res.Status, body, took)
		}
	})
}

// frontman-ai/frontman#731, LuthienResearch/luthien-proxy#804: a silent model
// is no dead stream while pings come, and each passes in its instant.
func TestPingsKeepStreams(t *testing.T) {
	idle := paceline.Provider{Timeouts: paceline.Timeouts{Idle: time.Minute}}
	inBubble(t, idle, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		flush(w)
		for range 4 {
			time.Sleep(30 * time.Second)
			io.WriteString(w, "event: ping\ndata: {}\n\n")
			flush(w)
		}
		io.WriteString(w, "data: [DONE]\n\n")
	}, func(t *testing.T, dial func() net.Conn, _ func() []paceline.Record) {
		conn := dial()
		defer conn.Close()
		begun := time.Now()
		go fmt.Fprintf(conn, "POST /own/v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(res.Body)
		for n := range 4 {
			for range 3 {
				if _, err := in.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			if at := time.Since(begun); at != time.Duration(n+1)*30*time.Second {
				t.Errorf("ping %d came after %v", n, at)
			}
		}
		if rest, err := io.ReadAll(in); err != nil || string(rest) != "data: [DONE]\n\n" {
			t.Errorf("then %q, %v", rest, err)
		}
	})
}

// builderz-labs/marketing-dashboard#11: a hint of two seconds in a body is
// waited out here; the client sees a success.
func TestShortHintIsFollowed(t *testing.T) {
	n := 0
	inBubble(t, paceline.Provider{Dialect: "anthropic"}, func(w http.ResponseWriter, r *http.Request) {
		if n++; n == 1 {
			w.WriteHeader(429)
			io.WriteString(w, `{"type":"error","error":{"type":"rate_limit_error","message":"output_tokens rate limit exceeded - retry after 2s"}}`)
		}
	}, func(t *testing.T, dial func() net.Conn, _ func() []paceline.Record) {
		if res, body, took := ask(t, dial(), ""); res.StatusCode != 200 || took != 2*time.Second || res.Header.Get("X-Paceline-Attempts") != "2" {
			t.Errorf("%s %s after %v, %v", res.Status, body, took, res.Header)
		}
	})
}

// warpllm/warpllm#42, huggingface/huggingface_hub#3647: what cannot be had in
// time is refused at once, and says where the time would have gone.
func TestDeadlineIsKnownAhead(t *testing.T) {
	n := 0
	inBubble(t, paceline.Provider{}, func(w http.ResponseWriter, r *http.Request) {
		n++
		w.Header().Set("Retry-After", "55")
		w.WriteHeader(429)
	}, func(t *testing.T, dial func() net.Conn, _ func() []paceline.Record) {
		res, body, took := ask(t, dial(), "X-Paceline-Max-Wait: 8s\r\n")
		if res.StatusCode != 429 || took != 0 || n != 1 || res.Header.Get("Retry-After") != "55" || res.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s %s after %v and %d attempts, %v", res.Status, body, took, n, res.Header)
		}
		// Another does not even ask.
		res, body, took = ask(t, dial(), "X-Paceline-Max-Wait: 10s\r\n")
		if res.StatusCode != 429 || took != 0 || n != 1 || res.Header.Get("Retry-After") != "55" || res.Header.Get("X-Paceline-Refused") == "" {
			t.Errorf("%s %s after %v and %d attempts, %v", res.Status, body, took, n, res.Header)
		}
	})
	inBubble(t, paceline.Provider{Timeouts: paceline.Timeouts{Total: 20 * time.Second}}, func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	}, func(t *testing.T, dial func() net.Conn, _ func() []paceline.Record) {
		if res, body, took := ask(t, dial(), ""); res.StatusCode != 504 || !strings.Contains(body, "paceline_timeout") || took != 20*time.Second {
			t.Errorf("%s %s after %v", res.Status, body, took)
		}
	})
}

// anomalyco/opencode#30510: when our attempts are used up, the SDK is told not
// to multiply them.
func TestRetriesAreNotMultiplied(t *testing.T) {
	n := 0
	inBubble(t, paceline.Provider{Retry: paceline.Retry{Max: 2, Base: time.Second}}, func(w http.ResponseWriter, r *http.Request) {
		n++
		w.WriteHeader(429)
	}, func(t *testing.T, dial func() net.Conn, _ func() []paceline.Record) {
		res, _, _ := ask(t, dial(), "")
		if res.StatusCode != 429 || n != 3 || res.Header.Get("X-Should-Retry") != "false" || res.Header.Get("X-Paceline-Attempts") != "3" {
			t.Errorf("%s after %d attempts, %v", res.Status, n, res.Header)
		}
	})
}

// tombii/better-ccflare#348: a provider may think for twenty minutes; a client
// that gives up at 300 s ends the request in that instant, and the log says so.
func TestSilenceIsTheClientsToEnd(t *testing.T) {
	var told time.Time
	inBubble(t, paceline.Provider{}, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
			told = time.Now()
		case <-time.After(20 * time.Minute):
		}
	}, func(t *testing.T, dial func() net.Conn, log func() []paceline.Record) {
		conn := dial()
		begun := time.Now()
		go fmt.Fprintf(conn, "POST /own/v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
		time.Sleep(300 * time.Second)
		conn.Close()
		rows := log()
		if told.Sub(begun) != 300*time.Second || len(rows) != 1 || !rows[0].Aborted || rows[0].Status != 499 {
			t.Errorf("the provider was told after %v; %+v", told.Sub(begun), rows)
		}
		// Who waits on gets the answer.
		if res, _, took := ask(t, dial(), ""); res.StatusCode != 200 || took < 20*time.Minute {
			t.Errorf("%s after %v", res.Status, took)
		}
	})
}
