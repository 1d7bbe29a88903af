package dialect

import (
	"net/http"
	"strings"
)

// A Meter looks on while an answer passes and finds what it says that it cost.
// It is given the body as it comes, in pieces of any size, keeps a few
// kilobytes at most, and ends with what it has found where it makes no sense of
// the rest. It may be asked at any time.
type Meter struct {
	split splitter // nil where the body is one document
	doc   usageReader
	usage Usage
	told  bool
}

// A splitter takes the documents out of a stream: it hands on their parts, and
// says where each ends.
type splitter interface {
	read(piece []byte, part func([]byte), end func())
}

// MeterOf returns a meter for an answer with this head, nil where neither the
// head nor a body of its kind tells what it cost.
func MeterOf(status int, h http.Header) *Meter {
	if status != http.StatusOK {
		return nil
	}
	m := &Meter{}
	m.take(usageIn(h))
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	switch strings.ToLower(strings.TrimSpace(kind)) {
	case "application/json":
	case "text/event-stream":
		m.split = &eventLines{}
	case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/stream+json":
		m.split = jsonLines{}
	case "application/vnd.amazon.eventstream":
		m.split = &awsFrames{}
	default:
		if !m.told {
			return nil
		}
		m.split = nothing{}
	}
	return m
}

// usageIn is what headers tell: those of Bedrock's own API, and of text
// generation servers.
func usageIn(h http.Header) (u Usage, told bool) {
	for _, f := range []struct {
		name  string
		to    *int
		apart bool
	}{
		{"X-Amzn-Bedrock-Input-Token-Count", &u.Input, false},
		{"X-Amzn-Bedrock-Output-Token-Count", &u.Output, false},
		{"X-Amzn-Bedrock-Cache-Read-Input-Token-Count", &u.CachedInput, true},
		{"X-Amzn-Bedrock-Cache-Write-Input-Token-Count", &u.CacheWrites, true},
		{"X-Prompt-Tokens", &u.Input, false},
		{"X-Generated-Tokens", &u.Output, false},
	} {
		if n, ok := raw(h.Get(f.name)).tokens(); ok {
			*f.to = n
			told = true
			if f.apart {
				u.Input += n
			}
		}
	}
	return u, told
}

// Write looks at the next piece of the body. It keeps nothing of it.
func (m *Meter) Write(piece []byte) (int, error) {
	if m.split != nil {
		m.split.read(piece, m.part, m.end)
	} else {
		m.part(piece)
	}
	return len(piece), nil
}

// part is a part of a document.
func (m *Meter) part(part []byte) {
	for len(part) > 0 {
		part = m.doc.read(part)
		m.take(m.doc.counts, m.doc.counted)
		if m.doc.done {
			m.take(usageOf(m.doc.value))
			m.doc.done, m.doc.value = false, m.doc.value[:0]
		}
	}
}

// end is the end of a document.
func (m *Meter) end() { m.doc = usageReader{value: m.doc.value[:0], written: m.doc.written} }

// take keeps the largest number of each kind: streams say it several times,
// each in total so far, and not always all of it.
func (m *Meter) take(u Usage, told bool) {
	m.told = m.told || told
	m.usage = Usage{
		Input:       max(m.usage.Input, u.Input),
		CachedInput: max(m.usage.CachedInput, u.CachedInput),
		CacheWrites: max(m.usage.CacheWrites, u.CacheWrites),
		Output:      max(m.usage.Output, u.Output),
	}
}

// Usage is what the answer has told so far, false where it has told nothing. An
// answer that says that it cost nothing has told that.
func (m *Meter) Usage() (Usage, bool) { return m.usage, m.told }

// Produced is about how many tokens the answer has brought so far, from the
// length of its text: most streams tell what they cost at their end only, and
// one that is cut never does.
func (m *Meter) Produced() int {
	return max(m.usage.Output, int(min(m.doc.written/bytesPerToken, 1<<31-1)))
}

// usageOf reads a usage object, whoever wrote it; false where it tells nothing.
func usageOf(object []byte) (u Usage, told bool) {
	r := usageFields{Usage: &u}
	r.read(object)
	u.Input += r.apart
	if u.Output > 0 {
		// Some leave what the model thought out of it, but not out of the sum.
		u.Output = max(u.Output, r.total-u.Input)
	}
	return u, r.told
}

// usageFields are what a usage object says.
type usageFields struct {
	*Usage
	apart int // of the input, counted beside it
	total int
	told  bool
}

func (r *usageFields) read(object []byte) {
	thoughts, tools := 0, 0
	for name, value := range topLevel(object) {
		n, ok := value.tokens()
		to := (*int)(nil)
		switch name {
		case "prompt_tokens", "input_tokens", "promptTokenCount", "inputTokens", "inputTokenCount":
			to = &r.Input
		case "completion_tokens", "output_tokens", "candidatesTokenCount", "outputTokens", "outputTokenCount":
			to = &r.Output
		case "thoughtsTokenCount":
			to = &thoughts
		case "toolUsePromptTokenCount":
			to = &tools
		case "total_tokens", "totalTokenCount", "totalTokens":
			to = &r.total
		case "cached_tokens", "cachedContentTokenCount", "prompt_cache_hit_tokens", "num_cached_tokens":
			to = &r.CachedInput
		case "cache_read_input_tokens", "cacheReadInputTokens":
			to = &r.CachedInput
			r.apart += n
		case "cache_creation_input_tokens", "cacheWriteInputTokens":
			to = &r.CacheWrites
			r.apart += n
		case "prompt_tokens_details", "input_tokens_details", "tokens", "billed_units":
			r.read(value)
		}
		if to != nil && ok {
			*to = max(*to, n)
			r.told = true
		}
	}
	r.Output += thoughts
	r.Input += tools
}

// tokens is a whole number that fits a token count, false for anything else.
func (v raw) tokens() (int, bool) {
	n := v.natural()
	return n, n > 0 || string(v) == "0"
}
