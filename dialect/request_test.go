package dialect

import (
	"encoding/base64"
	"encoding/json"
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

// Each provider's own paths, at its own host.
func TestKindOfProviders(t *testing.T) {
	for _, c := range []struct {
		d           *Dialect
		method, url string
		want        Kind
	}{
		{Azure, "POST", "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=1", Inference},
		{Azure, "POST", "https://r.openai.azure.com/openai/v1/responses", Inference},
		{Azure, "POST", "https://r.services.ai.azure.com/anthropic/v1/messages", Inference},
		{Azure, "POST", "https://r.openai.azure.com/openai/files", Other},
		{Gemini, "POST", "https://generativelanguage.googleapis.com/v1beta/models/g:streamGenerateContent?alt=sse", Inference},
		{Gemini, "POST", "https://generativelanguage.googleapis.com/v1beta/models/g:predictLongRunning", Inference},
		{Gemini, "POST", "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions", Inference},
		{Gemini, "POST", "https://generativelanguage.googleapis.com/v1beta/models/g:countTokens", Other},
		{Gemini, "GET", "https://generativelanguage.googleapis.com/v1beta/models", Catalog},
		{Vertex, "POST", "https://l-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/anthropic/models/c:streamRawPredict", Inference},
		{Vertex, "POST", "https://l-aiplatform.googleapis.com/v1/projects/p/locations/l/endpoints/1:predict", Inference},
		{Bedrock, "POST", "https://bedrock-runtime.r.amazonaws.com/model/m/converse", Inference},
		{Bedrock, "POST", "https://bedrock-runtime.r.amazonaws.com/model/m/converse-stream", Inference},
		{Bedrock, "POST", "https://bedrock-runtime.r.amazonaws.com/model/m/invoke-with-response-stream", Inference},
		{Bedrock, "POST", "https://bedrock-runtime.r.amazonaws.com/model/m/count-tokens", Other},
		{OpenRouter, "GET", "https://openrouter.ai/api/v1/key", Catalog},
		{OpenRouter, "POST", "https://openrouter.ai/api/v1/key", Other},
		{Cohere, "POST", "https://api.cohere.com/v2/chat", Inference},
		{Cohere, "POST", "https://api.cohere.com/v1/embed", Inference},
		{Cohere, "POST", "https://api.cohere.com/v2/rerank", Inference},
		{Cohere, "POST", "https://api.cohere.com/v1/classify", Inference},
		{Cohere, "POST", "https://api.cohere.com/v1/tokenize", Other},
		{HuggingFace, "POST", "https://router.huggingface.co/hf-inference/models/org/name", Inference},
		{HuggingFace, "POST", "https://x.r.aws.endpoints.huggingface.cloud/", Inference},
		{HuggingFace, "GET", "https://huggingface.co/api/models/org/name", Inference},
		{HuggingFace, "GET", "https://router.huggingface.co/v1/models", Catalog},
		{GitHub, "GET", "https://api.github.com/repos/o/r/issues", Inference},
		{GitHub, "GET", "https://api.github.com/rate_limit", Catalog},
		{GitHub, "GET", "https://models.github.ai/catalog/models", Catalog},
		{GitHub, "POST", "https://models.github.ai/inference/chat/completions", Inference},
		{Cloudflare, "POST", "https://api.cloudflare.com/client/v4/accounts/a/ai/run/@cf/meta/m", Inference},
		{Cloudflare, "GET", "https://api.cloudflare.com/client/v4/zones", Other},
		{Ollama, "POST", "http://localhost:11434/api/chat", Inference},
		{Ollama, "POST", "http://localhost:11434/api/generate", Inference},
		{Ollama, "POST", "http://localhost:11434/api/show", Catalog},
		{Ollama, "GET", "http://localhost:11434/api/ps", Catalog},
		{Ollama, "POST", "http://localhost:11434/api/pull", Other},
		{LlamaCpp, "POST", "http://localhost:8080/completion", Inference},
		{LlamaCpp, "GET", "http://localhost:8080/props", Catalog},
		{VLLM, "POST", "http://localhost:8000/score", Inference},
		{BrightData, "POST", "https://api.brightdata.com/datasets/v3/trigger?dataset_id=1", Inference},
		{BrightData, "GET", "https://api.brightdata.com/datasets/v3/progress/1", Other},
	} {
		if got := c.d.KindOf(httptest.NewRequest(c.method, c.url, nil)); got != c.want {
			t.Errorf("%s: %s %s is %d, want %d", c.d.Name, c.method, c.url, got, c.want)
		}
	}
}

// What has been begun or changed must not be again; what a provider reserves
// where a request names no maximum is what it allows.
func TestDemandOfProviders(t *testing.T) {
	for _, c := range []struct {
		d           *Dialect
		method, url string
		job         bool
		output      int
	}{
		{GitHub, "GET", "https://api.github.com/repos/o/r/issues", false, 0},
		{GitHub, "POST", "https://api.github.com/repos/o/r/issues", true, 0},
		{GitHub, "POST", "https://models.github.ai/inference/chat/completions", false, 0},
		{BrightData, "POST", "https://api.brightdata.com/datasets/v3/trigger?dataset_id=1", true, 0},
		{BrightData, "POST", "https://api.brightdata.com/request", false, 0},
		{Gemini, "POST", "https://generativelanguage.googleapis.com/v1beta/models/g:predictLongRunning", true, 0},
		// dcdpr/jp#1085: Cerebras takes 16,384 for what is not said.
		{Cerebras, "POST", "https://api.cerebras.ai/v1/chat/completions", false, 16384},
		{Cerebras, "GET", "https://api.cerebras.ai/v1/models", false, 0},
	} {
		d := c.d.DemandOf(httptest.NewRequest(c.method, c.url, nil), []byte("{}"))
		if d.Job != c.job || d.Output != c.output {
			t.Errorf("%s: %s %s: %+v, want job %v, output %d", c.d.Name, c.method, c.url, d, c.job, c.output)
		}
	}
	if d := Cerebras.DemandOf(nil, []byte(`{"max_completion_tokens":9}`)); d.Output != 9 {
		t.Errorf("%+v", d)
	}
}

func TestDemandOf(t *testing.T) {
	long := strings.Repeat("iVBORw0KGgo/", 1000) // base64 of 12,000 bytes
	form := "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhisper-x\r\n--b\r\n" +
		"Content-Disposition: form-data; name=\"stream\"\r\n\r\ntrue\r\n--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n" + strings.Repeat("\x00", 6400)
	for _, c := range []struct {
		name, body string
		want       Demand
		input      int // 0: a quarter of the body's length
	}{
		{"chat", `{"model":"gpt-x","stream":true,"max_tokens":100,"messages":[{"model":"inner","max_tokens":9}]}`, Demand{Model: "gpt-x", Stream: true, Output: 100}, 0},
		{"newer name", `{"max_completion_tokens" : 200, "model" : "m"}`, Demand{Model: "m", Output: 200}, 0},
		{"responses", `{"input":"{\"model\":\"no\"}","max_output_tokens":300,"model":"m"}`, Demand{Model: "m", Output: 300}, 0},
		{"gemini", `{"contents":[],"generationConfig":{"maxOutputTokens":77,"candidateCount":2}}`, Demand{Output: 154}, 0},
		{"bedrock", `{"messages":[],"inferenceConfig":{"temperature":1,"maxTokens":512}}`, Demand{Output: 512}, 0},
		{"titan", `{"inputText":"","textGenerationConfig":{"maxTokenCount":9}}`, Demand{Output: 9}, 0},
		{"llama on bedrock", `{"prompt":"","max_gen_len":9}`, Demand{Output: 9}, 0},
		{"older anthropic", `{"prompt":"","max_tokens_to_sample":9}`, Demand{Output: 9}, 0},
		{"ollama", `{"model":"m","options":{"num_predict":9}}`, Demand{Model: "m", Output: 9}, 0},
		{"ollama without end", `{"model":"m","options":{"num_predict":-1}}`, Demand{Model: "m"}, 0},
		{"llama.cpp", `{"prompt":"","n_predict":9}`, Demand{Output: 9}, 0},
		{"text generation inference", `{"inputs":"","parameters":{"max_new_tokens":9}}`, Demand{Output: 9}, 0},
		{"several answers", `{"model":"m","n":3,"max_tokens":100}`, Demand{Model: "m", Output: 300}, 0},
		{"a video", `{"model":"m","background":true}`, Demand{Model: "m", Job: true}, 0},
		{"escapes", `{"a\"b":"\\","model":"\u006d\"x"}`, Demand{Model: `m"x`}, 0},
		{"cut after the model", `{"model":"m","messages":[{"content":"abc`, Demand{Model: "m"}, 0},
		{"cut in the model", `{"model":"m`, Demand{}, 0},
		{"no JSON", "model=m&stream=true", Demand{}, 0},
		{"a form", form, Demand{Model: "whisper-x", Stream: true}, len(form) / 64},
		{"a form cut in the model", "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n" + strings.Repeat("w", 64), Demand{}, 1},
		{"a list", `[{"model":"m"}]`, Demand{}, 0},
		{"wrong types", `{"model":5,"stream":"true","max_tokens":"9","n":"2"}`, Demand{}, 0},
		{"absurd numbers", `{"max_tokens":-5,"max_output_tokens":1e9,"max_completion_tokens":99999999999}`, Demand{}, 0},
		{"no value", `{"stream":}`, Demand{}, 0},

		{"first of a conversation", `{"messages":[{"role":"system","content":"assistant"},{"role":"user","content":[{"role":"assistant"}]}]}`, Demand{}, 0},
		{"later", `{"messages": [ {"role" : "user","content":"x"}, {"content":"y","role" : "assistant"} ] }`, Demand{Later: true}, 0},
		{"later at Gemini", `{"contents":[{"role":"user","parts":[]},{"role":"model","parts":[]}]}`, Demand{Later: true}, 0},
		{"later at Cohere", `{"chat_history":[{"role":"USER","message":"x"},{"role":"CHATBOT","message":"y"}]}`, Demand{Later: true}, 0},
		{"later by reference", `{"previous_response_id":"resp_1","input":"go on"}`, Demand{Later: true}, 0},
		{"later by null", `{"previous_response_id":null,"input":"go on"}`, Demand{}, 0},
		{"later by a call", `{"input":[{"role":"user","content":"x"},{"type":"function_call","name":"f"}]}`, Demand{Later: true}, 0},
		{"tools are no calls", `{"input":[{"type":"message","role":"user"}],"tools":[{"type":"function"},{"type":"x_call"}]}`, Demand{}, 0},
		{"cache key", `{"metadata":{"user_id":"u"},"prompt_cache_key":"k"}`, Demand{Conversation: "k"}, 0},
		{"user id", `{"metadata":{"user_id":"u","x":[1]},"model":"m"}`, Demand{Model: "m", Conversation: "u"}, 0},

		{"an image", `{"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + long + `"}}]}]}`, Demand{}, 17 + 1000},
		{"an image at Anthropic", `{"messages":[{"content":[{"type":"image","source":{"media_type":"image/png","data":"` + long + `"}}]}]}`, Demand{}, 22 + 1000},
		{"an image at Gemini", `{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data":"` + long + `"}}]}]}`, Demand{}, 18 + 1000},
		{"images at Ollama", `{"messages":[{"images":["` + long + `", "` + long + `"]}]}`, Demand{}, 7 + 2000},
		{"an image at the top", `{"image":"data:image/jpeg;base64,` + long + `"}`, Demand{}, 2 + 1000},
		{"a cut image", `{"image":[{"x":"data:image/jpeg;base64,` + long, Demand{}, 3 + 1000},
		{"an image elsewhere", `{"messages":[{"content":[{"type":"image_url","image_url":{"url":"https://images.test/1.png"}}]}]}`, Demand{}, 24 + 1000},
		{"a document", `{"messages":[{"content":[{"type":"document","source":{"data":"JVBER` + long + `"}}]}]}`, Demand{}, 16 + 12007/64},
		{"a long word", `{"prompt":"` + strings.Repeat("word, ", 1000) + `"}`, Demand{}, 0},
		{"a text in a data URL", `{"prompt":"data:text/plain,` + long + `"}`, Demand{}, 0},
	} {
		d := OpenAI.DemandOf(httptest.NewRequest("POST", "/v1/chat/completions", nil), []byte(c.body))
		if c.want.Input = c.input; c.input == 0 {
			c.want.Input = len(c.body) / 4
		}
		if d != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, d, c.want)
		}
	}
}

func TestDemandFromThePath(t *testing.T) {
	for path, want := range map[string]Demand{
		"/v1beta/models/gemini-2.5-pro:streamGenerateContent":                                            {Model: "gemini-2.5-pro", Stream: true},
		"/v1/projects/p/locations/global/publishers/anthropic/models/claude-x@20250514:streamRawPredict": {Model: "claude-x@20250514", Stream: true},
		"/v1/projects/p/locations/l/endpoints/123:predict":                                               {Model: "123"},
		"/openai/deployments/mine/chat/completions?api-version=1":                                        {Model: "mine"},
		"/model/anthropic.claude-x-v2:0/converse-stream":                                                 {Model: "anthropic.claude-x-v2:0", Stream: true},
		"/model/anthropic.claude-x-v2:0/invoke-with-response-stream":                                     {Model: "anthropic.claude-x-v2:0", Stream: true},
		"/model/arn%3Aaws%3Abedrock%3Ar%3A1%3Aapplication-inference-profile%2Fp/invoke":                  {Model: "arn:aws:bedrock:r:1:application-inference-profile/p"},
		"/client/v4/accounts/a/ai/run/@cf/meta/llama-x":                                                  {Model: "@cf/meta/llama-x"},
		"/hf-inference/models/org/name":                                                                  {Model: "org/name"},
		"/models/org/name/v1/chat/completions":                                                           {Model: "org/name"},
		"/v1/chat/completions":                                                                           {Model: "in-the-body"},
		"/v1/videos":                                                                                     {Model: "in-the-body", Job: true},
	} {
		body := `{"model":"in-the-body"}`
		want.Input = len(body) / 4
		if d := Generic.DemandOf(httptest.NewRequest("POST", path, nil), []byte(body)); d != want {
			t.Errorf("%s: %+v, want %+v", path, d, want)
		}
	}
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

// What is replaced by the hour, or differs from request to request, is not what
// a credential is known by.
func TestCredentialOfProviders(t *testing.T) {
	enc := base64.RawURLEncoding.EncodeToString
	jwt := func(n string) string {
		return "Bearer " + enc([]byte(`{"alg":"RS256"}`)) + "." + enc([]byte(`{"iss":"i","sub":"s","n":`+n+`}`)) + ".aa"
	}
	signed := func(id, more string) string {
		return "AWS4-HMAC-SHA256 Credential=" + id + "/20261004/us-east-1/bedrock/aws4_request, SignedHeaders=host, Signature=" + more
	}
	const vertex = "https://l-aiplatform.googleapis.com/v1/projects/"
	type request struct{ url, header, value, account string }
	for _, c := range []struct {
		name        string
		d           *Dialect
		first, next request
		same        bool
	}{
		{"a signature", Bedrock, request{"https://b.test/", "Authorization", signed("AKIDONE", "aa"), ""}, request{"https://b.test/", "Authorization", signed("AKIDONE", "bb"), ""}, true},
		{"another key's", Bedrock, request{"https://b.test/", "Authorization", signed("AKIDONE", "aa"), ""}, request{"https://b.test/", "Authorization", signed("AKIDTWO", "aa"), ""}, false},
		{"in the query", Bedrock, request{"https://b.test/?X-Amz-Credential=AKIDONE%2F20261004%2Fx&X-Amz-Signature=aa", "", "", ""}, request{"https://b.test/", "Authorization", signed("AKIDONE", "bb"), ""}, true},
		{"a project's tokens", Vertex, request{vertex + "p/locations/l/x", "Authorization", "Bearer ya29.aa", ""}, request{vertex + "p/locations/l/y", "Authorization", "Bearer ya29.bb", ""}, true},
		{"in two places", Vertex, request{vertex + "p/locations/l/x", "Authorization", "Bearer ya29.aa", ""}, request{vertex + "p/locations/m/x", "Authorization", "Bearer ya29.aa", ""}, false},
		{"keys at Google", Gemini, request{"https://g.test/?key=AIza1", "", "", ""}, request{"https://g.test/", "X-Goog-Api-Key", "AIza1", ""}, true},
		{"tokens of nobody knows whom", Gemini, request{"https://g.test/", "Authorization", "Bearer ya29.aa", ""}, request{"https://g.test/", "Authorization", "Bearer ya29.bb", ""}, false},
		{"who signed in at ChatGPT", Codex, request{"https://chatgpt.com/", "Authorization", jwt("1"), "acc-1"}, request{"https://chatgpt.com/", "Authorization", jwt("2"), "acc-1"}, true},
		{"for another account", Codex, request{"https://chatgpt.com/", "Authorization", jwt("1"), "acc-1"}, request{"https://chatgpt.com/", "Authorization", jwt("1"), "acc-2"}, false},
		{"an account's opaque tokens", Codex, request{"https://chatgpt.com/", "Authorization", "Bearer aa", "acc-1"}, request{"https://chatgpt.com/", "Authorization", "Bearer bb", "acc-1"}, true},
	} {
		id := func(r request) string {
			u, err := url.Parse(r.url)
			if err != nil {
				t.Fatal(err)
			}
			h := http.Header{}
			if r.header != "" {
				h.Set(r.header, r.value)
			}
			if r.account != "" {
				h.Set("chatgpt-account-id", r.account)
			}
			return c.d.CredentialOf(h, u)
		}
		first, next := id(c.first), id(c.next)
		if first == "" || (first == next) != c.same {
			t.Errorf("%s: %q and %q", c.name, first, next)
		}
	}
}

// Claude Code's tokens are replaced every few hours: the body says whose they are.
func TestAccountInTheBody(t *testing.T) {
	const account = "01234567-89ab-cdef-0123-456789abcdef"
	for user, want := range map[string]string{
		"user_00ff_account_" + account + "_session_11111111-2222-3333-4444-555555555555":                                        account,
		`{\"device_id\":\"00ff\",\"account_uuid\":\"` + account + `\",\"session_id\":\"11111111-2222-3333-4444-555555555555\"}`: account,
		"user_00ff_account__session_11111111-2222-3333-4444-555555555555":                                                       "",
		"alice": "",
	} {
		body := []byte(`{"model":"m","metadata":{"user_id":"` + user + `"}}`)
		r := httptest.NewRequest("POST", "/v1/messages", nil)
		r.Header.Set("Authorization", "Bearer sk-ant-oat01-aa")
		if d := Anthropic.DemandOf(r, body); d.Account != want || d.Conversation == "" {
			t.Errorf("%s: %+v", user, d)
		}
		r.Header.Set("Authorization", "Bearer other")
		if d := Anthropic.DemandOf(r, body); d.Account != "" {
			t.Errorf("%s: %+v, with a key that stays", user, d)
		}
	}
}

// A request is read in less than the time that it takes to see that it is JSON,
// whatever it is made of: images, brackets, quotes, or what agents send.
func BenchmarkDemand(b *testing.B) {
	turn := `{"role":"user","content":[{"type":"text","text":"for i := range 10 {\n\tfmt.Println(\"line\", i)\n}\nand so on, for a while, as code does"}]},` +
		`{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"read","input":{"path":"a/b.go","limit":20}}]},`
	for _, c := range []struct{ name, filler string }{
		{"image", `"` + strings.Repeat("iVBORw0KGgo/", 1<<20/12) + `",`}, {"brackets", "[[[[[]]]]],"}, {"escapes", `"\\\\\\\\",`}, {"quotes", `"",`}, {"agent", turn},
		{"lines", `"` + strings.Repeat(`some text and\n`, 4<<20) + `",`}, {"quoted lines", `"` + strings.Repeat(`\"some text\",\n`, 4<<20) + `",`},
	} {
		body := []byte(`{"model":"m","messages":[` + strings.Repeat(c.filler, max(1, 32<<20/len(c.filler))) + `{}]}`)
		if !json.Valid(body) {
			b.Fatal(c.name)
		}
		b.Run(c.name+"/demand", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				OpenAI.DemandOf(nil, body)
			}
		})
		b.Run(c.name+"/json.Valid", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				json.Valid(body)
			}
		})
	}
}
