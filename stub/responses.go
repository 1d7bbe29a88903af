package stub

import "strconv"

// responses is OpenAI's responses API: the same errors, other answers, and
// events that are named and numbered.
var responses = api{
	requestID: openAI.requestID,
	failure:   openAI.failure,
	failed: func(status int, message string, after int) event {
		return responseEvent("error", after, fields{"code": "server_error", "message": message, "param": nil})
	},
	whole: func(r reply) any { return response(r, "completed") },
	start: func(r reply) []event {
		return []event{
			responseEvent("response.created", 0, fields{"response": response(r, "in_progress")}),
			responseEvent("response.in_progress", 1, fields{"response": response(r, "in_progress")}),
			responseEvent("response.output_item.added", 2, fields{"output_index": 0, "item": responseItem(r, "in_progress")}),
			responseEvent("response.content_part.added", 3, responsePart(r, fields{"part": responseText("")})),
		}
	},
	delta: func(r reply, i int) event {
		return responseEvent("response.output_text.delta", 4+i, responsePart(r, fields{"delta": r.pieces[i], "logprobs": []any{}}))
	},
	finish: func(r reply) []event {
		return []event{
			responseEvent("response.output_text.done", 4+deltas, responsePart(r, fields{"text": r.text(), "logprobs": []any{}})),
			responseEvent("response.content_part.done", 5+deltas, responsePart(r, fields{"part": responseText(r.text())})),
			responseEvent("response.output_item.done", 6+deltas, fields{"output_index": 0, "item": responseItem(r, "completed")}),
			responseEvent("response.completed", 7+deltas, fields{"response": response(r, "completed")}),
		}
	},
}

func responseEvent(name string, number int, data fields) event {
	data["type"], data["sequence_number"] = name, number
	return event{name: name, data: data}
}

// response is the answer as it stands when it has begun or is complete.
func response(r reply, status string) fields {
	answer := fields{
		"id": "resp_stub_" + strconv.Itoa(r.generation), "object": "response", "created_at": r.created.Unix(),
		"status": status, "model": r.model, "output": []any{}, "error": nil, "incomplete_details": nil,
		"instructions": nil, "metadata": fields{}, "parallel_tool_calls": true, "previous_response_id": nil,
		"store": false, "temperature": 1, "text": fields{"format": fields{"type": "text"}}, "tool_choice": "auto",
		"tools": []any{}, "top_p": 1, "truncation": "disabled", "usage": nil,
	}
	if status == "completed" {
		answer["output"] = []any{responseItem(r, status)}
		answer["usage"] = fields{
			"input_tokens":          r.ask.cost.input,
			"input_tokens_details":  fields{"cached_tokens": r.ask.cost.cached},
			"output_tokens":         r.ask.cost.output,
			"output_tokens_details": fields{"reasoning_tokens": 0},
			"total_tokens":          r.ask.cost.input + r.ask.cost.output,
		}
	}
	return answer
}

func responseItem(r reply, status string) fields {
	content := []any{}
	if status == "completed" {
		content = append(content, responseText(r.text()))
	}
	return fields{"id": responseItemID(r), "type": "message", "role": "assistant", "status": status, "content": content}
}

func responseItemID(r reply) string { return "msg_stub_" + strconv.Itoa(r.generation) }

func responseText(text string) fields {
	return fields{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
}

// responsePart says of which part of the answer an event speaks.
func responsePart(r reply, data fields) fields {
	data["item_id"], data["output_index"], data["content_index"] = responseItemID(r), 0, 0
	return data
}
