package dialect

import (
	"bytes"
	"encoding/json"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// A fault is what a refusal's body says, whatever shape its error has: an
// object, a string, a list, one inside a string, one inside an event.
type fault struct {
	// status is an HTTP status given in the body, 0 where none is.
	status int
	// codes are the machine codes, as [plainCode] writes them.
	codes []string
	// spelled is how the answer writes a code, for people.
	spelled map[string]string
	// texts are the sentences meant for people, bounded.
	texts []string
	// hints are body fields that name a wait, under lower-case names.
	hints map[string]string
	// headers are response headers that a gateway put into its error.
	headers map[string]string
	// policies are the names of the rate limit policies a problem document
	// calls violated.
	policies []string
	google   google
}

// Bounds on what is looked at: a refusal's body is short, and whatever is
// longer is somebody's attempt or another kind of answer.
const (
	maxBody  = 1 << 20
	maxText  = 4096
	maxTexts = 16
	maxCodes = 64
	maxDepth = 8
)

// readFault takes the error out of a refusal's body. A body that is cut or is
// not JSON has no codes: nothing is matched out of its pieces. Plain text is one
// sentence, HTML is nothing.
func readFault(body []byte) fault {
	var f fault
	body = trimBody(body)
	switch {
	case len(body) == 0 || len(body) > maxBody || body[0] == '<':
		return f
	case body[0] == '{' || body[0] == '[':
		f.json(body, 0)
	case isEventStream(body):
		for e := range events(body) {
			f.json(e.data, 0)
		}
	default:
		var s string
		if json.Unmarshal(body, &s) == nil {
			f.text(s, 0)
		} else if body[0] != '"' {
			f.text(string(body), 0)
		}
	}
	return f
}

func trimBody(body []byte) []byte {
	return bytes.TrimLeft(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")), " \t\r\n")
}

// json reads one document into the fault.
func (f *fault) json(doc []byte, depth int) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return
	}
	// Google's streams put the error into a list.
	f.inside(v, depth)
}

// object takes what it knows out of one object and those inside it. Names are
// visited in order, so that one body always reads the same.
func (f *fault) object(o map[string]any, depth int) {
	if depth > maxDepth {
		return
	}
	f.google.detail(o)
	names := make([]string, 0, len(o))
	for name := range o {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		f.field(strings.ToLower(name), o[name], depth)
	}
}

func (f *fault) field(name string, v any, depth int) {
	switch name {
	case "error", "errors", "details", "detail", "metadata", "response", "fault", "delta":
		f.inside(v, depth+1)
		if s, ok := v.(string); ok {
			if !strings.Contains(s, " ") {
				f.code(s)
			}
			f.text(s, depth)
		}
	case "code", "type", "status", "reason", "__type", "error_type", "error_code", "errorcode", "limit_source":
		switch v := v.(type) {
		case string:
			f.code(v)
		case json.Number:
			f.code(v.String())
		}
	case "message", "msg", "error_description", "title", "error_message":
		if s, ok := v.(string); ok {
			f.text(s, depth)
		}
	case "headers":
		if o, ok := v.(map[string]any); ok {
			f.nested(o)
		}
	case "violated-policies":
		list, _ := v.([]any)
		for _, p := range list {
			if s, ok := p.(string); ok && len(f.policies) < maxCodes {
				f.policies = append(f.policies, s)
			}
		}
	default:
		if slices.Contains(waitFields, name) {
			f.hint(name, v)
		}
	}
}

// inside goes into objects and lists of them.
func (f *fault) inside(v any, depth int) {
	switch v := v.(type) {
	case map[string]any:
		f.object(v, depth)
	case []any:
		for i, item := range v {
			if o, ok := item.(map[string]any); ok && i < maxCodes {
				f.object(o, depth)
			}
		}
	}
}

func (f *fault) code(s string) {
	if n, err := strconv.Atoi(s); err == nil && n >= 400 && n <= 599 && digits(s) && f.status == 0 {
		f.status = n
	}
	plain := plainCode(s)
	if plain == "" || len(f.codes) >= maxCodes {
		return
	}
	f.codes = append(f.codes, plain)
	if f.spelled == nil {
		f.spelled = make(map[string]string)
	}
	if f.spelled[plain] == "" {
		f.spelled[plain] = brief(s)
	}
}

// text keeps a sentence, or reads the document that some gateways put there.
func (f *fault) text(s string, depth int) {
	s = strings.TrimSpace(s)
	if (strings.HasPrefix(s, "{") || strings.HasPrefix(s, "[")) && depth < 3 && json.Valid([]byte(s)) {
		f.json([]byte(s), depth+3)
		return
	}
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "")
	}
	if s != "" && len(f.texts) < maxTexts {
		f.texts = append(f.texts, s)
	}
}

func (f *fault) hint(name string, v any) {
	s, ok := literal(v)
	if !ok {
		return
	}
	if f.hints == nil {
		f.hints = make(map[string]string)
	}
	if _, taken := f.hints[name]; !taken {
		f.hints[name] = s
	}
}

func (f *fault) nested(o map[string]any) {
	for name, v := range o {
		if s, ok := literal(v); ok && len(name) < 128 {
			if f.headers == nil {
				f.headers = make(map[string]string)
			}
			f.headers[strings.ToLower(strings.TrimSpace(name))] = s
		}
	}
}

// literal is a string or a number as it was written.
func literal(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, len(v) <= maxText
	case json.Number:
		return v.String(), true
	}
	return "", false
}
