package paceline_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/limiter/memory"
)

// BenchmarkRoundTrip is what a request costs beside what sends it.
func BenchmarkRoundTrip(b *testing.B) {
	const answer = `{"id":"1","model":"m","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":9}}`
	for name, limits := range map[string]paceline.Limits{
		"Undeclared": {},
		"Declared":   {MaxPerMinute: 1 << 30, MaxPerDay: 1 << 35, MaxConcurrent: 1 << 20, Pacing: paceline.Burst},
	} {
		b.Run(name, func(b *testing.B) {
			t := &paceline.Transport{
				Limiter: memory.New(),
				Base: baseFunc(func(r *http.Request) (*http.Response, error) {
					io.Copy(io.Discard, r.Body)
					r.Body.Close()
					return &http.Response{
						StatusCode: 200, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(answer)),
						Header: http.Header{"Content-Type": {"application/json"}, "Date": {"Mon, 30 Nov 2026 03:00:00 GMT"}, "Content-Length": {"85"}},
						Body:   io.NopCloser(strings.NewReader(answer)),
					}, nil
				}),
				Providers: []paceline.Provider{{Name: "bench", BaseURL: "http://localhost:1/v1", Limits: limits}},
				Route:     func(*http.Request) ([]paceline.Route, error) { return []paceline.Route{{Provider: "bench"}}, nil },
				Log:       func(paceline.Record) {},
			}
			body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", 960) + `"}]}`
			b.ReportAllocs()
			for b.Loop() {
				req, err := http.NewRequest(http.MethodPost, "http://localhost:1/v1/chat/completions", io.NopCloser(strings.NewReader(body)))
				if err != nil {
					b.Fatal(err)
				}
				req.ContentLength = int64(len(body))
				req.Header.Set("Authorization", "Bearer sk-bench")
				req.Header.Set("Content-Type", "application/json")
				res, err := t.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, res.Body); err != nil {
					b.Fatal(err)
				}
				res.Body.Close()
			}
		})
	}
}

// A baseFunc is a function that sends.
type baseFunc func(*http.Request) (*http.Response, error)

func (f baseFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
