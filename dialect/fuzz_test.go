package dialect_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/dialect/dialecttest"
)

// FuzzReadHead reads anything with every dialect: whatever a server sends, a
// reading keeps its promises. Headers are lines as on the wire.
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
		f.Add(c.Status, strings.Join(lines, "\n"), c.Body)
	}
	f.Fuzz(func(t *testing.T, status int, lines, body string) {
		h := dialect.Head{Status: status, Header: make(http.Header), Received: time.Date(2026, 10, 4, 12, 0, 0, 0, time.UTC)}
		for line := range strings.SplitSeq(lines, "\n") {
			name, value, _ := strings.Cut(line, ":")
			h.Header[name] = append(h.Header[name], value)
		}
		for _, d := range dialect.All {
			r := d.ReadHead(h, []byte(body))
			if err := dialecttest.Sound(r); err != nil {
				t.Errorf("%s: %v", d.Name, err)
			}
			if again := d.ReadHead(h, []byte(body)); again.Class != r.Class || again.Wait != r.Wait || len(again.Buckets) != len(r.Buckets) {
				t.Errorf("%s reads one answer in two ways:\n%+v\n%+v", d.Name, r, again)
			}
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
