package dialect_test

import (
	"encoding/base64"
	"encoding/binary"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/paceline-proxy/paceline/dialect"
)

// Bodies as the providers send them, with the tokens they tell.
var answers = []struct {
	name, kind, body string
	want             dialect.Usage
}{
	{"chat completion", "application/json",
		`{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a \"usage\":{\"prompt_tokens\":9} b","tool_calls":[{"usage":{"prompt_tokens":7}}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":8,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}},"service_tier":"default"}`,
		dialect.Usage{Input: 19, CachedInput: 8, Output: 10}},
	{"response", "application/json; charset=utf-8",
		`{"id":"r","object":"response","output":[{"type":"message","content":[{"type":"output_text","text":"hi"}]}],"usage":{"input_tokens":36,"input_tokens_details":{"cached_tokens":4},"output_tokens":87,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":123},"user":null}`,
		dialect.Usage{Input: 36, CachedInput: 4, Output: 87}},
	{"message", "application/json",
		`{"id":"m","type":"message","content":[{"type":"text","text":"hi"}],"usage":{"input_tokens":10,"cache_creation_input_tokens":200,"cache_read_input_tokens":3000,"output_tokens":25,"service_tier":"standard","cache_creation":{"ephemeral_5m_input_tokens":200}}}`,
		dialect.Usage{Input: 3210, CachedInput: 3000, CacheWrites: 200, Output: 25}},
	{"embedding", "application/json",
		"{\n  \"object\": \"list\",\n  \"data\": [{\"embedding\": [" + strings.Repeat("-0.0069292834, ", 4000) + "0]}],\n  \"usage\": {\n    \"prompt_tokens\": 8,\n    \"total_tokens\": 8\n  }\n}\n",
		dialect.Usage{Input: 8}},
	{"chat stream", "text/event-stream",
		"data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}],\"usage\":null}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"lo\"}}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":5}}\n\ndata: [DONE]\n\n",
		dialect.Usage{Input: 11, Output: 5}},
	{"response stream", "text/event-stream",
		"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"usage\":null}}\n\n: ping\n\nevent: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"output\":[],\"usage\":{\"input_tokens\":37,\"output_tokens\":11,\"input_tokens_details\":{\"cached_tokens\":30}}}}\n\n",
		dialect.Usage{Input: 37, CachedInput: 30, Output: 11}},
	{"message stream", "text/event-stream; charset=utf-8",
		"event: message_start\r\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":25,\"cache_read_input_tokens\":100,\"output_tokens\":1}}}\r\n\r\nevent: ping\r\ndata: {\"type\": \"ping\"}\r\n\r\nevent: message_delta\r\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":15}}\r\n\r\nevent: message_stop\r\ndata: {\"type\":\"message_stop\"}\r\n\r\n",
		dialect.Usage{Input: 125, CachedInput: 100, Output: 15}},
	{"an event over several lines", "text/event-stream",
		"data: {\"usage\":\ndata: {\"prompt_tokens\":3,\ndata:\"completion_tokens\":4}}\n\n",
		dialect.Usage{Input: 3, Output: 4}},
	{"a broken event before a good one", "text/event-stream",
		"data: {\"choices\":[{\"x\":\"\n\ndata: {\"usage\":{\"prompt_tokens\":3}}\n\n",
		dialect.Usage{Input: 3}},
	{"Gemini", "application/json",
		`{"candidates":[{"content":{"parts":[{"text":"hi"}]}}],"usageMetadata":{"promptTokenCount":40,"cachedContentTokenCount":30,"candidatesTokenCount":5,"thoughtsTokenCount":7,"toolUsePromptTokenCount":2,"totalTokenCount":54,"promptTokensDetails":[{"modality":"TEXT","tokenCount":40}]},"modelVersion":"g"}`,
		dialect.Usage{Input: 42, CachedInput: 30, Output: 12}},
	{"Gemini's list", "application/json; charset=UTF-8",
		"[{\"candidates\":[],\"usageMetadata\":{\"promptTokenCount\":4,\"totalTokenCount\":4}}\n,\r\n{\"candidates\":[],\"usageMetadata\":{\"promptTokenCount\":4,\"candidatesTokenCount\":9,\"totalTokenCount\":13}}]",
		dialect.Usage{Input: 4, Output: 9}},
	{"Gemini's stream", "text/event-stream",
		"data: {\"usageMetadata\":{\"promptTokenCount\":4,\"candidatesTokenCount\":1}}\r\n\r\ndata: {\"usageMetadata\":{\"promptTokenCount\":4,\"candidatesTokenCount\":9}}\r\n\r\n",
		dialect.Usage{Input: 4, Output: 9}},
	{"Cohere", "application/json", `{"id":"c","message":{"content":[{"type":"text","text":"hi"}]},"usage":{"billed_units":{"input_tokens":17,"output_tokens":12},"tokens":{"input_tokens":215,"output_tokens":12},"cached_tokens":16}}`,
		dialect.Usage{Input: 215, CachedInput: 16, Output: 12}},
	{"Cohere's stream", "text/event-stream", "event: message-end\ndata: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"COMPLETE\",\"usage\":{\"tokens\":{\"input_tokens\":21,\"output_tokens\":3}}}}\n\n",
		dialect.Usage{Input: 21, Output: 3}},
	{"Cohere before", "application/json", `{"text":"hi","meta":{"api_version":{"version":"1"},"billed_units":{"input_tokens":17,"output_tokens":12}}}`,
		dialect.Usage{Input: 17, Output: 12}},
	{"Cohere's stream before", "application/stream+json", "{\"event_type\":\"text-generation\",\"text\":\"hi\"}\n{\"event_type\":\"stream-end\",\"response\":{\"text\":\"hi\",\"meta\":{\"tokens\":{\"input_tokens\":5,\"output_tokens\":6}}}}\n",
		dialect.Usage{Input: 5, Output: 6}},
	{"Ollama", "application/json", `{"model":"m","message":{"role":"assistant","content":"hi"},"done":true,"prompt_eval_count":26,"eval_count":298,"eval_duration":4799921000}`,
		dialect.Usage{Input: 26, Output: 298}},
	{"Ollama's stream", "application/x-ndjson", "{\"message\":{\"content\":\"h\"},\"done\":false}\n{\"broken\n{\"done\":true,\"prompt_eval_count\" : 26 , \"eval_count\":298}\n",
		dialect.Usage{Input: 26, Output: 298}},
	{"llama.cpp", "application/json", `{"content":"hi","tokens_evaluated":7,"tokens_predicted":2,"timings":{"eval_count":99}}`,
		dialect.Usage{Input: 7, Output: 2}},
	{"no count", "application/json", `{"prompt_eval_count":1e3,"eval_count":-4,"tokens_evaluated":"7","tokens_predicted":99999999999}`, dialect.Usage{}},
	{"Bedrock", "application/json", `{"output":{"message":{}},"usage":{"inputTokens":30,"outputTokens":628,"totalTokens":1658,"cacheReadInputTokens":900,"cacheWriteInputTokens":100}}`,
		dialect.Usage{Input: 1030, CachedInput: 900, CacheWrites: 100, Output: 628}},
	{"Bedrock's stream", "application/vnd.amazon.eventstream", frame(`{"contentBlockIndex":0,"delta":{"text":"hi"},"p":"abc"}`) + frame(`{"metrics":{"latencyMs":1},"usage":{"inputTokens":8,"outputTokens":9,"totalTokens":17}}`),
		dialect.Usage{Input: 8, Output: 9}},
	{"a model's stream at Bedrock", "application/vnd.amazon.eventstream",
		frame(inBase64(`{"type":"message_start","message":{"usage":{"input_tokens":8,"cache_read_input_tokens":2,"output_tokens":1}}}`)) +
			frame(inBase64(`{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":8,"outputTokenCount":33,"invocationLatency":5}}`)),
		dialect.Usage{Input: 10, CachedInput: 2, Output: 33}},
	{"a broken frame", "application/vnd.amazon.eventstream", "\xff\xff\xff\xff\x00\x00\x00\x00" + frame(`{"usage":{"inputTokens":8}}`), dialect.Usage{}},
	{"Groq's stream", "text/event-stream", "data: {\"id\":\"c\",\"choices\":[{\"delta\":{}}],\"x_groq\":{\"id\":\"r\",\"usage\":{\"queue_time\":0.03,\"prompt_tokens\":24,\"completion_tokens\":37,\"total_tokens\":61}}}\n\ndata: [DONE]\n\n",
		dialect.Usage{Input: 24, Output: 37}},
	{"DeepSeek", "application/json", `{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":9,"total_tokens":109,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36}}`,
		dialect.Usage{Input: 100, CachedInput: 64, Output: 9}},
	{"Mistral", "application/json", `{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":9,"total_tokens":109,"num_cached_tokens":64}}`,
		dialect.Usage{Input: 100, CachedInput: 64, Output: 9}},
	{"xAI leaves the thoughts out", "application/json", `{"usage":{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"completion_tokens_details":{"reasoning_tokens":94}}}`,
		dialect.Usage{Input: 32, Output: 103}},
	{"Workers AI", "application/json", `{"result":{"response":"hi","usage":{"prompt_tokens":20,"completion_tokens":3,"total_tokens":23}},"success":true}`,
		dialect.Usage{Input: 20, Output: 3}},
	// BerriAI/litellm#36168: the usage stands in whatever event, and its cached part counts.
	{"usage beside a choice", "text/event-stream", "data: {\"choices\":[{\"index\":0,\"delta\":{}}],\"usage\":{\"prompt_tokens\":16111,\"completion_tokens\":4,\"prompt_tokens_details\":{\"cached_tokens\":15872}}}\n\n",
		dialect.Usage{Input: 16111, CachedInput: 15872, Output: 4}},
	{"nonsense in it", "application/json", `{"usage":{"prompt_tokens":-5,"completion_tokens":1e99,"input_tokens":"7","output_tokens":null}}`, dialect.Usage{}},
	{"one that never ends", "application/json", `{"usage":{"prompt_tokens":5,"x":"` + strings.Repeat("y", 10_000) + `"}}`, dialect.Usage{}},
	{"cut", "application/json", `{"usage":{"prompt_tokens":5`, dialect.Usage{}},
	{"no JSON", "application/json", "<html>\"usage\":{\"prompt_tokens\":5}", dialect.Usage{}},
}

// frame is a frame of Amazon's event stream.
func frame(payload string) string {
	header := "\x0b:event-type\x07\x00\x05chunk"
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(header)+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(header)))
	return string(b) + "sum1" + header + payload + "sum2"
}

func inBase64(event string) string {
	return `{"bytes":"` + base64.StdEncoding.EncodeToString([]byte(event)) + `","p":"abcdef"}`
}

// Whatever the pieces are in which a body comes, the same is found in it.
func TestMeter(t *testing.T) {
	for _, tt := range answers {
		h := http.Header{"Content-Type": {tt.kind}}
		for _, size := range []int{1 << 20, 1, 2, 3, 7, 64} {
			m := dialect.MeterOf(200, h)
			for rest := tt.body; rest != ""; {
				n := min(size, len(rest))
				m.Write([]byte(rest[:n]))
				rest = rest[n:]
			}
			if got, _ := m.Usage(); got != tt.want {
				t.Errorf("%s in pieces of %d: %+v, want %+v", tt.name, size, got, tt.want)
			}
		}
	}
	for _, h := range []http.Header{{}, {"Content-Type": {"audio/mpeg"}}, {"Content-Type": {"text/html"}}} {
		if dialect.MeterOf(200, h) != nil {
			t.Errorf("%v is looked into", h)
		}
	}
	for _, h := range []http.Header{
		{"X-Amzn-Bedrock-Input-Token-Count": {"8"}, "X-Amzn-Bedrock-Output-Token-Count": {"5"}, "X-Amzn-Bedrock-Cache-Read-Input-Token-Count": {"2"}},
		{"X-Prompt-Tokens": {"10"}, "X-Generated-Tokens": {"5"}, "Content-Type": {"application/json"}},
	} {
		m := dialect.MeterOf(200, h)
		m.Write([]byte(`{"text":"hi"}`))
		if u, told := m.Usage(); !told || u.Input != 10 || u.Output != 5 {
			t.Errorf("%v: %+v, %v", h, u, told)
		}
	}
	if dialect.MeterOf(429, http.Header{"Content-Type": {"application/json"}}) != nil {
		t.Error("a refusal is looked into")
	}
}

// BerriAI/litellm#37992: an answer that says that it cost nothing has told
// that; one that says nothing has not.
func TestMeterToldNothing(t *testing.T) {
	for body, want := range map[string]bool{
		`{"usage":{"prompt_tokens":0,"completion_tokens":0}}`: true, `{"usage":{"prompt_tokens":null}}`: false, `{"usage":{}}`: false, `{}`: false,
		`{"eval_count":0}`: true,
	} {
		m := dialect.MeterOf(200, http.Header{"Content-Type": {"application/json"}})
		m.Write([]byte(body))
		if u, told := m.Usage(); told != want || u != (dialect.Usage{}) {
			t.Errorf("%s: %+v, %v", body, u, told)
		}
	}
}

// QuantumNous/new-api#7178: what a stream has told is known while it goes on, and what
// it has not told yet can be guessed: its text is counted once, however often it is
// brought.
func TestMeterAsItGoes(t *testing.T) {
	text := strings.Repeat("word ", 80) // 400 bytes
	for _, tt := range []struct {
		name, kind string
		pieces     []string
		input      int
		produced   []int
	}{
		{"chat", "text/event-stream", []string{
			"data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"" + text + "\"}}]}\n\n",
			"data: {\"choices\":[{\"delta\":{\"content\":\"" + text, text + "\"}}]}\n\n",
			"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":400}}\n\n",
		}, 1, []int{100, 200, 300, 400}},
		{"message", "text/event-stream", []string{
			"data: {\"type\":\"message_start\",\"message\":{\"content\":[],\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n",
			"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"" + text + "\"}}\n\n",
		}, 25, []int{1, 100}},
		{"response", "text/event-stream", []string{
			"data: {\"type\":\"response.created\",\"response\":{\"instructions\":\"" + text + "\",\"text\":\"" + text + "\"}}\n\n",
			"data: {\"type\":\"response.output_text.delta\",\"delta\":\"" + text + "\"}\n\n",
			"data: {\"type\":\"response.output_text.done\",\"text\":\"" + text + "\"}\n\n",
			"data: {\"type\":\"response.completed\",\"response\":{\"output\":[{\"content\":[{\"text\":\"" + text + "\"}]}],\"usage\":{\"input_tokens\":5,\"output_tokens\":99}}}\n\n",
		}, 5, []int{0, 100, 100, 100}},
		{"Gemini", "text/event-stream", []string{"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"" + text + "\"}]}}]}\n\n"}, 0, []int{100}},
		{"Ollama", "application/x-ndjson", []string{"{\"model\":\"" + text + "\",\"message\":{\"content\":\"" + text + "\"}}\n"}, 0, []int{100}},
	} {
		m := dialect.MeterOf(200, http.Header{"Content-Type": {tt.kind}})
		for i, piece := range tt.pieces {
			m.Write([]byte(piece))
			if got := m.Produced(); got != tt.produced[i] {
				t.Errorf("%s: %d after piece %d, want %d", tt.name, got, i, tt.produced[i])
			}
		}
		if u, _ := m.Usage(); u.Input != tt.input {
			t.Errorf("%s: %+v", tt.name, u)
		}
	}
}

func FuzzMeter(f *testing.F) {
	for _, tt := range answers {
		f.Add([]byte(tt.body), uint64(1))
	}
	f.Fuzz(func(t *testing.T, body []byte, seed uint64) {
		for _, kind := range []string{"application/json", "text/event-stream", "application/x-ndjson", "application/vnd.amazon.eventstream"} {
			h := http.Header{"Content-Type": {kind}}
			whole, pieces := dialect.MeterOf(200, h), dialect.MeterOf(200, h)
			whole.Write(body)
			rng := rand.New(rand.NewPCG(seed, 0))
			for rest := body; len(rest) > 0; {
				n := 1 + rng.IntN(len(rest))
				pieces.Write(rest[:n])
				rest = rest[n:]
			}
			a, _ := whole.Usage()
			if b, _ := pieces.Usage(); a != b || whole.Produced() != pieces.Produced() {
				t.Errorf("%s: whole %+v, in pieces %+v", kind, a, b)
			}
			if a.Input < 0 || a.CachedInput < 0 || a.CacheWrites < 0 || a.Output < 0 {
				t.Errorf("%+v", a)
			}
		}
	})
}

func BenchmarkMeter(b *testing.B) {
	event := "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"system_fingerprint\":\"f\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n"
	stream := []byte(strings.Repeat(event, 1000))
	b.SetBytes(int64(len(stream)))
	for b.Loop() {
		m := dialect.MeterOf(200, http.Header{"Content-Type": {"text/event-stream"}})
		m.Write(stream)
	}
}
