package clients

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/paceline-proxy/paceline/stub"
)

// An sdk is a client library as its users use it: its own transport, retries
// and timeouts.
type sdk struct {
	name string
	apis []string
	// prepare loads the SDK. What it returns does the job.
	prepare func(*testing.T, job) func() []result
	// timeout is whether it has one, and tells whether its requests say so.
	timeout, tells bool
}

var sdks = []sdk{
	{"openai-node", []string{"chat", "responses", "embeddings"}, node("openai"), true, false},
	{"anthropic-node", []string{"messages"}, node("anthropic"), true, true},
	{"ai", []string{"chat", "responses", "messages", "embeddings"}, node("ai"), false, false},
	{"openai-go", []string{"chat", "responses", "embeddings"}, inProcess(openAIGo), true, true},
	{"anthropic-sdk-go", []string{"messages"}, inProcess(anthropicGo), true, true},
}

// A job is what an SDK is to do, one ask after the other. Its JSON is for
// node/client.mjs.
type job struct {
	SDK  string `json:"sdk"`
	Base string `json:"base"`
	// Retries and TimeoutMS are the SDK's own where they are not set.
	Retries   *int  `json:"retries,omitempty"`
	TimeoutMS int   `json:"timeoutMs,omitempty"`
	Asks      []ask `json:"asks"`
}

type ask struct {
	API        string `json:"api"`
	Stream     bool   `json:"stream,omitempty"`
	Model      string `json:"model"`
	Prompt     string `json:"prompt"`
	LeaveAfter int    `json:"leaveAfter,omitempty"` // pieces of a streamed answer
	Base       string `json:"base,omitempty"`       // in place of the job's
}

// A result is what became of one ask.
type result struct {
	Text    string
	Vectors [][]float64
	Pieces  []piece
	Left    int64
	Error   string
	Answers []answer
	Bytes   []byte // of the last answer, as they came
}

type piece struct {
	At   int64 // ms since 1970
	Text string
}

// An answer is one that reached the client, whatever the SDK made of it.
type answer struct {
	Status int
	At     int64
}

func now() int64 { return time.Now().UnixMilli() }

// wire is the transport of an SDK for Go, with what node/client.mjs keeps.
type wire struct {
	answers []answer
	last    *bytes.Buffer
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	w.answers = append(w.answers, answer{resp.StatusCode, now()})
	w.last = &bytes.Buffer{}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.TeeReader(resp.Body, w.last), resp.Body}
	return resp, nil
}

// inProcess makes an sdk of one for Go.
func inProcess(run func(context.Context, job, *http.Client, ask, *result) error) func(*testing.T, job) func() []result {
	return func(t *testing.T, j job) func() []result {
		base := j.Base
		return func() (all []result) {
			for _, a := range j.Asks {
				ctx, leave := context.WithCancel(t.Context())
				w := &wire{}
				var got result
				j.Base = cmp.Or(a.Base, base)
				if err := run(ctx, j, &http.Client{Transport: w}, a, &got); err != nil {
					got.Error = err.Error()
				}
				leave()
				got.Answers = w.answers
				if w.last != nil {
					got.Bytes = w.last.Bytes()
				}
				all = append(all, got)
			}
			return all
		}
	}
}

// A stream is what the streams of both SDKs for Go can do.
type stream[E any] interface {
	Next() bool
	Current() E
	Err() error
	Close() error
}

// read takes the pieces of a streamed answer, and leaves where it is to.
func read[E any](s stream[E], a ask, got *result, text func(E) string) error {
	defer s.Close()
	for s.Next() {
		if said := text(s.Current()); said != "" {
			got.Text += said
			got.Pieces = append(got.Pieces, piece{now(), said})
			if len(got.Pieces) == a.LeaveAfter {
				got.Left = now()
				return nil
			}
		}
	}
	return s.Err()
}

// The keys have the shape of each provider's.
const (
	openAIKey    = "sk-fake-of-the-tests"
	anthropicKey = "sk-ant-fake-of-the-tests"
)

func openAIGo(ctx context.Context, j job, client *http.Client, a ask, got *result) error {
	options := []option.RequestOption{option.WithAPIKey(openAIKey), option.WithBaseURL(j.Base + "/v1"), option.WithHTTPClient(client)}
	if j.Retries != nil {
		options = append(options, option.WithMaxRetries(*j.Retries))
	}
	if j.TimeoutMS > 0 {
		options = append(options, option.WithRequestTimeout(time.Duration(j.TimeoutMS)*time.Millisecond))
	}
	c := openai.NewClient(options...)
	switch a.API {
	case "chat":
		ask := openai.ChatCompletionNewParams{
			Model: a.Model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(a.Prompt)},
		}
		if a.Stream {
			return read(c.Chat.Completions.NewStreaming(ctx, ask), a, got, func(chunk openai.ChatCompletionChunk) string {
				if len(chunk.Choices) == 0 {
					return ""
				}
				return chunk.Choices[0].Delta.Content
			})
		}
		answer, err := c.Chat.Completions.New(ctx, ask)
		if err == nil && len(answer.Choices) == 0 {
			err = fmt.Errorf("an answer without choices: %s", answer.RawJSON())
		}
		if err == nil {
			got.Text = answer.Choices[0].Message.Content
		}
		return err
	case "responses":
		ask := responses.ResponseNewParams{
			Model: a.Model, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(a.Prompt)},
		}
		if a.Stream {
			return read(c.Responses.NewStreaming(ctx, ask), a, got, func(e responses.ResponseStreamEventUnion) string {
				if e.Type != "response.output_text.delta" {
					return ""
				}
				return e.Delta
			})
		}
		answer, err := c.Responses.New(ctx, ask)
		if err == nil {
			got.Text = answer.OutputText()
		}
		return err
	default:
		answer, err := c.Embeddings.New(ctx, openai.EmbeddingNewParams{
			Model: a.Model, Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{a.Prompt, "and another"}},
		})
		if err == nil {
			for _, d := range answer.Data {
				got.Vectors = append(got.Vectors, d.Embedding)
			}
		}
		return err
	}
}

func anthropicGo(ctx context.Context, j job, client *http.Client, a ask, got *result) error {
	options := []anthropicoption.RequestOption{
		anthropicoption.WithAPIKey(anthropicKey), anthropicoption.WithBaseURL(j.Base), anthropicoption.WithHTTPClient(client),
	}
	if j.Retries != nil {
		options = append(options, anthropicoption.WithMaxRetries(*j.Retries))
	}
	if j.TimeoutMS > 0 {
		options = append(options, anthropicoption.WithRequestTimeout(time.Duration(j.TimeoutMS)*time.Millisecond))
	}
	c := anthropic.NewClient(options...)
	ask := anthropic.MessageNewParams{
		Model: anthropic.Model(a.Model), MaxTokens: 100,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(a.Prompt))},
	}
	if a.Stream {
		return read(c.Messages.NewStreaming(ctx, ask), a, got, func(e anthropic.MessageStreamEventUnion) string { return e.Delta.Text })
	}
	answer, err := c.Messages.New(ctx, ask)
	if err == nil && len(answer.Content) == 0 {
		err = fmt.Errorf("an answer without content: %s", answer.RawJSON())
	}
	if err == nil {
		got.Text = answer.Content[0].Text
	}
	return err
}

// each runs a test with every SDK, all at the same time, and with other tests.
func each(t *testing.T, test func(*testing.T, sdk)) {
	t.Helper()
	t.Parallel()
	for _, s := range sdks {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

// does has an SDK do a job of one ask, and fails the test where it fails.
func does(t *testing.T, s sdk, base string, a ask) result {
	t.Helper()
	got := s.prepare(t, job{Base: base, Asks: []ask{a}})()[0]
	if got.Error != "" {
		t.Fatalf("%s: %s", s.name, got.Error)
	}
	return got
}

// say is an ask for a text over the first of an SDK's APIs.
func (s sdk) say(prompt string) ask {
	return ask{API: s.apis[0], Model: stub.Model, Prompt: prompt}
}

func generation(n int) string { return fmt.Sprintf("This is generation %d.", n) }

func statuses(all []answer) string {
	var text []string
	for _, a := range all {
		text = append(text, fmt.Sprint(a.Status))
	}
	return strings.Join(text, " ")
}
