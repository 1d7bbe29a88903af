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
func topLevel(doc []byte) iter.Seq2[string, raw] {
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
			i = skipSpace(doc, i)
			if i >= len(doc) || doc[i] != ':' {
				return
			}
			value := skipSpace(doc, i+1)
			i = endOfValue(doc, value)
			if i < 0 || !yield(string(key[:min(len(key), 64)]), raw(doc[value:i])) {
				return
			}
			i = skipSpace(doc, i)
			if i >= len(doc) || doc[i] != ',' {
				return
			}
		}
	}
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

// endOfString is the index behind the string that begins at i. Long strings
// (images, files) have few backslashes, so the search goes from quote to quote.
func endOfString(doc []byte, i int) int {
	for i++; ; i++ {
		n := bytes.IndexByte(doc[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		escapes := 0
		for doc[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
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
