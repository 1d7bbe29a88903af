package stub

import (
	"net/http"
	"strings"
)

// gemini is Google's own API. Its paths name the model, and whether the answer
// is streamed: as a list, or as server-sent events where the query says so.
var gemini = api{
	requestID: openAI.requestID,
	failure:   geminiFailure,
	failed: func(status int, message string, _ int) event {
		return event{data: geminiFailure(status, message)}
	},
	whole: func(r reply) any { return geminiPart(r, r.text(), "STOP") },
	delta: func(r reply, i int) event {
		return event{data: geminiPart(r, r.pieces[i], "")}
	},
	finish:  func(r reply) []event { return []event{{data: geminiPart(r, "", "STOP")}} },
	framing: list,
}

// geminiPath reads the path of a generation, false where it is none.
func geminiPath(r *http.Request) (a api, ok bool) {
	_, name, _ := strings.Cut(r.URL.Path, "/models/")
	model, verb, _ := strings.Cut(name, ":")
	a = gemini
	a.model, a.streams = model, verb == "streamGenerateContent"
	if a.streams && r.URL.Query().Get("alt") == "sse" {
		a.framing = framing{}
	}
	return a, a.streams || verb == "generateContent"
}

func geminiPart(r reply, text, reason string) fields {
	candidate := fields{"index": 0, "content": fields{"role": "model", "parts": []any{fields{"text": text}}}}
	part := fields{"candidates": []any{candidate}, "modelVersion": r.model}
	if reason != "" {
		candidate["finishReason"] = reason
		u := r.ask.cost
		usage := fields{"promptTokenCount": u.input, "candidatesTokenCount": u.output, "totalTokenCount": u.input + u.output}
		if u.cached > 0 {
			usage["cachedContentTokenCount"] = u.cached
		}
		part["usageMetadata"] = usage
	}
	return part
}

func geminiFailure(status int, message string) any {
	word := "INVALID_ARGUMENT"
	switch {
	case status == http.StatusTooManyRequests:
		word = "RESOURCE_EXHAUSTED"
	case status == http.StatusNotFound:
		word = "NOT_FOUND"
	case status == statusOverloaded, status == http.StatusServiceUnavailable:
		word = "UNAVAILABLE"
	case status >= 500:
		word = "INTERNAL"
	}
	return fields{"error": fields{"code": status, "message": message, "status": word}}
}
