package clients

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/stub"
)

// What other proxies got wrong, tried on this one. Each test names its report.

// An sse is a handler that writes chunks of a stream with a pause between
// them, each flushed by itself.
func sse(header http.Header, pause time.Duration, chunks ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, values := range header {
			w.Header()[name] = values
		}
		for i, chunk := range chunks {
			if i > 0 && !sleep(r.Context(), pause) {
				return
			}
			io.WriteString(w, chunk)
			http.NewResponseController(w).Flush()
		}
	})
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

var eventStream = http.Header{"Content-Type": {"text/event-stream"}}

// chatEvents are a streamed chat completion that says a text.
func chatEvents(text string) string {
	return fmt.Sprintf(`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"%s"},"finish_reason":null}]}`+"\n\n", text) +
		`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
}

// streamed is an ask for a streamed text over an SDK's first API.
func (s sdk) streamed(prompt string) ask {
	a := s.say(prompt)
	a.Stream = true
	return a
}

// api7/aisix#111: characters that are split over two writes reach the client
// whole, wherever they are split.
func TestCharactersSplitOverWrites(t *testing.T) {
	const text = "你好🐢"
	stream := chatEvents(text)
	var chunks []string
	last := 0
	for _, n := range []int{1, 2, 4, 5, 7, 8, 9} {
		cut := strings.Index(stream, text) + n
		chunks, last = append(chunks, stream[last:cut]), cut
	}
	chunks = append(chunks, stream[last:])
	each(t, func(t *testing.T, s sdk) {
		if !slices.Contains(s.apis, "chat") {
			t.Skip("the stream is one of chat completions")
		}
		u := serveUpstream(t, sse(eventStream, 30*time.Millisecond, chunks...))
		got := does(t, s, start(t, u, settings{}).url, s.streamed("Greet me."))
		if got.Text != text || string(got.Bytes) != stream {
			t.Errorf("%q from %q", got.Text, got.Bytes)
		}
	})
}

// odd is a stream of Anthropic's with everything that the format of events
// allows.
const odd = ": a comment\nid: 1\nretry: 3000\nevent: message_start\n" +
	`data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}` + "\n\n" +
	"event: content_block_start\nid: 2\n" + `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n:\n\n" +
	"event:content_block_delta\n" + `data:{"type":"content_block_delta","index":0,` + "\n" + `data: "delta":{"type":"text_delta","text":"As it was."}}` + "\n\n" +
	"event: content_block_stop\r\n" + `data: {"type":"content_block_stop","index":0}` + "\r\n\r\n" +
	"event: message_delta\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":3}}` + "\n\n" +
	"event: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n"

// rossoctl/cortex#656: names, ids, comments and line ends of a stream stay as
// they are, and so does its compression.
func TestStreamsAreNotReframed(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			sse(eventStream, 0, odd).ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		sse(eventStream, 0, zipped(odd)).ServeHTTP(w, r)
	})
	each(t, func(t *testing.T, s sdk) {
		if !slices.Contains(s.apis, "messages") {
			t.Skip("the stream is one of messages")
		}
		u := serveUpstream(t, handler)
		a := s.streamed("As it is, please.")
		a.API = "messages"
		got := does(t, s, start(t, u, settings{}).url, a)
		if got.Text != "As it was." || string(got.Bytes) != odd {
			t.Errorf("%q from %q", got.Text, got.Bytes)
		}
	})
	t.Run("raw", func(t *testing.T) {
		t.Parallel()
		u := serveUpstream(t, handler)
		p := start(t, u, settings{})
		for accepts, want := range map[string]string{"gzip": zipped(odd), "identity": odd} {
			got := p.raw(t, "/v1/messages", http.Header{"Accept-Encoding": {accepts}}, `{"model":"m","stream":true}`)
			if string(got.bytes) != want || got.header.Get("Content-Encoding") == "gzip" != (accepts == "gzip") {
				t.Errorf("%s: %v %q", accepts, got.header, got.bytes)
			}
		}
	})
}

func zipped(text string) string {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	io.WriteString(w, text)
	w.Close()
	return out.String()
}

// golang/go#27816, BerriAI/litellm#29557: every write of a provider is passed
// on before the next, whatever the type of the stream.
func TestEveryWriteIsPassedOn(t *testing.T) {
	var events []string
	for i := range 4 {
		events = append(events, fmt.Sprintf("data: {\"n\":%d,\"x\":%q}\n\n", i, strings.Repeat("x", 80)))
	}
	t.Parallel()
	for _, kind := range []string{"text/event-stream", "application/x-ndjson", "application/octet-stream", ""} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			header := http.Header{"Content-Type": {kind}}
			if kind == "" {
				header = http.Header{"Content-Type": nil} // and none is guessed
			}
			u := serveUpstream(t, sse(header, time.Second, events...))
			got := start(t, u, settings{}).raw(t, "/v1/chat/completions", nil, `{"model":"m","stream":true}`)
			inTime(t, got, u.exchanges()[0])
		})
	}
}

// LuthienResearch/luthien-proxy#804, frontman-ai/frontman#731: pings of a
// provider that has nothing to say come through as they are and in time, and
// keep the connection from being called idle.
func TestPings(t *testing.T) {
	provider := stub.Config{Service: 15 * time.Second, Ping: 500 * time.Millisecond}
	config := settings{provider: "timeouts: {idleMs: 2000}"} // 3 s from piece to piece
	each(t, func(t *testing.T, s sdk) {
		u := newUpstream(t, provider)
		got := does(t, s, start(t, u, config).url, s.streamed("Take your time."))
		if got.Text != generation(1) || !bytes.Equal(got.Bytes, u.exchanges()[0].body) {
			t.Errorf("%q from %q", got.Text, got.Bytes)
		}
	})
	t.Run("raw", func(t *testing.T) {
		t.Parallel()
		u := newUpstream(t, provider)
		got := start(t, u, config).raw(t, "/v1/messages", nil, `{"model":"m","stream":true}`)
		if n := bytes.Count(got.bytes, []byte("event: ping\n")); n != 26 {
			t.Errorf("%d pings, want one at the beginning and five before each piece", n)
		}
		inTime(t, got, u.exchanges()[0])
	})
}

// QuantumNous/new-api#7231, BerriAI/litellm#9178: a client that gives up on an
// answer that is not streamed ends its connection at the provider, and its
// place is free for the next one.
func TestClientGivesUp(t *testing.T) {
	each(t, func(t *testing.T, s sdk) {
		if !s.timeout {
			t.Skip("it has no timeout")
		}
		u := newUpstream(t, stub.Config{Service: 10 * time.Second})
		p := start(t, u, settings{provider: "limits: {maxConcurrent: 1, abortHoldMs: 0}"})
		never := 0
		got := s.prepare(t, job{Base: p.url, Retries: &never, TimeoutMS: 2000, Asks: []ask{s.say("Soon!")}})()[0]
		if got.Error == "" || len(got.Answers) > 0 {
			t.Fatalf("%+v", got)
		}
		seen := u.wait(t, "the connection to end", func(all []exchange) bool { return len(all) == 1 && !all[0].ended.IsZero() })
		if took := seen[0].ended.Sub(seen[0].began); took > 5*time.Second {
			t.Errorf("cut after %v, the client left after 2 s", took)
		}
		if next := does(t, s, p.url, s.say("And now me.")); next.Text != generation(2) {
			t.Errorf("%q", next.Text)
		}
		rows := p.records(t, 2)
		if len(rows) != 2 || rows[0].Status != 499 || !rows[0].Aborted || rows[1].Status != 200 {
			t.Errorf("the log has %+v", rows)
		}
	})
}

// BerriAI/litellm#36429: when thirty long streams lose their clients at one
// instant, the proxy goes on answering, and all their places are free.
func TestManyClientsVanishAtOnce(t *testing.T) {
	t.Parallel()
	const streams, size = 30, 5 << 20
	event := "data: {\"choices\":[{\"delta\":{\"content\":\"" + strings.Repeat("x", 1000) + "\"}}]}\n\n"
	u := serveUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range size / len(event) {
			io.WriteString(w, event)
		}
		http.NewResponseController(w).Flush()
		sleep(r.Context(), time.Minute)
	}))
	p := start(t, u, settings{provider: "limits: {maxConcurrent: 30, abortHoldMs: 0}"})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var read, left sync.WaitGroup
	for i := range streams {
		read.Add(1)
		left.Go(func() {
			once := sync.OnceFunc(read.Done)
			defer once()
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/v1/chat/completions", strings.NewReader(fmt.Sprintf(`{"stream":true,"n":%d}`, i)))
			r.Header.Set("Authorization", "Bearer "+key)
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if _, err := io.CopyN(io.Discard, resp.Body, int64(size/len(event)*len(event))); err != nil {
				t.Error(err)
			}
			once()
			<-ctx.Done()
		})
	}
	read.Wait()
	leave()
	health := http.Client{Timeout: 2 * time.Second}
	for range 20 {
		resp, err := health.Get(p.url + "/health")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Error(resp.Status)
		}
	}
	left.Wait()
	u.wait(t, "all connections to end", func(all []exchange) bool {
		return len(all) == streams && !slices.ContainsFunc(all, func(x exchange) bool { return x.ended.IsZero() })
	})
	for _, r := range p.records(t, streams) {
		if r.Status != 499 || !r.Aborted {
			t.Errorf("a row of the log is %+v", r)
		}
	}
}
