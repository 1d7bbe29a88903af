package stub_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/stub"
)

const (
	chat       = "http://stub.test/v1/chat/completions"
	responses  = "http://stub.test/v1/responses"
	embeddings = "http://stub.test/v1/embeddings"
	messages   = "http://stub.test/v1/messages"
)

func mustStub(t testing.TB, c stub.Config) *stub.Stub {
	t.Helper()
	s, err := stub.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// request is one to generate something.
func request(ctx context.Context, url, body string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", "application/json")
	return r
}

// post sends one request and reads its whole answer. It may run in any
// goroutine.
func post(t testing.TB, rt http.RoundTripper, url, body string) (*http.Response, string) {
	t.Helper()
	resp, err := rt.RoundTrip(request(context.Background(), url, body))
	if err != nil {
		t.Error(err)
		return &http.Response{Header: http.Header{}}, ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp, string(text)
}

// status sends one request and returns what it got, as one word with the wait
// that was told: "200" or "429 4".
func status(t testing.TB, rt http.RoundTripper) string {
	t.Helper()
	resp, _ := post(t, rt, chat, `{}`)
	text := fmt.Sprint(resp.StatusCode)
	for _, name := range []string{"Retry-After", "Retry-After-Ms"} {
		if told := resp.Header.Get(name); told != "" {
			text += " " + told
		}
	}
	return text
}

// expect sends requests one after the other, all at this instant.
func expect(t testing.TB, s *stub.Stub, want ...string) {
	t.Helper()
	for i, w := range want {
		if got := status(t, s); got != w {
			t.Errorf("request %d of %d at %v: got %q, want %q", i+1, len(want), time.Now().UTC().Format("15:04:05.000000000"), got, w)
		}
	}
}

func counts(t testing.TB, s *stub.Stub, want stub.Counts) {
	t.Helper()
	if got := s.Counts(); got != want {
		t.Errorf("counts\n got %+v\nwant %+v", got, want)
	}
}
