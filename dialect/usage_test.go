package dialect_test

import (
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
	{"nonsense in it", "application/json", `{"usage":{"prompt_tokens":-5,"completion_tokens":1e99,"input_tokens":"7","output_tokens":null}}`, dialect.Usage{}},
	{"one that never ends", "application/json", `{"usage":{"prompt_tokens":5,"x":"` + strings.Repeat("y", 10_000) + `"}}`, dialect.Usage{}},
	{"cut", "application/json", `{"usage":{"prompt_tokens":5`, dialect.Usage{}},
	{"no JSON", "application/json", "<html>\"usage\":{\"prompt_tokens\":5}", dialect.Usage{}},
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
	if dialect.MeterOf(429, http.Header{"Content-Type": {"application/json"}}) != nil {
		t.Error("a refusal is looked into")
	}
}

func FuzzMeter(f *testing.F) {
	for _, tt := range answers {
		f.Add([]byte(tt.body), uint64(1))
	}
	f.Fuzz(func(t *testing.T, body []byte, seed uint64) {
		for _, kind := range []string{"application/json", "text/event-stream"} {
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
			if b, _ := pieces.Usage(); a != b {
				t.Errorf("%s: whole %+v, in pieces %+v", kind, a, b)
			}
			if a.Input < 0 || a.CachedInput < 0 || a.CacheWrites < 0 || a.Output < 0 {
				t.Errorf("%+v", a)
			}
		}
	})
}
