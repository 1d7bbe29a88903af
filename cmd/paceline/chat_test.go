package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// What a provider streams is printed as text, however it is cut into lines, and
// errors in it are told.
func TestCopyEvents(t *testing.T) {
	openai, anthropic := chatCompletions("max_tokens"), messages()
	for _, c := range []struct {
		api   api
		in    string
		want  string
		ended bool
		err   string
	}{
		{openai, "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\r\n\r\ndata:{\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n: ping\n\ndata: [DONE]\n", "a", false, ""},
		{openai, "data: {\"choices\":[{\"delta\":{\"content\":null,\"refusal\":\"no\\n\"}}]}", "no\n", true, ""},
		{openai, "data: {\"choices\":[],\"usage\":{\"total_tokens\":3}}\n", "", false, ""},
		{openai, "data: {\"error\":{\"message\":\"gone\"}}\n", "", false, "gone"},
		{openai, "data: {\"error\":{\"type\":\"server_error\"}}\n", "", false, "server_error"},
		{openai, "data: {\n", "", false, "JSON"},
		{anthropic, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"b\"}}\n\n", "b", false, ""},
		{anthropic, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n", "", false, "Overloaded"},
		{openai, "", "", false, ""},
	} {
		var out strings.Builder
		ended, err := copyEvents(&out, strings.NewReader(c.in), c.api.event)
		if out.String() != c.want || ended != c.ended || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: %q, ended %v, %v", c.in, out.String(), ended, err)
		}
	}
	full := errors.New("full")
	if _, err := copyEvents(failing{full}, strings.NewReader("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n"), openai.event); err != full {
		t.Errorf("%v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// A question is put in the form that each API wants, and an answer read.
func TestAPIs(t *testing.T) {
	q := question{Model: "m", System: "s", Prompt: "p", Stream: true}
	for _, c := range []struct {
		api    api
		asks   string
		answer string
		cut    bool
	}{
		{chatCompletions("max_completion_tokens"), `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"p"}],"model":"m","stream":true}`,
			`{"choices":[{"message":{"content":"x"},"finish_reason":"length"}]}`, true},
		{messages(), `{"max_tokens":4096,"messages":[{"role":"user","content":"p"}],"model":"m","stream":true,"system":"s"}`,
			`{"content":[{"type":"thinking"},{"type":"text","text":"x"}],"stop_reason":"max_tokens"}`, true},
		{messages(), "", `{"content":[{"type":"text","text":"x"}],"stop_reason":"end_turn"}`, false},
	} {
		b, err := json.Marshal(c.api.body(q))
		if err != nil || c.asks != "" && string(b) != c.asks {
			t.Errorf("asks %s, want %s", b, c.asks)
		}
		if a, err := c.api.answer([]byte(c.answer)); err != nil || a.text != "x" || a.cut != c.cut {
			t.Errorf("%s: %+v, %v", c.answer, a, err)
		}
	}
	if _, err := chatCompletions("n").answer([]byte(`{"error":{"message":"no"}}`)); err == nil || err.Error() != "no" {
		t.Errorf("%v", err)
	}
}

// Whatever comes is text or an error.
func FuzzCopyEvents(f *testing.F) {
	f.Add("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n", false)
	f.Add("event: content_block_delta\ndata: {\"delta\":{\"text\":\"b\\n\"}}\n\n", true)
	f.Add("data: {\"error\":null}\r\n\r\ndata:", false)
	f.Fuzz(func(t *testing.T, in string, anthropic bool) {
		a := chatCompletions("max_tokens")
		if anthropic {
			a = messages()
		}
		var out strings.Builder
		ended, err := copyEvents(&out, strings.NewReader(in), a.event)
		if err == nil && ended != strings.HasSuffix(out.String(), "\n") {
			t.Errorf("%q: ended %v", out.String(), ended)
		}
		_, _ = a.answer([]byte(in))
	})
}
