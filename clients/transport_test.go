package clients

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/stub"
)

// virtual is where the stand-in provider lives in virtual time.
const virtual = "http://provider.test/v1"

// thirty is a provider of 30 requests a minute, and what its user declares.
var thirty = []stub.Meter{{Kind: stub.Rolling, Limit: 30, Per: time.Minute}}

func declared() paceline.Provider {
	return paceline.Provider{Name: "provider", BaseURL: virtual, Limits: paceline.Limits{MaxPerMinute: 30}}
}

// overTransport is openai-go as its users make it, over a Transport.
func overTransport(provider http.RoundTripper, p paceline.Provider, more ...option.RequestOption) openai.Client {
	transport := &paceline.Transport{Base: provider, Limiter: memory.New(), Providers: []paceline.Provider{p}}
	return openai.NewClient(append([]option.RequestOption{
		option.WithAPIKey("sk-test"),
		option.WithBaseURL(p.BaseURL),
		option.WithHTTPClient(&http.Client{Transport: transport}),
	}, more...)...)
}

func newStub(t *testing.T, c stub.Config) *stub.Stub {
	t.Helper()
	s, err := stub.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func params() openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:    stub.Model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Say something.")},
	}
}

// call makes the n-th call, named so that the stub recognises a repeat.
func call(client openai.Client, n int) error {
	answer, err := client.Chat.Completions.New(context.Background(), params(),
		option.WithHeader("X-Stub-Request", fmt.Sprint("call ", n)))
	if err != nil {
		return err
	}
	if len(answer.Choices) != 1 || answer.Choices[0].Message.Content == "" {
		return fmt.Errorf("an answer without text: %s", answer.RawJSON())
	}
	return nil
}

// together makes calls first to last at once and reports their errors.
func together(t *testing.T, client openai.Client, first, last int) {
	t.Helper()
	var calls sync.WaitGroup
	for n := first; n <= last; n++ {
		calls.Go(func() {
			if err := call(client, n); err != nil {
				t.Errorf("call %d: %v", n, err)
			}
		})
	}
	calls.Wait()
}

// refusal is a scripted 429 that tells its wait in one form.
func refusal(wait time.Duration, form stub.RetryAfter) stub.Step {
	return stub.Step{Status: http.StatusTooManyRequests, Wait: wait, RetryAfter: form}
}

// P-51, P-76 to P-78: whatever form a refusal tells its wait in, callers of an
// SDK see answers only, nothing is sent into the wait, no window is exceeded,
// and nothing is generated twice.
func TestHundredCallsThroughRefusals(t *testing.T) {
	var script []stub.Step
	for _, r := range []stub.Step{
		refusal(20*time.Second, stub.RetryAfterSeconds),
		refusal(1500*time.Millisecond, stub.RetryAfterMS),
		refusal(45*time.Second, stub.RetryAfterDate),
		refusal(3*time.Second, stub.RetryAfterZero),
		refusal(3*time.Second, stub.RetryAfterNone),
		refusal(3*time.Minute, stub.RetryAfterSeconds),
	} {
		// Some answers from the meters before each.
		script = append(script, make([]stub.Step, 12)...)
		script = append(script, r)
	}
	synctest.Test(t, func(t *testing.T) {
		provider := newStub(t, stub.Config{
			Meters: thirty, Script: script, Jitter: time.Second, Service: 2 * time.Second, Seed: 1,
		})
		together(t, overTransport(provider, declared()), 1, 100)

		c := provider.Counts()
		if c.Admitted != 100 || c.Refused != 6 {
			t.Errorf("admitted %d and refused %d, want 100 and the 6 scripted ones", c.Admitted, c.Refused)
		}
		if c.Repeated > 0 || c.Early > 0 || c.PeakWindow > 30 {
			t.Errorf("%d generations repeated, %d requests early, %d in one minute; want 0, 0, at most 30", c.Repeated, c.Early, c.PeakWindow)
		}
		if n := mostWithin(provider.Arrivals(), time.Minute); n > 30 {
			t.Errorf("%d requests arrived within a minute, refused ones included; want at most 30", n)
		}
	})
}

// mostWithin is the most arrivals in any span of per, open at its end.
func mostWithin(arrivals []stub.Arrival, per time.Duration) (most int) {
	first := 0
	for i, a := range arrivals {
		for !arrivals[first].At.After(a.At.Add(-per)) {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// The head of a streamed answer is not held up, and its events come one by
// one at the instants the provider sends them.
func TestStreamedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := newStub(t, stub.Config{
			Meters: thirty, Service: 10 * time.Second,
			Script: []stub.Step{refusal(4*time.Second, stub.RetryAfterSeconds)},
		})
		client := overTransport(provider, declared())
		start := time.Now()
		answer := client.Chat.Completions.NewStreaming(context.Background(), params())
		text, pieces := "", []time.Duration(nil)
		for answer.Next() {
			for _, c := range answer.Current().Choices {
				if c.Delta.Content != "" {
					text += c.Delta.Content
					pieces = append(pieces, time.Since(start))
				}
			}
		}
		if err := answer.Err(); err != nil {
			t.Fatal(err)
		}
		if text != "This is generation 1." {
			t.Errorf("the text is %q", text)
		}
		want := fmt.Sprint([]time.Duration{6e9, 8e9, 10e9, 12e9, 14e9})
		if got := fmt.Sprint(pieces); got != want {
			t.Errorf("pieces came at %s; want %s", got, want)
		}
	})
}

// x-should-retry: false on a refusal that is handed back stops the retries the
// SDK would make by itself: the provider sees our tries and no more.
func TestRetriesDoNotMultiply(t *testing.T) {
	script := make([]stub.Step, 50)
	for i := range script {
		script[i] = refusal(time.Second, stub.RetryAfterSeconds)
	}
	for _, tc := range []struct {
		name   string
		client func(provider http.RoundTripper) openai.Client
		want   int
	}{
		{"through paceline", func(provider http.RoundTripper) openai.Client {
			p := declared()
			p.Retry.Max = 3
			return overTransport(provider, p) // with the SDK's own two retries, its default
		}, 4},
		{"the SDK alone", func(provider http.RoundTripper) openai.Client {
			return openai.NewClient(option.WithAPIKey("sk-test"), option.WithBaseURL(virtual),
				option.WithHTTPClient(&http.Client{Transport: provider}))
		}, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				provider := newStub(t, stub.Config{Script: script})
				err := call(tc.client(provider), 1)
				refused, ok := errors.AsType[*openai.Error](err)
				if !ok || refused.StatusCode != http.StatusTooManyRequests {
					t.Errorf("the error is %v; want the provider's 429", err)
				}
				if n := provider.Counts().Refused; n != tc.want {
					t.Errorf("the provider saw %d requests; want %d", n, tc.want)
				}
			})
		})
	}
}

// The same over real sockets, short.
func TestRealServer(t *testing.T) {
	provider := newStub(t, stub.Config{
		Meters:  []stub.Meter{{Kind: stub.Bucket, Limit: 10, Per: time.Second, Burst: 3}},
		Service: 20 * time.Millisecond,
		Script:  []stub.Step{{}, {}, refusal(300*time.Millisecond, stub.RetryAfterMS)},
	})
	server := httptest.NewServer(provider)
	defer server.Close()
	p := paceline.Provider{
		Name: "provider", BaseURL: server.URL + "/v1",
		// One start in 125 ms, so that a moment's delay on the way is no burst.
		Limits: paceline.Limits{MaxPerSecond: 8},
	}
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	together(t, overTransport(base, p), 1, 16)
	if c := provider.Counts(); c.Admitted != 16 || c.Repeated > 0 {
		t.Errorf("admitted %d, %d repeated; want 16 and 0", c.Admitted, c.Repeated)
	}
}
