package dialect

// The bounds of what a usageReader keeps.
const (
	mostUsage = 4 << 10 // of a usage object
	mostName  = 48      // of a field's name: enough to tell those that matter
)

// A usageReader finds the objects that say what an answer cost in a JSON
// document that comes in pieces, and how much text it holds. A list around
// everything, as Google streams it, is passed over.
type usageReader struct {
	depth   int
	text    bool           // in a string
	escaped bool           // behind a backslash in it
	name    [mostName]byte // the beginning of the latest string
	n       int            // how much of name is filled
	long    bool           // the string is longer
	key     keyKind        // the name that the value here has
	// inside is whether the object at depth 2 is one to look into; kept what the
	// object that is being kept stands at, 0 for none.
	inside bool
	kept   int
	value  []byte
	done   bool // value is whole
	// counts are those that stand in the document itself; number is the one that
	// is being read, and belongs to counting, nil for none.
	counts   Usage
	counted  bool
	counting *int
	number   int
	// repeats is true for a document that repeats what others have brought, and
	// written how many bytes of text all of them have.
	repeats bool
	written int64
}

// A keyKind says what kind of field a name stands for.
type keyKind int

const (
	otherKey keyKind = iota
	textKey          // what the model writes
	typeKey          // what kind of event it is
)

// kindOf tells a name under which APIs bring what the model writes.
func kindOf(name []byte) keyKind {
	switch string(name) {
	case "content", "text", "delta", "arguments", "thinking", "partial_json", "reasoning_content", "reasoning", "response", "input":
		return textKey
	case "type":
		return typeKey
	}
	return otherKey
}

// read looks at a part of the document, and returns what is left of it once
// value is whole.
func (r *usageReader) read(part []byte) (rest []byte) {
	for i := 0; i < len(part); i++ {
		c := part[i]
		if r.kept > 0 {
			if len(r.value) == mostUsage {
				r.kept, r.value = 0, r.value[:0] // no usage is so long
			} else {
				r.value = append(r.value, c)
			}
		}
		if r.text {
			i = r.readText(part, i)
			continue
		}
		switch c {
		case '"':
			r.text, r.n, r.long, r.counting = true, 0, false, nil
		case ':':
			r.named()
		case '{', '[':
			if r.depth == 0 && c == '[' {
				break
			}
			r.depth++
			r.open(c)
		case '}', ']':
			r.count()
			if r.depth == 0 {
				break
			}
			r.depth--
			if r.kept > r.depth {
				r.kept, r.done = 0, true
				return part[i+1:]
			}
			r.key = otherKey
		case ',':
			r.count()
			r.n, r.key = 0, otherKey
		default:
			if r.counting != nil {
				r.digit(c)
			}
		}
	}
	return nil
}

// named takes the latest string for the name of what follows.
func (r *usageReader) named() {
	r.key, r.counting, r.number = otherKey, nil, 0
	if r.long || r.kept > 0 {
		return
	}
	name := r.name[:r.n]
	if r.key = kindOf(name); r.depth == 1 {
		switch string(name) {
		case "prompt_eval_count", "tokens_evaluated": // Ollama, llama.cpp
			r.counting = &r.counts.Input
		case "eval_count", "tokens_predicted":
			r.counting = &r.counts.Output
		}
	}
}

// digit takes the next byte of a number. What is no digit spoils it.
func (r *usageReader) digit(c byte) {
	switch {
	case c >= '0' && c <= '9' && r.number < 1<<31/10-1:
		r.number = r.number*10 + int(c-'0')
	case c > ' ':
		r.counting = nil
	}
}

// count is the end of a number.
func (r *usageReader) count() {
	if r.counting != nil {
		*r.counting = max(*r.counting, r.number)
		r.counting, r.counted = nil, true
	}
}

// open is the beginning of an object or a list.
func (r *usageReader) open(c byte) {
	name := ""
	if c == '{' && !r.long {
		name = string(r.name[:r.n])
	}
	r.n, r.key, r.counting = 0, otherKey, nil
	switch {
	case r.kept > 0:
	case r.depth == 1:
		r.repeats = false
	case (name == "usage" || name == "usageMetadata" || name == "meta" || name == "amazon-bedrock-invocationMetrics") &&
		(r.depth == 2 || r.depth == 3 && r.inside):
		if r.value == nil {
			r.value = make([]byte, 0, 256)
		}
		r.kept, r.value = r.depth, append(r.value[:0], c)
	case r.depth == 2:
		r.inside = name == "response" || name == "message" || name == "delta" || name == "x_groq" || name == "result"
	}
}

// readText goes on in a string, and returns the index of the last byte it has
// looked at. Answers are mostly text, so what is not kept is passed over.
func (r *usageReader) readText(part []byte, i int) int {
	from := i
	if r.long && r.kept == 0 && !r.escaped {
		for i < len(part) && part[i] != '"' && part[i] != '\\' {
			i++
		}
	}
	if r.key == textKey && !r.repeats {
		r.written += int64(i - from)
	}
	if i == len(part) {
		return i
	}
	switch c := part[i]; {
	case r.escaped:
		r.escaped, r.long = false, true
	case c == '\\':
		r.escaped = true
	case c == '"':
		r.ended()
		return i
	case r.n < mostName:
		r.name[r.n] = c
		r.n++
	default:
		r.long = true
	}
	if r.key == textKey && !r.repeats {
		r.written++
	}
	return i
}

// ended is the end of a string.
func (r *usageReader) ended() {
	r.text = false
	if r.key == typeKey && r.depth == 1 && !r.long {
		// OpenAI brings an answer in deltas, and then all of it several times.
		kind := string(r.name[:r.n])
		r.repeats = len(kind) > 9 && kind[:9] == "response." && (len(kind) < 15 || kind[len(kind)-6:] != ".delta")
	}
	r.key = otherKey
}
