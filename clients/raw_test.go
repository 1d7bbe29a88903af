package clients

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A rawAnswer is what came over a connection, and when.
type rawAnswer struct {
	status int
	header http.Header
	bytes  []byte
	reads  []reading
}

// A reading is how much had come at an instant.
type reading struct {
	end int
	at  time.Time
}

// raw sends a request as curl would, and reads the answer as it comes.
func (p *proxy) raw(t *testing.T, path string, header http.Header, body string) rawAnswer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header.Clone()
	if r.Header == nil {
		r.Header = http.Header{"Accept-Encoding": {"identity"}}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got := rawAnswer{status: resp.StatusCode, header: resp.Header}
	for chunk := make([]byte, 32<<10); ; {
		n, err := resp.Body.Read(chunk)
		got.bytes = append(got.bytes, chunk[:n]...)
		got.reads = append(got.reads, reading{len(got.bytes), time.Now()})
		if errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			t.Fatalf("after %d bytes: %v", len(got.bytes), err)
		}
	}
}

// inTime holds an answer to what the provider wrote: the same bytes, those of
// each write there before the next one was made, where it was not made at once.
func inTime(t *testing.T, got rawAnswer, x exchange) {
	t.Helper()
	if string(got.bytes) != string(x.body) {
		t.Errorf("the client got\n%q\nand the provider sent\n%q", got.bytes, x.body)
		return
	}
	held := 0
	for i, w := range x.writes[:len(x.writes)-1] {
		next := x.writes[i+1].at
		if next.Sub(w.at) < 100*time.Millisecond {
			continue
		}
		held++
		for _, r := range got.reads {
			if r.end >= w.end {
				if !r.at.Before(next) {
					t.Errorf("byte %d came at %v; it was written at %v and the next one at %v", w.end, r.at, w.at, next)
				}
				break
			}
		}
	}
	if held == 0 {
		t.Error("the provider wrote everything at once: nothing was tested")
	}
}
