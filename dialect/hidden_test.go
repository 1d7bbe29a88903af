package dialect_test

import (
	"strings"
	"testing"

	"github.com/paceline-proxy/paceline/dialect"
)

// A refusal that hides in a 200, read by every dialect.
func TestRefusalInsideSuccess(t *testing.T) {
	const json, stream = "application/json", "text/event-stream; charset=utf-8"
	for _, c := range []struct {
		name, contentType, body string
		class                   dialect.Class
	}{
		{"error object", json, `{"error":{"code":429,"message":"Provider returned error"}}`, dialect.RateLimited},
		{"with white space and a mark", json, "\xef\xbb\xbf \n\t {\"error\" : {\"code\": 429}}\n", dialect.RateLimited},
		{"code as a string", json, `{"error":{"code":"429"}}`, dialect.RateLimited},
		{"code of a name", json, `{"error":{"type":"overloaded_error"}}`, dialect.Overloaded},
		{"error is a sentence", json, `{"error":"Rate limit exceeded, try again later"}`, dialect.RateLimited},
		{"busy in a sentence", json, `{"error":"Model is overloaded","error_type":"overloaded"}`, dialect.Overloaded},
		{"no content type", "", `{"error":{"code":429}}`, dialect.RateLimited},
		{"plain text by mistake", "text/plain", `{"error":{"code":500}}`, dialect.Unavailable},
		{"in a list", json, `[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}]`, dialect.RateLimited},
		{"in a list that goes on", json, `[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}},` + "\n{\"cand", dialect.RateLimited},
		{"error marked true", json, `{"error":true,"message":"too many requests"}`, dialect.RateLimited},
		{"no money", json, `{"error":{"code":402,"message":"Insufficient credits"}}`, dialect.Billing},
		{"a wrong request", json, `{"error":{"type":"invalid_request_error","message":"no such model"}}`, dialect.Rejected},
		{"beside empty choices", json, `{"id":"x","choices":[],"error":{"code":429}}`, dialect.RateLimited},
		{"failed response", json, `{"object":"response","status":"failed","error":{"code":"rate_limit_exceeded","message":"x"},"output":[]}`, dialect.RateLimited},
		{"one line of many", "application/x-ndjson", `{"error":"rate limit reached"}` + "\n", dialect.RateLimited},
		{"success is false", json, `{"success":false,"errors":[{"code":1015,"message":"rate limited"}],"result":null}`, dialect.RateLimited},
		{"GraphQL", json, `{"errors":[{"type":"RATE_LIMITED","message":"API rate limit exceeded"}]}`, dialect.RateLimited},

		{"first event", stream, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n", dialect.Overloaded},
		{"first event, cut behind its data", stream, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}", dialect.Overloaded},
		{"CRLF", stream, "event: error\r\ndata: {\"error\":{\"code\":429}}\r\n\r\n", dialect.RateLimited},
		{"CR", stream, "event: error\rdata: {\"error\":{\"code\":429}}\r\r", dialect.RateLimited},
		{"no space behind the colon", stream, "data:{\"error\":{\"code\":429}}\n\n", dialect.RateLimited},
		{"several lines of data", stream, "data: {\"error\":\ndata: {\"code\":429}}\n\n", dialect.RateLimited},
		{"an event of text", stream, "event: error\ndata: rate limit exceeded\n\n", dialect.RateLimited},
		{"an event of a bare object", stream, "event: error\ndata: {\"code\":\"rate_limit_exceeded\",\"message\":\"slow\"}\n\n", dialect.RateLimited},
		{"behind comments and pings", stream, ": OPENROUTER PROCESSING\n\n: x\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\ndata: {\"error\":{\"code\":429}}\n\n", dialect.RateLimited},
		{"behind what comes before an answer", stream, "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"error\":null}}\n\nevent: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"rate_limit_exceeded\"}}}\n\n", dialect.RateLimited},
		{"error event of the responses API", stream, "event: error\ndata: {\"type\":\"error\",\"code\":\"rate_limit_exceeded\",\"message\":\"x\",\"param\":null}\n\n", dialect.RateLimited},
		{"a chunk that breaks off", stream, `data: {"object":"chat.completion.chunk","error":{"code":429,"message":"x"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}` + "\n\n", dialect.RateLimited},
		{"no content type, a stream", "", "data: {\"error\":{\"code\":429}}\n\n", dialect.RateLimited},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, d := range dialect.All {
				h := head(200)
				if c.contentType != "" {
					h.Header.Set("Content-Type", c.contentType)
				}
				if r := readSound(t, d, h, c.body); r.Class != c.class || r.Why == "" {
					t.Errorf("%s: %s (%s)", d.Name, r.Class, r.Why)
				}
			}
		})
	}
	// What the refusal says besides is read as of any other.
	h := head(200, "Content-Type", stream, "Retry-After", "7")
	if r := readSound(t, dialect.Azure, h, "data: {\"error\":{\"code\":\"429\"}}\n\n"); r.Wait.Seconds() != 7 {
		t.Errorf("%+v", r)
	}
}

// An answer that merely speaks of errors is an answer.
func TestAnswersThatSpeakOfErrors(t *testing.T) {
	const evil = `{\"error\":{\"code\":429,\"type\":\"insufficient_quota\"}}`
	long := strings.Repeat("error 429 rate_limit_exceeded ", 3000)
	for name, body := range map[string]string{
		"null":                       `{"id":"x","error":null,"output":[{"text":"error"}]}`,
		"null alone":                 `{"error":null}`,
		"empty object":               `{"error":{},"status":"completed"}`,
		"empty string":               `{"error":"","text":"x"}`,
		"false":                      `{"error":false,"result":1}`,
		"zero":                       `{"error":0,"message":"ok"}`,
		"code zero":                  `{"error":{"code":0,"message":""}}`,
		"none":                       `{"error":"none"}`,
		"empty list":                 `{"errors":[],"error":[]}`,
		"in a message":               `{"choices":[{"message":{"content":"` + evil + `"}}]}`,
		"in a message, error null":   `{"choices":[{"message":{"content":"` + evil + `"}}],"error":null}`,
		"an error beside an answer":  `{"choices":[{"message":{"content":"hello"}}],"error":{"code":429,"message":"cut"}}`,
		"an error beside output":     `{"output":[{"text":"hello"}],"error":{"code":"server_error"}}`,
		"an error beside a message":  `{"message":{"role":"assistant","content":"hi"},"error":"x"}`,
		"an error beside a response": `{"response":"hello","error":"x"}`,
		"tool call":                  `{"choices":[{"message":{"tool_calls":[{"function":{"arguments":"{\"error\":{\"code\":429}}"}}]}}]}`,
		"content is the field":       `{"type":"message","content":[{"type":"error","error":{"code":429}}]}`,
		"names of fields":            `{"error_rate":0.5,"errors_count":3,"last_error":{"code":429},"data":[1]}`,
		"nested":                     `{"result":{"error":{"code":429}}}`,
		"cut":                        `{"choices":[{"message":{"content":"` + long,
		"cut in the error":           `{"error":{"code":429,"mess`,
		"second of a list":           `[{"candidates":[{"x":1}]},{"error":{"code":429}}]`,
		"generated text":             `[{"generated_text":"{\"error\":{\"code\":429}}"}]`,
		"batch":                      `{"object":"batch","status":"failed","errors":{"object":"list","data":[{"code":"rate_limit_exceeded"}]},"error_file_id":"f"}`,
		"line of a batch":            `{"id":"b","response":{"status_code":200,"body":{}},"error":null}` + "\n" + `{"id":"c","error":{"code":429}}`,
		"a string":                   `"error: rate limit exceeded"`,
		"text":                       `error: rate limit exceeded (429)`,
		"HTML":                       `<html>error 429 Too Many Requests</html>`,
		"first event":                "data: {\"choices\":[{\"delta\":{\"content\":\"event: error\\ndata: " + evil + "\"}}]}\n\n",
		"error event after content":  "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\nevent: error\ndata: {\"error\":{\"code\":429}}\n\n",
		"event of an error's name":   "event: error_report\ndata: {\"choices\":[{}]}\n\n",
		"created with null":          "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"error\":null,\"instructions\":\"error\"}}\n\nevent: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"error 429\"}\n\n",
		"start of a message":         "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"content\":[],\"stop_reason\":null}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"text\",\"text\":\"overloaded_error\"}}\n\n",
		"done":                       "data: [DONE]\n\ndata: {\"error\":{\"code\":429}}\n\n",
		"an error in a comment":      ": error {\"error\":{\"code\":429}}\n\n",
		"cut event":                  "data: {\"error\":{\"code\":42",
		"text with blank lines":      "Here is a stream:\n\nevent: error\ndata: {\"error\":{\"code\":429}}\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			for _, contentType := range []string{"", "application/json", "text/event-stream", "text/plain", "application/octet-stream", "text/html"} {
				for _, d := range dialect.All {
					h := head(200)
					if contentType != "" {
						h.Header.Set("Content-Type", contentType)
					}
					if r := readSound(t, d, h, body); r.Class != dialect.OK {
						t.Errorf("%s, %s: %s (%s)", d.Name, contentType, r.Class, r.Why)
					}
				}
			}
		})
	}
	// Neither is what a file or a page holds.
	for _, contentType := range []string{"application/octet-stream", "text/html", "audio/mpeg", "image/png"} {
		for _, body := range []string{`{"error":{"code":429}}`, "event: error\ndata: {\"error\":{\"code\":429}}\n\n"} {
			if r := readSound(t, dialect.Generic, head(200, "Content-Type", contentType), body); r.Class != dialect.OK {
				t.Errorf("%s: %s", contentType, r.Class)
			}
		}
	}
	// Of plain text only JSON is looked at: an answer may begin like a stream.
	if r := readSound(t, dialect.Generic, head(200, "Content-Type", "text/plain"), "event: error\ndata: x\n\n"); r.Class != dialect.OK {
		t.Error(r.Class)
	}
}

// However a beginning of an answer is cut, it stays an answer, and a refusal is
// one or nothing yet.
func TestCutAnywhere(t *testing.T) {
	answer := `{"id":"x","object":"chat.completion","choices":[{"message":{"content":"{\"error\":{\"code\":429}}"}}],"error":null,"usage":{"total_tokens":5}}`
	stream := "data: {\"choices\":[{\"delta\":{\"content\":\"data: {\\\"error\\\":{\\\"code\\\":429}}\"}}],\"error\":null}\n\ndata: [DONE]\n\n"
	refusal := "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"
	for i := range len(answer) {
		if r := readSound(t, dialect.OpenAI, head(200, "Content-Type", "application/json"), answer[:i]); r.Class != dialect.OK {
			t.Errorf("%q: %s", answer[:i], r.Class)
		}
	}
	for i := range len(stream) {
		if r := readSound(t, dialect.OpenAI, head(200, "Content-Type", "text/event-stream"), stream[:i]); r.Class != dialect.OK {
			t.Errorf("%q: %s", stream[:i], r.Class)
		}
	}
	for i := range len(refusal) {
		whole := i >= strings.LastIndexByte(refusal, '}')+1
		r := readSound(t, dialect.Anthropic, head(200, "Content-Type", "text/event-stream"), refusal[:i])
		if whole != (r.Class == dialect.Overloaded) || !whole && r.Class != dialect.OK {
			t.Errorf("%q: %s (%s)", refusal[:i], r.Class, r.Why)
		}
	}
}
