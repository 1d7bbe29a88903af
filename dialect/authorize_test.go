package dialect_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/paceline-proxy/paceline/dialect"
)

func parse(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// A key goes where its provider looks for it.
func TestSetKeyScheme(t *testing.T) {
	for _, tt := range []struct{ dialect, url, key, header, value string }{
		{"openai", "https://api.openai.com/v1/responses", "sk-1", "Authorization", "Bearer sk-1"},
		{"generic", "https://api.groq.com/openai/v1/chat/completions", "gsk_1", "Authorization", "Bearer gsk_1"},
		{"anthropic", "https://api.anthropic.com/v1/messages", "sk-ant-api03-1", "X-Api-Key", "sk-ant-api03-1"},
		{"anthropic", "https://api.anthropic.com/v1/messages", "sk-ant-oat01-1", "Authorization", "Bearer sk-ant-oat01-1"},
		{"generic", "https://generativelanguage.googleapis.com/v1beta/models/g:generateContent", "AIza1", "X-Goog-Api-Key", "AIza1"},
		{"generic", "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions", "AIza1", "Authorization", "Bearer AIza1"},
		{"openai", "https://mine.openai.azure.com/openai/deployments/g/chat/completions", "abc", "Api-Key", "abc"},
		{"azure", "https://mine.openai.azure.com/openai/v1/responses", "eyJhbGciOi.a.b", "Authorization", "Bearer eyJhbGciOi.a.b"},
		{"vertex", "https://l-aiplatform.googleapis.com/v1/x", "ya29.1", "Authorization", "Bearer ya29.1"},
		{"github", "https://models.inference.ai.azure.com/chat/completions", "ghp_1", "Authorization", "Bearer ghp_1"},
	} {
		d, ok := dialect.ByName(tt.dialect)
		if !ok {
			t.Fatal(tt.dialect)
		}
		h := http.Header{}
		d.SetKey(h, parse(t, tt.url), tt.key)
		if len(h) != 1 || h.Get(tt.header) != tt.value {
			t.Errorf("%s at %s: %v, want %s: %s", tt.dialect, tt.url, h, tt.header, tt.value)
		}
	}
}

// BerriAI/litellm#38114, NVIDIA-NeMo/Switchyard#410: whatever credential a
// request came with is taken out, by the name of its header and by its value,
// and nothing else is.
func TestSetKeyTakesSecretsOut(t *testing.T) {
	h := http.Header{
		"Authorization":             {"Bearer canary-bearer-1"},
		"X-Api-Key":                 {"canary-x-api-key"},
		"Api-Key":                   {"canary-api-key"},
		"X-Goog-Api-Key":            {"canary-goog"},
		"Ocp-Apim-Subscription-Key": {"canary-subscription"},
		"Cookie":                    {"session=canary-cookie"},
		"X-Custom-Internal-Secret":  {"canary-secret"},
		"X-Amz-Security-Token":      {"canary-token"},
		"x-auth-thing":              {"canary-lower"},
		"X-Forwarded-Login":         {"user canary-bearer-1"}, // by its value
		"Content-Type":              {"application/json"},
		"Anthropic-Version":         {"2023-06-01"},
		"Anthropic-Beta":            {"prompt-caching-2024-07-31"},
		"Openai-Organization":       {"org-1"},
		"Idempotency-Key":           {"same"},
		"X-Stainless-Lang":          {"js"},
		"User-Agent":                {"an SDK"},
	}
	u := parse(t, "https://user:canary-password@api.openai.com/v1/x?alt=sse&key=canary-key&a=%20b&api_key=canary%2Dother&z")
	dialect.OpenAI.SetKey(h, u, "sk-ours")
	var all strings.Builder
	h.Write(&all)
	if strings.Contains(all.String()+u.String(), "canary") {
		t.Errorf("%s\n%s", u, &all)
	}
	if u.RawQuery != "alt=sse&a=%20b&z" {
		t.Errorf("the query is %q", u.RawQuery)
	}
	for _, name := range []string{"Content-Type", "Anthropic-Version", "Anthropic-Beta", "Openai-Organization", "Idempotency-Key", "X-Stainless-Lang", "User-Agent"} {
		if h.Get(name) == "" {
			t.Errorf("%s is gone", name)
		}
	}
	if h.Get("Authorization") != "Bearer sk-ours" || len(h) != 8 {
		t.Errorf("%v", h)
	}
}

// maximhq/bifrost#3954: an answer that echoes the key does not show it.
func TestHideKey(t *testing.T) {
	h := http.Header{
		"Location": {"https://files.test/1?key=sk-ours-1234"}, "X-Goog-Api-Key": {"sk-ours-1234"},
		"authorization": {"Bearer sk-ours-1234"}, "X-Ratelimit-Limit-Requests": {"60"}, "Retry-After": {"1"},
	}
	dialect.HideKey(h, "sk-ours-1234")
	if len(h) != 2 || h.Get("Retry-After") != "1" {
		t.Errorf("%v", h)
	}
	h.Set("Location", "/1?key="+url.QueryEscape("a+b/c=="))
	if dialect.HideKey(h, "a+b/c=="); len(h) != 2 {
		t.Errorf("%v", h)
	}
}

func FuzzSetKey(f *testing.F) {
	f.Add("X-Api-Key", "canary-key-of-client", "key=canary-key-of-client&a=b")
	f.Add("Authorization", "Bearer canary-key-of-client", "a=%6bey&%6bey=canary-key-of-client")
	f.Fuzz(func(t *testing.T, name, value, query string) {
		h := http.Header{name: {value}, "Api-Key": {"canary-key-of-client"}, "Other": {value}}
		u := &url.URL{Scheme: "https", Host: "api.openai.com", Path: "/v1/x", RawQuery: query}
		dialect.OpenAI.SetKey(h, u, "sk-ours")
		if h.Get("Authorization") != "Bearer sk-ours" {
			t.Errorf("%v", h)
		}
		for name, values := range h {
			if strings.Contains(strings.Join(values, "\n"), "canary-key-of-client") {
				t.Errorf("%s: %q", name, values)
			}
		}
		if u.Query().Get("key") != "" {
			t.Errorf("%q became %q", query, u.RawQuery)
		}
	})
}

// Only the model is replaced, and every byte around it stays.
func TestSetModel(t *testing.T) {
	for _, tt := range []struct{ doc, want string }{
		{`{"model":"a","messages":[{"model":"a"}]}`, `{"model":"b\"/c","messages":[{"model":"a"}]}`},
		{"{ \"x\" : 1 ,\n\t\"model\" : \"a\"  , \"y\":[] }\n", "{ \"x\" : 1 ,\n\t\"model\" : \"b\\\"/c\"  , \"y\":[] }\n"},
		{`{"model":"a","model":"z"}`, `{"model":"b\"/c","model":"b\"/c"}`},
		{`{"model":null}`, `{"model":"b\"/c"}`},
		{`{"model":"a","messages":[{"content":"cut o`, `{"model":"b\"/c","messages":[{"content":"cut o`},
	} {
		got, ok := dialect.SetModel([]byte(tt.doc), `b"/c`)
		if !ok || string(got) != tt.want {
			t.Errorf("%s became %s, want %s", tt.doc, got, tt.want)
		}
	}
	for _, doc := range []string{"", "{}", `["model","a"]`, `{"x":{"model":"a"}}`, `"model"`, "--boundary", `{"model":"a`} {
		if got, ok := dialect.SetModel([]byte(doc), "b"); ok || string(got) != doc {
			t.Errorf("%s became %s, %v", doc, got, ok)
		}
	}
}

func FuzzSetModel(f *testing.F) {
	f.Add([]byte(`{"model":"a","n":1}`))
	f.Add([]byte(`{"a":"\\\"","model" : {"x":[1,"]"]} }`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		before := string(doc)
		got, ok := dialect.SetModel(doc, "the-new-model")
		if string(doc) != before {
			t.Fatalf("the document was changed: %q", doc)
		}
		if !ok && string(got) != before {
			t.Fatalf("%q became %q", before, got)
		}
		if d := dialect.Generic.DemandOf(nil, got); ok && d.Model != "the-new-model" {
			t.Fatalf("%q became %q, which asks for %q", before, got, d.Model)
		}
	})
}
