package dialect

import (
	"bytes"
	"encoding/json"
	"iter"
	"strconv"
	"strings"
)

// A raw is one JSON value as it stands in a body.
type raw []byte

// topLevel yields the fields of the outermost object of a document. It looks
// at each byte at most once, copies and keeps nothing, passes over what is
// nested without looking into it, and simply ends where the document is cut or
// is no JSON: bodies may be as large as people like, and a wrong one is the
// provider's to refuse.
func topLevel(doc []byte) iter.Seq2[string, raw] { return fieldsOf(doc, nil) }

// A seer is shown the strings of a document in passing: the outermost field
// that each stands in, how deep below its value, and the name it has there, nil
// in a list. The last may be cut.
type seer func(field string, depth int, name, value raw)

// fieldsOf is topLevel, and shows what it passes over.
func fieldsOf(doc []byte, see seer) iter.Seq2[string, raw] {
	return func(yield func(string, raw) bool) {
		i := skipSpace(doc, 0)
		if i >= len(doc) || doc[i] != '{' {
			return
		}
		for i++; ; i++ {
			i = skipSpace(doc, i)
			name := i
			i = endOfValue(doc, i)
			if i < 0 || doc[name] != '"' {
				return
			}
			key := doc[name+1 : i-1]
			field := string(key[:min(len(key), 64)])
			i = skipSpace(doc, i)
			if i >= len(doc) || doc[i] != ':' {
				return
			}
			value := skipSpace(doc, i+1)
			if see == nil {
				i = endOfValue(doc, value)
			} else {
				i = endOfSeen(doc, value, field, see)
			}
			if i < 0 || !yield(field, raw(doc[value:i])) {
				return
			}
			i = skipSpace(doc, i)
			if i >= len(doc) || doc[i] != ',' {
				return
			}
		}
	}
}

// endOfSeen is endOfValue, and shows the strings in the value.
func endOfSeen(doc []byte, i int, field string, see seer) int {
	if i >= len(doc) || doc[i] != '"' && doc[i] != '{' && doc[i] != '[' {
		return endOfValue(doc, i)
	}
	depth := 0
	var name raw
	for i < len(doc) {
		switch doc[i] {
		case '"':
			from := i
			if i = endOfString(doc, i); i < 0 {
				see(field, depth, name, raw(doc[from:]))
				return -1
			}
			if depth == 0 {
				see(field, 0, nil, raw(doc[from:i]))
				return i
			}
			if at := skipSpace(doc, i); at < len(doc) && doc[at] == ':' {
				name = raw(doc[from+1 : i-1])
			} else {
				see(field, depth, name, raw(doc[from:i]))
			}
			continue
		case '{', '[':
			depth++
			name = nil
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		case ',':
			name = nil
		}
		i++
	}
	return -1
}

func skipSpace(doc []byte, i int) int {
	for i < len(doc) && (doc[i] == ' ' || doc[i] == '\n' || doc[i] == '\t' || doc[i] == '\r') {
		i++
	}
	return i
}

// endOfValue is the index behind the value that begins at i, -1 where the
// document ends first.
func endOfValue(doc []byte, i int) int {
	if i >= len(doc) {
		return -1
	}
	switch doc[i] {
	case '"':
		return endOfString(doc, i)
	case '{', '[':
		depth := 0
		for i < len(doc) {
			switch doc[i] {
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			case '"':
				if i = endOfString(doc, i); i < 0 {
					return -1
				}
				continue
			}
			i++
		}
		return -1
	}
	from := i
	for i < len(doc) && doc[i] != ',' && doc[i] != '}' && doc[i] != ']' && doc[i] > ' ' {
		i++
	}
	if i == from || i == len(doc) {
		return -1
	}
	return i
}

// endOfString is the index behind the string that begins at i, -1 where the
// document ends first. Most strings are a few bytes, or so long (images, files)
// that the search had better go from quote to quote.
func endOfString(doc []byte, i int) int {
	i++
	for near := min(len(doc), i+24); i < near; i++ {
		switch doc[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	for ; i < len(doc); i++ {
		n := bytes.IndexByte(doc[i:], '"')
		if n < 0 {
			return -1
		}
		// From i on: what is before it is not part of a run that counts.
		escapes := 0
		for escapes < n && doc[i+n-1-escapes] == '\\' {
			escapes++
		}
		if i += n; escapes%2 == 0 {
			return i + 1
		}
	}
	return -1
}

// text is a string value, bounded; false for anything else.
func (v raw) text() (string, bool) {
	if len(v) < 2 || len(v) > 512 || v[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return strings.ToValidUTF8(string(v[1:len(v)-1]), ""), true
	}
	var s string
	return s, json.Unmarshal(v, &s) == nil
}

// natural is a whole number that fits a token count, 0 for anything else.
func (v raw) natural() int {
	whole, _, ok := decimal(string(v[:min(len(v), 32)]))
	if !ok || len(v) > 32 {
		return 0
	}
	n, err := strconv.ParseInt(whole, 10, 32)
	if err != nil {
		return 0
	}
	return int(n)
}
