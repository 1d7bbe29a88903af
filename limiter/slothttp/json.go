package slothttp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"unicode/utf8"
)

// A value is a piece of JSON that json.Valid has seen, without space around it.
// A batch is hundreds of small objects: reading them with encoding/json, which
// looks at each byte four times and allocates for each number, costs more than
// all the rest of a batch.
type value []byte

// parse is the value of a text, nil where it is no JSON.
func parse(text []byte) value {
	if !json.Valid(text) {
		return nil
	}
	start := space(text, 0)
	return value(text[start:end(text, start)])
}

// space is where the next sign that is none is, at i or later.
func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// end is where the value that begins at i ends.
func end(b []byte, i int) int {
	switch b[i] {
	case '"':
		return textEnd(b, i)
	case '{', '[':
		for depth := 0; ; i++ {
			switch b[i] {
			case '"':
				i = textEnd(b, i) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	}
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
		i++
	}
	return i
}

func textEnd(b []byte, i int) int {
	for i++; ; {
		n := bytes.IndexByte(b[i:], '"')
		if bytes.IndexByte(b[i:i+n], '\\') < 0 {
			return i + n + 1
		}
		for stop := i + n; i <= stop; i++ { // to behind what is escaped
			if b[i] == '\\' {
				i++
			} else if b[i] == '"' {
				return i + 1
			}
		}
	}
}

// is reports whether a value begins so: { [ " or n for null.
func (v value) is(sign byte) bool { return len(v) > 0 && v[0] == sign }

// fields are those of an object, but those that are null: that stands for what
// is left out.
func (v value) fields() iter.Seq2[[]byte, value] {
	return func(yield func([]byte, value) bool) {
		for i := space(v, 1); v[i] != '}'; i = space(v, i) {
			if v[i] == ',' {
				i = space(v, i+1)
			}
			after := textEnd(v, i)
			name := v[i+1 : after-1]
			if bytes.IndexByte(name, '\\') >= 0 {
				name = value(v[i:after].text())
			}
			i = space(v, space(v, after)+1) // behind the colon
			after = end(v, i)
			if v[i] != 'n' && !yield(name, v[i:after]) {
				return
			}
			i = after
		}
	}
}

// items are those of a list.
func (v value) items() iter.Seq2[int, value] {
	return func(yield func(int, value) bool) {
		for i, n := space(v, 1), 0; v[i] != ']'; i, n = space(v, i), n+1 {
			if v[i] == ',' {
				i = space(v, i+1)
			}
			after := end(v, i)
			if !yield(n, v[i:after]) {
				return
			}
			i = after
		}
	}
}

// text is what a text says.
func (v value) text() string {
	plain := v[1 : len(v)-1]
	if bytes.IndexByte(plain, '\\') < 0 && utf8.Valid(plain) {
		return string(plain)
	}
	var s string
	_ = json.Unmarshal(v, &s) // it is a text
	return s
}

// ifText is what a value says if it is a text, and else nothing.
func (v value) ifText() string {
	if !v.is('"') {
		return ""
	}
	return v.text()
}

// whole is a number without a fraction.
func (v value) whole() (int64, bool) {
	n, err := strconv.ParseInt(string(v), 10, 64)
	return n, err == nil
}

// shown is a value for people: a text may be long, or nobody's business.
func (v value) shown() string {
	switch {
	case v.is('"'):
		return "a text"
	case v.is('{'):
		return "an object"
	case v.is('['):
		return "a list"
	}
	return fmt.Sprintf("%.40s", []byte(v))
}

// appendText writes a text as JSON.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // of a text it cannot fail
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// appendWhole writes a number behind its name, unless it is 0.
func appendWhole(b []byte, name string, n int64) []byte {
	if n == 0 {
		return b
	}
	b = append(b, name...)
	return strconv.AppendInt(b, n, 10)
}
