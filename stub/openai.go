package stub

import (
	"net/http"
	"strconv"
)

var openAI = api{
	requestID: "X-Request-Id",
	failure:   openAIFailure,
	failed: func(status int, message string, _ int) event {
		return event{data: openAIFailure(status, message)}
	},
	whole: func(r reply) any {
		return openAIBody(r, "chat.completion", fields{
			"choices": []any{fields{
				"index":         0,
				"message":       fields{"role": "assistant", "content": r.text()},
				"finish_reason": "stop",
			}},
			"usage": openAIUsage(r),
		})
	},
	start: func(r reply) []event {
		return []event{openAIChunk(r, fields{"role": "assistant", "content": ""}, nil)}
	},
	delta: func(r reply, i int) event {
		return openAIChunk(r, fields{"content": r.pieces[i]}, nil)
	},
	finish: func(r reply) []event {
		events := []event{openAIChunk(r, fields{}, "stop")}
		if r.ask.usage {
			events = append(events, event{data: openAIBody(r, "chat.completion.chunk", fields{
				"choices": []any{}, "usage": openAIUsage(r),
			})})
		}
		return append(events, event{data: "[DONE]"})
	},
}

// fields is an object of JSON.
type fields map[string]any

func openAIBody(r reply, object string, rest fields) fields {
	rest["id"] = "chatcmpl-stub-" + strconv.Itoa(r.generation)
	rest["object"] = object
	rest["created"] = r.created.Unix()
	rest["model"] = r.model
	return rest
}

func openAIChunk(r reply, delta fields, finish any) event {
	chunk := openAIBody(r, "chat.completion.chunk", fields{
		"choices": []any{fields{"index": 0, "delta": delta, "finish_reason": finish}},
	})
	if r.ask.usage {
		chunk["usage"] = nil
	}
	return event{data: chunk}
}

func openAIUsage(r reply) fields {
	u := r.ask.cost
	usage := fields{"prompt_tokens": u.input, "completion_tokens": u.output, "total_tokens": u.input + u.output}
	if u.cached > 0 {
		usage["prompt_tokens_details"] = fields{"cached_tokens": u.cached}
	}
	return usage
}

func openAIFailure(status int, message string) any {
	kind, code := "invalid_request_error", any(nil)
	switch {
	case status == http.StatusTooManyRequests:
		kind, code = "requests", "rate_limit_exceeded"
	case status == http.StatusNotFound:
		code = "not_found"
	case status == statusOverloaded:
		kind, code = "server_error", "server_is_overloaded"
	case status >= 500:
		kind = "server_error"
	}
	return fields{"error": fields{"message": message, "type": kind, "param": nil, "code": code}}
}
