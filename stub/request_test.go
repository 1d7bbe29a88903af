package stub_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/stub"
)

// A body that counts what is read of it and says when it is closed.
type body struct {
	io.Reader
	read   atomic.Int64
	closed atomic.Int64
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read.Add(int64(n))
	return n, err
}

func (b *body) Close() error { b.closed.Add(1); return nil }

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func sendBody(t *testing.T, rt http.RoundTripper, b *body) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, chat, b)
	if err != nil {
		t.Fatal(err)
	}
	return rt.RoundTrip(r)
}

func TestLongBodiesAreReadInBoundedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustStub(t, stub.Config{})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		b := &body{Reader: io.MultiReader(strings.NewReader(`{"stream":true,"stream_options":{"include_usage":true},"x":"`), io.LimitReader(endless{}, 100<<20))}
		resp, err := sendBody(t, s, b)
		if err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		// What was in front of the cut is understood, and all of it counted.
		text, _ := io.ReadAll(resp.Body)
		if resp.Header.Get("Content-Type") != "text/event-stream" || !strings.Contains(string(text), `"prompt_tokens":26214415`) {
			t.Errorf("%v %s", resp.Header, text)
		}
		if b.read.Load() != 100<<20+60 {
			t.Errorf("read %d", b.read.Load())
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
			t.Errorf("allocated %d MiB for a body of 100", grown>>20)
		}
	})
}

func TestEndlessBodiesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustStub(t, stub.Config{})
		b := &body{Reader: endless{}}
		resp, err := sendBody(t, s, b)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if resp.StatusCode != http.StatusRequestEntityTooLarge || b.closed.Load() != 1 {
			t.Error(resp.Status, b.closed.Load())
		}
		counts(t, s, stub.Counts{})
	})
}

func TestUnreadableBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustStub(t, stub.Config{})
		broken := errors.New("the disk is gone")
		b := &body{Reader: io.MultiReader(strings.NewReader("{"), errReader{broken})}
		if _, err := sendBody(t, s, b); !errors.Is(err, broken) {
			t.Error(err)
		}
		synctest.Wait()
		if b.closed.Load() != 1 {
			t.Errorf("closed %d times", b.closed.Load())
		}
		counts(t, s, stub.Counts{})
	})
}

type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) { return 0, e.err }

func TestBodyThatNeverComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustStub(t, stub.Config{})
		from, to := io.Pipe()
		defer to.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, chat, from)
		if _, err := s.RoundTrip(r); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		synctest.Wait()
		counts(t, s, stub.Counts{Left: 1})
	})
}

func TestAnyBodyIsAnswered(t *testing.T) {
	s := mustStub(t, stub.Config{})
	for _, text := range []string{
		"", "null", "[]", "{", "}", `{"stream":"yes"}`, `{"stream":null,"model":7}`, `{"model":["x"],"stream":false}`, "\x00\xff", `{"a":{"stream":true}}`,
		strings.Repeat("[", 100000), `{"model":"` + strings.Repeat("m", 100000) + `"}`,
	} {
		resp, answer := post(t, s, chat, text)
		if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/json" || len(answer) > 1000 {
			t.Errorf("%.40q: %s %.100s", text, resp.Status, answer)
		}
	}
	// The type of one field spoils no other.
	if resp, _ := post(t, s, chat, `{"model":7,"stream":true}`); resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Error(resp.Header)
	}
	r := request(t.Context(), chat, "")
	r.Body, r.Header = nil, nil
	if resp, err := s.RoundTrip(r); err != nil || resp.StatusCode != 200 || r.Header != nil || r.Body != nil {
		t.Error(resp, err, r)
	}
	if _, err := s.RoundTrip(&http.Request{Method: "POST"}); err == nil {
		t.Error("a request without a URL passed")
	}
}

func TestLongBodyOverASocket(t *testing.T) {
	server := httptest.NewServer(mustStub(t, stub.Config{}))
	defer server.Close()
	resp, err := server.Client().Post(server.URL+"/v1/messages", "application/json", io.LimitReader(endless{}, 20<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); !strings.Contains(string(text), `"input_tokens":5242880`) {
		t.Errorf("%s", text)
	}
}
