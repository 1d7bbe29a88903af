package dialect_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/dialect/dialecttest"
)

// FuzzReadHead reads anything with every dialect: whatever a server sends, a
// reading keeps its promises, and one answer has one reading. Headers are lines as on the wire.
func FuzzReadHead(f *testing.F) {
	cases, err := dialecttest.Load(os.DirFS("testdata/cases"))
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range cases {
		var lines []string
		for name, values := range c.Headers {
			for _, v := range values {
				lines = append(lines, name+": "+v)
			}
		}
		for i, d := range dialect.All {
			if other, _ := dialect.ByName(c.Provider); d == other || d == dialect.Generic {
				f.Add(uint8(i), c.Status, strings.Join(lines, "\n"), c.Body)
			}
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, status int, lines, body string) {
		h := dialect.Head{Status: status, Header: make(http.Header), Received: noon}
		for line := range strings.SplitSeq(lines, "\n") {
			name, value, _ := strings.Cut(line, ":")
			h.Header[name] = append(h.Header[name], value)
		}
		d := dialect.All[int(which)%len(dialect.All)]
		r := d.ReadHead(h, []byte(body))
		if err := dialecttest.Sound(r); err != nil {
			t.Errorf("%s: %v", d.Name, err)
		}
		if again := d.ReadHead(h, []byte(body)); !reflect.DeepEqual(again, r) {
			t.Errorf("%s reads one answer in two ways:\n%+v\n%+v", d.Name, r, again)
		}
	})
}

// FuzzAnswer takes anything for an answer of success, and for the words that a
// model says: generated words are never a refusal.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{
		`{"error":{"code":429}}`, `[{"error":{}}]`, "event: error\ndata: {\"error\":1}\n\n", ": x\r\n\r\ndata: {\"type\":\"ping\"}\r\n\r\n",
		`{"choices":[],"error":{"message":"rate limit"}}`, `{"errors":[{"type":"RATE_LIMITED"}]}`,
	} {
		f.Add("application/json", []byte(body))
		f.Add("text/event-stream", []byte(body))
	}
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		read := func(contentType string, body []byte) dialect.Reading {
			h := dialect.Head{Status: 200, Header: http.Header{"Content-Type": {contentType}}, Received: noon}
			r := dialect.Generic.ReadHead(h, body)
			if err := dialecttest.Sound(r); err != nil {
				t.Error(err)
			}
			return r
		}
		read(contentType, body)
		said, err := json.Marshal(string(body))
		if err != nil {
			t.Fatal(err)
		}
		for _, answer := range []string{
			`{"choices":[{"message":{"content":%s}}]}`, `{"error":null,"output":[{"content":[{"text":%s}]}]}`, `{"type":"message","content":[{"text":%s}]}`,
			"data: {\"choices\":[{\"delta\":{\"content\":%s}}]}\n\n",
			"event: message_start\ndata: {\"type\":\"message_start\"}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":%s}}\n\n",
		} {
			for _, contentType := range []string{"", "application/json", "text/event-stream"} {
				whole := fmt.Appendf(nil, answer, said)
				if r := read(contentType, whole); r.Class != dialect.OK {
					t.Errorf("%s is %s (%s)", whole, r.Class, r.Why)
				}
				if r := read(contentType, whole[:len(whole)/2]); r.Class != dialect.OK {
					t.Errorf("half of %s is %s (%s)", whole, r.Class, r.Why)
				}
			}
		}
	})
}

// FuzzByHost takes anything for a host.
func FuzzByHost(f *testing.F) {
	for _, d := range dialect.All {
		for _, host := range d.Hosts {
			f.Add(host)
		}
	}
	f.Add("[::1]:80")
	f.Fuzz(func(t *testing.T, host string) {
		if dialect.ByHost(host) == nil {
			t.Error(host)
		}
	})
}

// FuzzDemandOf takes any body for a request's. Where it is JSON, the one pass
// over it finds what a tree of it shows.
func FuzzDemandOf(f *testing.F) {
	for _, body := range []string{
		`{"model":"m","stream":true,"max_tokens":5,"messages":[{"a":"\"]"}]}`,
		`{"generationConfig":{"maxOutputTokens":7}}`, `{"model":"`, `{"a":[[[`, `{"a\`, `"`, ``, `{"max_tokens":-1}`,
		`{"messages":[{"role":"user","content":"a long text with \\ and \" in it, longer than it was"},{"role":"assistant"}]}`,
		`{"model":"a","model":{"b":["c"]} , "stream":true }`, `{"metadata":{"user_id":"u"},"x":{"role":"assistant"}}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, d := range dialect.All {
			if got := d.DemandOf(nil, body); got.Input < 0 || got.Output < 0 {
				t.Errorf("%s: %+v", d.Name, got)
			}
		}
		var tree map[string]any
		if !json.Valid(body) || json.Unmarshal(body, &tree) != nil || bytes.Contains(body, []byte(`\u`)) || !utf8.Valid(body) {
			return // names are compared as they are written
		}
		got := dialect.Generic.DemandOf(nil, body)
		if s, ok := tree["model"].(string); ok && len(s) < 100 && got.Model != s {
			t.Errorf("%q: model %q, want %q", body, got.Model, s)
		}
		if s, ok := tree["stream"].(bool); ok && got.Stream != s {
			t.Errorf("%q: stream is %v", body, got.Stream)
		}
		list, _ := tree["messages"].([]any)
		for _, m := range list {
			if o, ok := m.(map[string]any); ok && o["role"] == "assistant" && !got.Later {
				t.Errorf("%q: an answer in it is not seen", body)
			}
		}
	})
}
