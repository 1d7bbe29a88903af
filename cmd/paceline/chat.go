package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
)

// A question is what run asks a model.
type question struct {
	Model, System, Prompt string
	// MaxTokens bounds the answer. 0: as the provider does.
	MaxTokens int
	Stream    bool
}

// An api is how providers are asked, and how they answer.
type api struct {
	header http.Header
	// key puts an API key into the headers.
	key  func(h http.Header, key string)
	body func(q question) any
	// answer reads an answer, and event one event of a stream of it.
	answer, event func(b []byte) (answer, error)
}

// An answer is a piece of text that a model has written.
type answer struct {
	text string
	// cut: it ended for being as long as it may be.
	cut bool
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// fault is an error as both APIs write it, in a body and in a stream.
type fault struct {
	Error *struct {
		Message string `json:"message"`
		Type    string `json:"type"`
	} `json:"error"`
}

func (f fault) err() error {
	if f.Error == nil {
		return nil
	}
	return errors.New(cmp.Or(f.Error.Message, f.Error.Type, "an error that says nothing"))
}

// faultOf looks for an error in an event of whatever kind.
func faultOf(b []byte) (answer, error) {
	var f fault
	if json.Unmarshal(b, &f) != nil {
		return answer{}, nil // it is not ours to read
	}
	return answer{}, f.err()
}

// chatCompletions is OpenAI's API, which most others have too. limit is what it
// calls the bound of an answer.
func chatCompletions(limit string) api {
	type choice struct {
		Message, Delta struct{ Content, Refusal string }
		FinishReason   string `json:"finish_reason"`
	}
	read := func(b []byte) (a answer, err error) {
		var in struct {
			fault
			Choices []choice
		}
		if err := json.Unmarshal(b, &in); err != nil {
			return a, err
		}
		for _, c := range in.Choices {
			a.text += c.Message.Content + c.Message.Refusal + c.Delta.Content + c.Delta.Refusal
			a.cut = a.cut || c.FinishReason == "length"
		}
		return a, in.err()
	}
	return api{
		header: http.Header{},
		key:    func(h http.Header, key string) { h.Set("Authorization", "Bearer "+key) },
		body: func(q question) any {
			var m []message
			if q.System != "" {
				m = append(m, message{"system", q.System})
			}
			body := map[string]any{"model": q.Model, "messages": append(m, message{"user", q.Prompt})}
			if q.MaxTokens > 0 {
				body[limit] = q.MaxTokens
			}
			if q.Stream {
				body["stream"] = true
			}
			return body
		},
		answer: read,
		event:  read,
	}
}

// usualMaxTokens is the bound where an API wants one and nobody has said any.
const usualMaxTokens = 4096

// messages is Anthropic's API.
func messages() api {
	type text struct{ Type, Text string }
	return api{
		header: http.Header{"Anthropic-Version": {"2023-06-01"}},
		key:    func(h http.Header, key string) { h.Set("X-Api-Key", key) },
		body: func(q question) any {
			body := map[string]any{"model": q.Model, "messages": []message{{"user", q.Prompt}}, "max_tokens": cmp.Or(q.MaxTokens, usualMaxTokens)}
			if q.System != "" {
				body["system"] = q.System
			}
			if q.Stream {
				body["stream"] = true
			}
			return body
		},
		answer: func(b []byte) (a answer, err error) {
			var in struct {
				fault
				Content    []text
				StopReason string `json:"stop_reason"`
			}
			if err := json.Unmarshal(b, &in); err != nil {
				return a, err
			}
			for _, c := range in.Content {
				a.text += c.Text
			}
			a.cut = in.StopReason == "max_tokens"
			return a, in.err()
		},
		event: func(b []byte) (a answer, err error) {
			var in struct {
				fault
				Delta struct{ Text string }
			}
			if err := json.Unmarshal(b, &in); err != nil {
				return a, err
			}
			return answer{text: in.Delta.Text}, in.err()
		},
	}
}

// maxEvent bounds one line of a stream.
const maxEvent = 16 << 20

// copyEvents writes the text of a stream of events as it comes, and reports
// whether the last of it was a line end.
func copyEvents(w io.Writer, r io.Reader, read func([]byte) (answer, error)) (ended bool, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if data = bytes.TrimSpace(data); !ok || len(data) == 0 || string(data) == "[DONE]" {
			continue
		}
		a, err := read(data)
		if err != nil {
			return ended, err
		}
		if a.text == "" {
			continue
		}
		if _, err := io.WriteString(w, a.text); err != nil {
			return ended, err
		}
		ended = strings.HasSuffix(a.text, "\n")
	}
	return ended, lines.Err()
}
