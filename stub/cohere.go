package stub

import "strconv"

// cohere is Cohere's second API of chats.
var cohere = api{
	requestID: openAI.requestID,
	failure:   func(_ int, message string) any { return fields{"message": message} },
	failed: func(_ int, message string, _ int) event {
		return cohereEvent("message-end", fields{"delta": fields{"finish_reason": "ERROR", "error": message}})
	},
	whole: func(r reply) any {
		return fields{
			"id": cohereID(r), "finish_reason": "COMPLETE", "usage": cohereUsage(r),
			"message": fields{"role": "assistant", "content": []any{fields{"type": "text", "text": r.text()}}},
		}
	},
	start: func(r reply) []event {
		begun := cohereEvent("message-start", fields{"id": cohereID(r), "delta": fields{"message": fields{"role": "assistant"}}})
		return []event{begun, cohereContent("content-start", fields{"type": "text", "text": ""})}
	},
	delta: func(r reply, i int) event { return cohereContent("content-delta", fields{"text": r.pieces[i]}) },
	finish: func(r reply) []event {
		return []event{
			cohereEvent("content-end", fields{"index": 0}),
			cohereEvent("message-end", fields{"delta": fields{"finish_reason": "COMPLETE", "usage": cohereUsage(r)}}),
		}
	},
}

func cohereID(r reply) string { return "chat-stub-" + strconv.Itoa(r.generation) }

func cohereEvent(name string, data fields) event {
	data["type"] = name
	return event{name: name, data: data}
}

func cohereContent(name string, content fields) event {
	return cohereEvent(name, fields{"index": 0, "delta": fields{"message": fields{"content": content}}})
}

func cohereUsage(r reply) fields {
	tokens := fields{"input_tokens": r.ask.cost.input, "output_tokens": r.ask.cost.output}
	return fields{"billed_units": tokens, "tokens": tokens}
}
