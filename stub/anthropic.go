package stub

import (
	"net/http"
	"strconv"
)

var anthropic = api{
	requestID: "Request-Id",
	failure:   anthropicFailure,
	failed: func(status int, message string, _ int) event {
		return event{name: "error", data: anthropicFailure(status, message)}
	},
	ping: anthropicEvent("ping", fields{}),
	whole: func(r reply) any {
		message := anthropicMessage(r)
		message["content"] = []any{fields{"type": "text", "text": r.text()}}
		message["stop_reason"] = "end_turn"
		message["usage"] = anthropicUsage(r, r.ask.cost.output)
		return message
	},
	start: func(r reply) []event {
		return []event{
			anthropicEvent("message_start", fields{"message": anthropicMessage(r)}),
			anthropicEvent("content_block_start", fields{
				"index": 0, "content_block": fields{"type": "text", "text": ""},
			}),
			anthropicEvent("ping", fields{}),
		}
	},
	delta: func(r reply, i int) event {
		return anthropicEvent("content_block_delta", fields{
			"index": 0, "delta": fields{"type": "text_delta", "text": r.pieces[i]},
		})
	},
	finish: func(r reply) []event {
		return []event{
			anthropicEvent("content_block_stop", fields{"index": 0}),
			anthropicEvent("message_delta", fields{
				"delta": fields{"stop_reason": "end_turn", "stop_sequence": nil},
				"usage": anthropicUsage(r, r.ask.cost.output),
			}),
			anthropicEvent("message_stop", fields{}),
		}
	},
}

// anthropicMessage is a message that has only begun.
func anthropicMessage(r reply) fields {
	return fields{
		"id": "msg_stub_" + strconv.Itoa(r.generation), "type": "message", "role": "assistant",
		"model": r.model, "content": []any{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": anthropicUsage(r, 1),
	}
}

// anthropicUsage counts what was cached beside the rest of the input.
func anthropicUsage(r reply, output int) fields {
	u := r.ask.cost
	usage := fields{"input_tokens": u.input - u.cached, "output_tokens": output}
	if u.cached > 0 {
		usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"] = u.cached, 0
	}
	return usage
}

func anthropicEvent(name string, data fields) event {
	data["type"] = name
	return event{name: name, data: data}
}

func anthropicFailure(status int, message string) any {
	kind := "invalid_request_error"
	switch {
	case status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case status == http.StatusNotFound:
		kind = "not_found_error"
	case status == http.StatusRequestEntityTooLarge:
		kind = "request_too_large"
	case status == statusOverloaded:
		kind = "overloaded_error"
	case status >= 500:
		kind = "api_error"
	}
	return fields{"type": "error", "error": fields{"type": kind, "message": message}}
}
