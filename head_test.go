package paceline_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/stub"
)

const (
	hidden       = `{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded","retry_after":3}}`
	hiddenEvent  = "event: error\ndata: " + hidden + "\n\n"
	answerJSON   = `{"id":"x","object":"chat.completion","error":null,"choices":[{"message":{"content":"{\"error\":{\"code\":429}} is an error"}}]}`
	answerEvents = "data: {\"choices\":[{\"delta\":{\"content\":\"an error\"}}]}\n\ndata: [DONE]\n\n"
)

// script answers one request after the other.
type script []func() *http.Response

func (s *script) RoundTrip(*http.Request) (*http.Response, error) {
	next := (*s)[0]
	*s = (*s)[1:]
	return next(), nil
}

func ofKind(kind, body string, coding ...string) func() *http.Response {
	return func() *http.Response {
		h := http.Header{"Content-Type": {kind}}
		if len(coding) > 0 {
			h.Set("Content-Encoding", "gzip")
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			io.WriteString(z, body)
			z.Close()
			body = b.String()
		}
		return answer(200, h, body)
	}
}

func answering(s ...func() *http.Response) *rig {
	r := &rig{}
	all := script(s)
	r.Transport = &paceline.Transport{
		Base: &all, Log: r.log, Providers: []paceline.Provider{{Name: "test", BaseURL: base, Dialect: "openai"}},
	}
	return r
}

// A refusal that hides in a 200 is what any refusal is, as long as nothing has
// been handed on: it is waited out and sent again. Reports vercel/ai#10653 and
// anthropics/anthropic-sdk-python#688.
func TestRefusalInsideA200(t *testing.T) {
	for name, tt := range map[string]struct{ refusal, then func() *http.Response }{
		"an object":       {ofKind("application/json", hidden), ofKind("application/json", answerJSON)},
		"compressed":      {ofKind("application/json", hidden, "gzip"), ofKind("application/json", answerJSON)},
		"the first event": {ofKind("text/event-stream; charset=utf-8", hiddenEvent), ofKind("text/event-stream", answerEvents)},
		"behind message_start": {
			ofKind("text/event-stream", "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n"+hiddenEvent),
			ofKind("text/event-stream", answerEvents),
		},
		"behind response.created": {
			ofKind("text/event-stream", "data: {\"type\":\"response.created\",\"response\":{\"error\":null}}\n\n"+hiddenEvent),
			ofKind("text/event-stream", answerEvents),
		},
		"the first line": {ofKind("application/x-ndjson", hidden+"\n"), ofKind("application/x-ndjson", `{"message":{"content":"an error"}}`+"\n")},
		"behind message-start": {
			ofKind("text/event-stream", "event: message-start\ndata: {\"type\":\"message-start\"}\n\n"+hiddenEvent),
			ofKind("text/event-stream", answerEvents),
		},
		"a compressed event": {ofKind("text/event-stream", hiddenEvent, "gzip"), ofKind("text/event-stream", answerEvents)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := answering(tt.refusal, tt.then)
				start := time.Now()
				got := r.chat(t.Context())
				got.want(t, 200)
				if !strings.Contains(got.body, "an error") {
					t.Errorf("answered %q", got.body)
				}
				wantInstants(t, r.sent(start), 0, 3*sec)
				if records := r.logged(); records[0].Class != dialect.RateLimited || records[0].Status != 200 || records[1].Class != dialect.OK {
					t.Errorf("recorded %+v", records)
				}
			})
		})
	}
}

// Handed back, such a refusal is whole.
func TestRefusalInsideA200IsHandedBackWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spent := `{"error":{"message":"No money","code":"insufficient_quota"}}` + strings.Repeat(" ", 10_000)
		r := answering(ofKind("application/json", spent))
		got := r.chat(t.Context())
		if got.want(t, 200); got.body != spent {
			t.Errorf("%d bytes were handed back, want %d", len(got.body), len(spent))
		}
	})
}

// What an answer says is no refusal, whatever words are in it, and passes byte
// for byte; so does an error behind what has been handed on, once. Reports
// BerriAI/litellm#32835, BerriAI/litellm#26015 and Portkey-AI/gateway#1047.
func TestAnswersPass(t *testing.T) {
	for name, tt := range map[string]struct{ kind, body string }{
		"a document":             {"application/json", answerJSON},
		"a long document":        {"application/json", `{"choices":[{"message":{"content":"` + strings.Repeat("error ", 5000) + `"}}]}`},
		"events":                 {"text/event-stream", answerEvents},
		"events of CRLF":         {"text/event-stream", strings.ReplaceAll(answerEvents, "\n", "\r\n")},
		"an event of 100 KB":     {"text/event-stream", "data: {\"choices\":[{\"delta\":{\"content\":\"" + strings.Repeat("error ", 20_000) + "\"}}]}\n\n"},
		"a comment, then a late": {"text/event-stream", ": alive\n\n" + hiddenEvent},
		"a ping, then a late":    {"text/event-stream", "event: ping\ndata: {\"type\": \"ping\"}\n\n" + hiddenEvent},
		"an event, then a late":  {"text/event-stream", answerEvents[:strings.Index(answerEvents, "\n\n")+2] + hiddenEvent},
		"a line, then a late":    {"application/x-ndjson", `{"message":{"content":"so"}}` + "\n" + hidden + "\n"},
		"another kind":           {"application/vnd.amazon.eventstream", hidden},
		"nothing":                {"application/json", ""},
		"no document":            {"application/json", "error: \xff\xfe not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := answering(func() *http.Response {
					res := ofKind(tt.kind, tt.body)()
					res.Body = io.NopCloser(iotest.OneByteReader(strings.NewReader(tt.body)))
					return res
				})
				got := r.chat(t.Context())
				if got.want(t, 200); got.body != tt.body || len(r.logged()) != 1 {
					t.Errorf("%d bytes came, want %d", len(got.body), len(tt.body))
				}
			})
		})
	}
}

// An answer that is slow to begin is held back for two seconds at most, one
// that shows signs of life not at all.
func TestHoldingAnswersBack(t *testing.T) {
	for name, tt := range map[string]struct {
		first string
		after time.Duration
	}{
		"silent":    {"", 2 * sec},
		"half":      {"data: {\"choices\":", 2 * sec},
		"a comment": {": processing\n", 0},
		"an event":  {"data: {}\n\n", 0},
		"announced": {"event: message_start\ndata: {\"type\":\"message_start\"}\n\n", 2 * sec},
		"a ping":    {"data: {\"type\":\"message_start\"}\r\n\r\nevent: ping\r\ndata: {}\r\n\r\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body, w := io.Pipe()
				r := answering(func() *http.Response {
					return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body}
				})
				go func() {
					io.WriteString(w, tt.first)
					time.Sleep(10 * sec)
					io.WriteString(w, "data: [DONE]\n\n")
					w.Close()
				}()
				start := time.Now()
				res, err := r.RoundTrip(chatRequest(t.Context()))
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(start); took != tt.after {
					t.Errorf("its head came after %v, want %v", took, tt.after)
				}
				b, err := io.ReadAll(res.Body)
				if want := tt.first + "data: [DONE]\n\n"; string(b) != want || err != nil {
					t.Errorf("read %q, %v; want %q", b, err, want)
				}
				res.Body.Close()
			})
		})
	}
}

// A connection that is lost while nothing has been handed on is as one lost
// before the head. A client that leaves then leaves nothing behind.
func TestLostWhileHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut := func() *http.Response {
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(io.MultiReader(strings.NewReader(`{"id":`), broken{}))}
		}
		r := answering(cut, ofKind("application/json", answerJSON))
		if got := r.chat(t.Context()); got.body != answerJSON {
			t.Errorf("%+v", got)
		}
		if records := r.logged(); len(records) != 2 || records[0].Class != dialect.Unavailable || records[0].Error == "" {
			t.Errorf("recorded %+v", records)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Service: time.Hour}, paceline.Provider{Limits: paceline.Limits{MaxConcurrent: 1, AbortHold: -1}})
		r.Base = sink(func(req *http.Request) (*http.Response, error) {
			body, w := io.Pipe()
			context.AfterFunc(req.Context(), func() { w.CloseWithError(req.Context().Err()) })
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body}, nil
		})
		for range 2 { // the second finds the place free
			ctx, cancel := context.WithTimeout(t.Context(), sec)
			if got := r.chat(ctx); !errors.Is(got.err, context.DeadlineExceeded) || got.took != sec {
				t.Errorf("%+v", got)
			}
			cancel()
		}
		if records := r.logged(); len(records) != 2 || records[1].Status != 499 || records[1].Queued != 0 {
			t.Errorf("recorded %+v", records)
		}
	})
}

// broken is a connection that is lost.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// what the head of a stream says of budgets is known when it comes,
// ahead of any byte of its body, while the head itself is still held back, and
// stays known where the stream fails.
func TestHeadsAreReadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body, w := io.Pipe()
		r := answering(func() *http.Response {
			return &http.Response{StatusCode: 200, Body: body, Header: http.Header{
				"Content-Type": {"text/event-stream"}, "X-Ratelimit-Limit-Requests": {"60"}, "X-Ratelimit-Remaining-Requests": {"17"},
			}}
		})
		left := func() int64 {
			for _, s := range r.Status() {
				for _, b := range s.Buckets {
					return *b.Remaining
				}
			}
			return -1
		}
		done := make(chan reply)
		start := time.Now()
		go func() { done <- r.chat(t.Context()) }()
		synctest.Wait()
		if n := left(); n != 17 || !time.Now().Equal(start) {
			t.Errorf("%d left are known after %v, want 17 at once", n, time.Since(start))
		}
		time.Sleep(5 * sec)
		w.CloseWithError(io.ErrUnexpectedEOF)
		if got := <-done; got.status != 200 || got.err == nil {
			t.Errorf("%+v", got)
		}
		if n := left(); n != 17 {
			t.Errorf("%d left are known after the stream failed, want 17", n)
		}
	})
}

// A wait that hides in a 200 begins when it is read, not when the head came.
func TestHiddenWaitBeginsWhenItIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body, w := io.Pipe()
		r := answering(func() *http.Response {
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body}
		}, ofKind("text/event-stream", answerEvents))
		time.AfterFunc(1500*time.Millisecond, func() {
			io.WriteString(w, hiddenEvent)
			w.Close()
		})
		start := time.Now()
		r.chat(t.Context()).want(t, 200)
		wantInstants(t, r.sent(start), 0, 4500*time.Millisecond)
	})
}

// What is decompressed to look at it is bounded, however much there is of it: a
// bomb passes as it came.
func TestBombsInsideA200(t *testing.T) {
	for _, kind := range []string{"text/event-stream", "application/json"} {
		bomb := ofKind(kind, strings.Repeat("data", 16<<20), "gzip")()
		zipped, _ := io.ReadAll(bomb.Body)
		bomb.Body = io.NopCloser(bytes.NewReader(zipped))
		r := answering(func() *http.Response { return bomb })
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := r.chat(t.Context())
		runtime.ReadMemStats(&after)
		if got.status != 200 || got.body != string(zipped) {
			t.Errorf("%s: %d, %v: %d bytes, want %d", kind, got.status, got.err, len(got.body), len(zipped))
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 {
			t.Errorf("%s: %d MiB were made of it", kind, took>>20)
		}
	}
}
