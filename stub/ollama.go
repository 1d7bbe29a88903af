package stub

import "time"

// ollama is Ollama's own API: lines of JSON, unless the request wants one
// document, and numbers of its own for what an answer cost.
var ollama = api{
	requestID: openAI.requestID,
	failure:   func(_ int, message string) any { return fields{"error": message} },
	failed: func(_ int, message string, _ int) event {
		return event{data: fields{"error": message}}
	},
	whole: func(r reply) any { return ollamaDone(r, r.text()) },
	delta: func(r reply, i int) event {
		return event{data: ollamaPart(r, r.pieces[i], false)}
	},
	finish:  func(r reply) []event { return []event{{data: ollamaDone(r, "")}} },
	streams: true,
	framing: lines,
}

func ollamaPart(r reply, text string, done bool) fields {
	return fields{
		"model": r.model, "created_at": r.created.UTC().Format(time.RFC3339Nano), "done": done,
		"message": fields{"role": "assistant", "content": text},
	}
}

// ollamaDone is the last part, which says what all of them cost.
func ollamaDone(r reply, text string) fields {
	part := ollamaPart(r, text, true)
	part["done_reason"] = "stop"
	part["prompt_eval_count"], part["eval_count"] = r.ask.cost.input, r.ask.cost.output
	return part
}
