package dialect

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestKindOf(t *testing.T) {
	for _, c := range []struct {
		method, path string
		want         Kind
	}{
		{"POST", "/v1/chat/completions", Inference},
		{"POST", "/v1/completions/", Inference},
		{"POST", "/v1/responses", Inference},
		{"POST", "/v1/messages", Inference},
		{"POST", "/v1/embeddings", Inference},
		{"POST", "/v1/images/generations", Inference},
		{"POST", "/v1/audio/transcriptions", Inference},
		{"POST", "/openai/deployments/d/chat/completions?api-version=1", Inference},
		{"POST", "/v1beta/models/gemini-2.5-pro:generateContent", Inference},
		{"POST", "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse", Inference},
		{"POST", "/v1beta/models/gemini-2.5-pro:countTokens", Other},
		{"POST", "/v1/messages/count_tokens", Other},
		{"POST", "/v1/messages/batches", Other},
		{"POST", "/v1/threads/t/messages", Other},
		{"POST", "/v1/files", Other},
		{"GET", "/v1/batches/b", Other},
		{"GET", "/v1/responses/r", Other},
		{"GET", "/v1/models", Catalog},
		{"GET", "/v1/models/", Catalog},
		{"GET", "/v1/models/org/name", Catalog},
		{"HEAD", "/health", Catalog},
		{"GET", "/", Other},
		{"DELETE", "/v1/models/m", Other},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		if got := OpenAI.KindOf(r); got != c.want {
			t.Errorf("%s %s is %d, want %d", c.method, c.path, got, c.want)
		}
	}
}

func TestDemandOf(t *testing.T) {
	for _, c := range []struct {
		name, body string
		model      string
		stream     bool
		output     int
	}{
		{"chat", `{"model":"gpt-x","stream":true,"max_tokens":100,"messages":[{"model":"inner","max_tokens":9}]}`, "gpt-x", true, 100},
		{"newer name", `{"max_completion_tokens" : 200, "model" : "m"}`, "m", false, 200},
		{"responses", `{"input":"{\"model\":\"no\"}","max_output_tokens":300,"model":"m"}`, "m", false, 300},
		{"gemini", `{"contents":[],"generationConfig":{"maxOutputTokens":77}}`, "", false, 77},
		{"escapes", `{"a\"b":"\\","model":"\u006d\"x"}`, `m"x`, false, 0},
		{"cut after the model", `{"model":"m","messages":[{"content":"abc`, "m", false, 0},
		{"cut in the model", `{"model":"m`, "", false, 0},
		{"no JSON", `--boundary\r\n`, "", false, 0},
		{"a list", `[{"model":"m"}]`, "", false, 0},
		{"wrong types", `{"model":5,"stream":"true","max_tokens":"9"}`, "", false, 0},
		{"absurd numbers", `{"max_tokens":-5,"max_output_tokens":1e9,"max_completion_tokens":99999999999}`, "", false, 0},
	} {
		d := OpenAI.DemandOf(httptest.NewRequest("POST", "/v1/chat/completions", nil), []byte(c.body))
		want := Demand{Model: c.model, Stream: c.stream, Input: len(c.body) / 4, Output: c.output}
		if d != want {
			t.Errorf("%s: %+v, want %+v", c.name, d, want)
		}
	}
}

func TestDemandFromThePath(t *testing.T) {
	r := httptest.NewRequest("POST", "/v1beta/models/gemini-2.5-pro:streamGenerateContent", strings.NewReader("12345678"))
	if d := Generic.DemandOf(r, nil); d != (Demand{Model: "gemini-2.5-pro", Stream: true, Input: 2}) {
		t.Errorf("%+v", d)
	}
}

// A nil Dialect, a zero one, a nil request: all read as the usual thing.
func TestNilIsUsual(t *testing.T) {
	for _, d := range []*Dialect{nil, {}} {
		d.DemandOf(nil, nil)
		d.DemandOf(&http.Request{}, []byte("{"))
		if d.KindOf(nil) != Other || d.KindOf(&http.Request{}) != Other {
			t.Error("a request without a URL generates nothing")
		}
		if d.CredentialOf(nil, nil) != "" {
			t.Error("a credential out of nothing")
		}
		if r := d.ReadHead(Head{Status: 429}, nil); r.Class != RateLimited {
			t.Errorf("%+v", r)
		}
	}
}

func TestCredentialOf(t *testing.T) {
	jwt := func(claims, signature string) string {
		enc := base64.RawURLEncoding.EncodeToString
		return enc([]byte(`{"alg":"RS256"}`)) + "." + enc([]byte(claims)) + "." + signature
	}
	first := OpenAI.CredentialOf(http.Header{"Authorization": {"Bearer " + jwt(`{"iss":"i","sub":"s","exp":1}`, "aa")}}, nil)
	second := OpenAI.CredentialOf(http.Header{"Authorization": {"bearer " + jwt(`{"iss":"i","sub":"s","exp":2}`, "bb")}}, nil)
	other := OpenAI.CredentialOf(http.Header{"Authorization": {"Bearer " + jwt(`{"iss":"i","sub":"t","exp":2}`, "bb")}}, nil)
	if first != second || first == other || first == "" {
		t.Errorf("%q, %q, %q", first, second, other)
	}
	query := &url.URL{RawQuery: "key=from-query"}
	for _, c := range []struct {
		header, value, want string
	}{
		{"Authorization", "Bearer sk-1", "sk-1"},
		{"Authorization", "Bearer a.b.c", "a.b.c"},
		{"Authorization", "Bearer", "from-query"},
		{"Authorization", "sk-bare", "sk-bare"},
		{"X-Api-Key", "sk-2", "sk-2"},
		{"Api-Key", "sk-3", "sk-3"},
		{"X-Goog-Api-Key", "sk-4", "sk-4"},
		{"Accept", "*/*", "from-query"},
	} {
		if got := Generic.CredentialOf(http.Header{c.header: {c.value}}, query); got != c.want {
			t.Errorf("%s: %s gives %q", c.header, c.value, got)
		}
	}
}

// A hundred megabytes of image, of brackets or of quotes must not hold up the
// request they stand in.
func BenchmarkDemand(b *testing.B) {
	for name, filler := range map[string]string{"image": "A", "brackets": "[", "escapes": `\\`, "quotes": `"",`} {
		body := append([]byte(`{"model":"m","input":["`), bytes.Repeat([]byte(filler), 16<<20/len(filler))...)
		if name == "brackets" || name == "quotes" {
			body[len(`{"model":"m","input":[`)] = ' '
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				OpenAI.DemandOf(nil, body)
			}
		})
	}
}
