package paceline_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/stub"
)

const (
	chatBody   = `{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":19,"completion_tokens":10}}`
	streamBody = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":19,\"completion_tokens\":10}}\n\ndata: [DONE]\n\n"
)

func zipped(t *testing.T, s string, flushed bool) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for _, part := range strings.SplitAfter(s, "\n\n") {
		if _, err := io.WriteString(z, part); err != nil {
			t.Fatal(err)
		}
		if flushed {
			z.Flush()
		}
	}
	z.Close()
	return b.String()
}

// dripping is a body that comes in pieces, with a while between them.
type dripping struct {
	rest  string
	n     int
	every time.Duration
}

func (d *dripping) Read(p []byte) (int, error) {
	if d.rest == "" {
		return 0, io.EOF
	}
	time.Sleep(d.every)
	n := copy(p, d.rest[:min(d.n, len(d.rest))])
	d.rest = d.rest[n:]
	return n, nil
}

func (d *dripping) Close() error { return nil }

// Records have the tokens that the answer says it cost, compressed or not, while
// its bytes and their instants stay as they are; and what makes no sense costs
// the answer nothing.
func TestTokensOfAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		kind, coding, body string
		in, out            int
	}{
		"json":               {"application/json", "", chatBody, 19, 10},
		"events":             {"text/event-stream", "", streamBody, 19, 10},
		"zipped json":        {"application/json", "gzip", zipped(t, chatBody, false), 19, 10},
		"zipped events":      {"text/event-stream", "gzip", zipped(t, streamBody, true), 19, 10},
		"zipped, and cut":    {"application/json", "gzip", zipped(t, chatBody, false)[:40], 0, 0},
		"no gzip at all":     {"application/json", "gzip", chatBody, 0, 0},
		"another coding":     {"application/json", "br", chatBody, 0, 0},
		"not what it claims": {"text/event-stream", "", chatBody, 0, 0},
		"broken":             {"application/json", "", chatBody[20:], 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, stub.Config{}, paceline.Provider{})
				r.Base = sink(func(*http.Request) (*http.Response, error) {
					h := http.Header{"Content-Type": {tt.kind}}
					if tt.coding != "" {
						h.Set("Content-Encoding", tt.coding)
					}
					res := answer(200, h, "")
					res.Body, res.ContentLength = &dripping{tt.body, 7, sec}, -1
					return res, nil
				})
				start := time.Now()
				a := r.chat(t.Context())
				if a.body != tt.body || a.err != nil {
					t.Errorf("the bytes were changed: %q, %v", a.body, a.err)
				}
				if want := time.Duration((len(tt.body)+6)/7) * sec; time.Since(start) != want {
					t.Errorf("took %v, want %v", time.Since(start), want)
				}
				if rec := r.logged()[0]; rec.InTokens != tt.in || rec.OutTokens != tt.out {
					t.Errorf("%d in, %d out; want %d and %d", rec.InTokens, rec.OutTokens, tt.in, tt.out)
				}
			})
		})
	}
}

// Whatever an answer claims to be, its bytes pass as they are.
func FuzzObserver(f *testing.F) {
	f.Add([]byte(chatBody), "application/json", "", 7)
	f.Add([]byte(streamBody), "text/event-stream", "gzip", 1)
	f.Add([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}, "text/event-stream", "gzip", 3)
	var body []byte
	var kind, coding string
	var n int
	tr := &paceline.Transport{Limiter: memory.New(), Base: sink(func(*http.Request) (*http.Response, error) {
		res := answer(200, http.Header{"Content-Type": {kind}, "Content-Encoding": {coding}}, "")
		res.Body, res.ContentLength = &dripping{rest: string(body), n: n}, -1
		return res, nil
	})}
	f.Fuzz(func(t *testing.T, b []byte, k, c string, size int) {
		body, kind, coding, n = b, k, c, 1+int(uint(size)%64)
		res, err := tr.RoundTrip(chatRequest(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || !bytes.Equal(got, b) {
			t.Errorf("%q became %q, %v", b, got, err)
		}
	})
}

// An answer whose client leaves ends the looking, wherever it is.
func TestTokensOfAnAbandonedAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{})
		for _, read := range []int64{0, 1, 30} {
			r.Base = sink(func(*http.Request) (*http.Response, error) {
				return answer(200, http.Header{"Content-Type": {"text/event-stream"}, "Content-Encoding": {"gzip"}}, zipped(t, streamBody, true)), nil
			})
			res, err := r.RoundTrip(chatRequest(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.CopyN(io.Discard, res.Body, read); err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
		}
		if n := len(r.logged()); n != 3 {
			t.Errorf("%d records", n)
		}
	})
}

// P-47: a server that cannot be reached was sent nothing: the record says so,
// and has no send time.
func TestUnreachableIsNotSent(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	var got []paceline.Record
	tr := &paceline.Transport{Limiter: memory.New(), Log: func(r paceline.Record) { got = append(got, r) },
		Providers: []paceline.Provider{{Name: "local", BaseURL: s.URL, Retry: paceline.Retry{Max5xx: 1, Base: time.Millisecond}}}}
	_, err := tr.RoundTrip(request(t.Context(), "POST", s.URL+"/v1/chat/completions", "{}"))
	if err == nil || len(got) != 2 {
		t.Fatalf("error %v, %d records", err, len(got))
	}
	for _, r := range got {
		if !r.NotSent || !r.Sent.IsZero() || r.Error == "" || r.Done.IsZero() {
			t.Errorf("record %+v", r)
		}
	}
	stats := paceline.StatsQuery{}.Report(func(yield func(paceline.Record) bool) {
		for _, r := range got {
			if !yield(r) {
				return
			}
		}
	})
	if stats.Total.Sent != 0 || stats.Total.Err != 0 {
		t.Errorf("the statistics count %+v", stats.Total)
	}
}
