package dialect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// hiddenFault finds a refusal that hides in an answer of success: an error in
// place of the answer, or as the first event of a stream. body is the beginning
// of the answer. What merely speaks of errors, has an empty one, or has an
// answer beside it, is none.
func hiddenFault(contentType string, body []byte) (fault, bool) {
	var f fault
	contentType = strings.ToLower(contentType)
	stream := strings.Contains(contentType, "event-stream")
	if !stream && contentType != "" && !strings.Contains(contentType, "json") && !strings.Contains(contentType, "text/plain") {
		return f, false
	}
	// Nearly every answer ends here.
	if len(body) > maxBody || !MayRefuse(body) {
		return f, false
	}
	body = trimBody(body)
	switch {
	case len(body) == 0:
	case body[0] == '{' || body[0] == '[':
		if o, ok := firstObject(body); ok && refuses(o) {
			f.object(o, 0)
			return f, true
		}
	case (stream || contentType == "") && isEventStream(body):
		for e := range events(body) {
			o, ok := firstObject(e.data)
			named := strings.EqualFold(e.name, "error")
			switch {
			case ok && (named || refuses(o)):
				f.object(o, 0)
				return f, true
			case named && e.whole:
				f.text(string(e.data), 0)
				return f, true
			}
			if !ok || !preamble(e.name, o) {
				break
			}
		}
	}
	return f, false
}

// MayRefuse reports whether a refusal may hide in the beginning of an answer of
// success, so that reading it is worth while: nearly every answer says nothing
// of errors.
func MayRefuse(beginning []byte) bool {
	return bytes.Contains(beginning, []byte("rror")) || bytes.Contains(beginning, []byte("RATE_LIMITED"))
}

// firstObject is the document's object, or the first of a list of them: Google
// streams a list. It is false where the object is cut.
func firstObject(doc []byte) (map[string]any, bool) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	if doc = bytes.TrimSpace(doc); len(doc) > 0 && doc[0] == '[' {
		if _, err := d.Token(); err != nil {
			return nil, false
		}
	}
	var o map[string]any
	return o, d.Decode(&o) == nil && o != nil
}

// refuses is true for an object that is an error and no answer.
func refuses(o map[string]any) bool {
	refused := false
	for name, v := range o {
		switch name = strings.ToLower(name); name {
		case "error":
			refused = refused || !empty(v, 0)
		case "type":
			refused = refused || v == "error"
		case "response":
			// A failed one of OpenAI's responses, told as an event.
			r, _ := v.(map[string]any)
			kind, _ := o["type"].(string)
			refused = refused || strings.HasPrefix(kind, "response.") && !empty(r["error"], 0)
			if s, ok := v.(string); ok && s != "" {
				return false
			}
		case "delta":
			// The end of a stream of Cohere's, which says why.
			d, _ := v.(map[string]any)
			refused = refused || d["finish_reason"] == "ERROR" && !empty(d["error"], 0)
		case "errors":
			refused = refused || o["success"] == false && !empty(v, 0) || rateLimited(v)
		case "message":
			// A sentence is the error's, an object the answer.
			if m, ok := v.(map[string]any); ok && !empty(m, 0) {
				return false
			}
		case "choices":
			if !empty(v, 0) && !brokenOff(v) {
				return false
			}
		case "output", "content", "candidates", "data", "embeddings", "embedding", "results", "predictions", "generated_text":
			if !empty(v, 0) {
				return false
			}
		}
	}
	return refused
}

// rateLimited is true for GraphQL's way of refusing under a 200.
func rateLimited(errors any) bool {
	list, _ := errors.([]any)
	return slices.ContainsFunc(list, func(v any) bool {
		o, _ := v.(map[string]any)
		return o["type"] == "RATE_LIMITED"
	})
}

// brokenOff is true for choices that say that they end in an error and have said
// nothing.
func brokenOff(choices any) bool {
	list, _ := choices.([]any)
	for _, v := range list {
		o, _ := v.(map[string]any)
		if o["finish_reason"] != "error" {
			return false
		}
		for _, part := range []string{"message", "delta"} {
			if m, _ := o[part].(map[string]any); !empty(m["content"], 0) {
				return false
			}
		}
	}
	return len(list) > 0
}

// preamble is true for an event that comes before anything is generated.
func preamble(name string, o map[string]any) bool {
	kind, _ := o["type"].(string)
	switch cmp.Or(kind, name) {
	case "ping", "keepalive", "response.created", "response.queued", "response.in_progress", "message_start", "message-start":
		return true
	}
	return len(o) == 0
}

// empty is true for a value that says that there is nothing: of lists and
// objects, that all in them is empty.
func empty(v any, depth int) bool {
	if depth > maxDepth {
		return false
	}
	switch v := v.(type) {
	case nil:
		return true
	case string:
		switch strings.ToLower(strings.TrimSpace(v)) {
		case "", "0", "none", "null", "false", "no error", "ok":
			return true
		}
		return false
	case bool:
		return !v
	case json.Number:
		return strings.Trim(v.String(), "0.") == ""
	case map[string]any:
		for _, item := range v {
			if !empty(item, depth+1) {
				return false
			}
		}
		return true
	case []any:
		return !slices.ContainsFunc(v, func(item any) bool { return !empty(item, depth+1) })
	}
	return false
}
