package paceline_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/limiter/memory"
)

// Answers that no provider should send are handed on as they came, byte for
// byte, soon and with bounded memory; and nothing stays behind.
func TestHostileAnswers(t *testing.T) {
	const mb = 1 << 20
	large := bytes.Repeat([]byte("no room \xff\xfe\x00"), 20*mb/11)
	var bomb bytes.Buffer
	z, _ := gzip.NewWriterLevel(&bomb, gzip.BestCompression)
	for range 64 {
		z.Write(make([]byte, mb))
	}
	z.Close()
	head := func(status int, more ...string) string {
		return fmt.Sprintf("HTTP/1.1 %d X\r\n%s\r\n", status, strings.Join(append(more, ""), "\r\n"))
	}
	sized := func(body []byte) string { return fmt.Sprintf("Content-Length: %d", len(body)) }
	garbled := []byte("{\"error\":{\"code\":\"\xc3\x28\",\"message\":\"\xff\xfe\"}}")
	for _, tt := range []struct {
		name   string
		answer string
		body   []byte
		hangs  bool // the connection stays open behind it
		status int
		err    error // of reading the body
		longer time.Duration
	}{
		{"an error of 20 MB", head(400, sized(large)), large, false, 400, nil, 0},
		{"a refusal of 20 MB", head(429, "Retry-After: 0", sized(large)), large, false, 429, nil, 0},
		{"a refusal of 20 MB in an answer", head(200, "Content-Type: application/json", sized(large)), large, false, 200, nil, 0},
		{"a bomb", head(429, "Content-Encoding: gzip", sized(bomb.Bytes())), bomb.Bytes(), false, 429, nil, 0},
		{"a bomb in an answer", head(200, "Content-Type: text/event-stream", "Content-Encoding: gzip", sized(bomb.Bytes())), bomb.Bytes(), false, 200, nil, 0},
		{"no gzip", head(429, "Content-Encoding: gzip", "Content-Length: 9"), []byte("not gzip!"), false, 429, nil, 0},
		{"no gzip in an answer", head(200, "Content-Type: application/json", "Content-Encoding: gzip", "Content-Length: 9"), []byte("not gzip!"), false, 200, nil, 0},
		{"no UTF-8", head(429, "Content-Type: application/json", sized(garbled)), garbled, false, 429, nil, 0},
		{"no UTF-8 in an answer", head(200, "Content-Type: application/json", sized(garbled)), garbled, false, 200, nil, 0},
		{"a refusal that says it is longer", head(429, "Content-Length: 100"), []byte(`{"error":{}}`), false, 429, io.ErrUnexpectedEOF, 0},
		{"an answer that says it is longer", head(200, "Content-Type: text/plain", "Content-Length: 100"), []byte("half"), false, 200, io.ErrUnexpectedEOF, 0},
		{"a body that never comes", head(429, "Retry-After: 0", "Content-Length: 100"), nil, true, 429, context.Canceled, 5 * time.Second},
		{"an answer that never comes", head(200, "Content-Type: application/json", "Content-Length: 100"), nil, true, 200, context.Canceled, 2 * time.Second},
		{"doubled headers", head(429, "Retry-After: 0", "Retry-After: soon", "Content-Type: application/json", "Content-Type: text/html", "Content-Length: 2"), []byte("{}"), false, 429, nil, 0},
		{"a content type of nonsense", head(200, "Content-Type: ;;;=", "Content-Length: 2"), []byte("{}"), false, 200, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			addr := listen(t, func(c net.Conn) {
				defer c.Close()
				if req, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
					return
				} else if io.Copy(io.Discard, req.Body); tt.hangs {
					io.WriteString(c, tt.answer)
					io.Copy(io.Discard, c)
					return
				}
				io.WriteString(c, tt.answer)
				c.Write(tt.body)
			})
			// The server closes without saying so: a second request on the same
			// connection would race with that.
			inner := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
			defer inner.CloseIdleConnections()
			var unsettled atomic.Int32
			tr := &paceline.Transport{Base: inner, Limiter: memory.New(), Log: func(paceline.Record) { unsettled.Add(-1) }, Providers: []paceline.Provider{{
				Name: "p", BaseURL: "http://" + addr, Limits: paceline.Limits{MaxConcurrent: 1, AbortHold: -1, Adaptive: paceline.Adaptive{Off: true}},
				Retry: paceline.Retry{Max: -1, Max5xx: -1, MaxWait: -1},
			}}}
			for n := range 2 { // a place that is not given back would hold up the second
				if n > 0 && tt.longer > 3*time.Second {
					break
				}
				unsettled.Add(1)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				start := time.Now()
				res, err := tr.RoundTrip(request(ctx, "POST", "http://"+addr+"/v1/chat/completions", `{"stream":true}`))
				took := time.Since(start)
				if err != nil || res.StatusCode != tt.status {
					cancel()
					t.Fatalf("came to %v, %v", res, err)
				}
				if took < tt.longer || took > tt.longer+5*time.Second {
					t.Errorf("its head took %v, want %v", took, tt.longer)
				}
				if tt.hangs {
					cancel()
				}
				body, err := io.ReadAll(res.Body)
				res.Body.Close()
				cancel()
				if !bytes.Equal(body, tt.body) || !errors.Is(err, tt.err) {
					t.Errorf("%d bytes came, %v; want %d, %v", len(body), err, len(tt.body), tt.err)
				}
				tr.Resume("p") // a pause is not what this is about
			}
			if n := unsettled.Load(); n != 0 {
				t.Errorf("%d attempts are not settled", n)
			}
		})
	}
}

// What is read of an error ahead of handing it on is bounded.
func TestErrorsAreReadInBounds(t *testing.T) {
	const whole = 200 << 20
	r := answering(func() *http.Response {
		return &http.Response{StatusCode: 400, Header: http.Header{}, ContentLength: whole, Body: io.NopCloser(io.LimitReader(zeros{}, whole))}
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	res, err := r.RoundTrip(chatRequest(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, res.Body)
	res.Body.Close()
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; n != whole || err != nil || took > 16<<20 {
		t.Errorf("%d bytes came, %v; %d MiB were made of them", n, err, took>>20)
	}
}
