package postgres

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// An id is what a key is known by in the database: keys may be of any length and
// hold any bytes, text in PostgreSQL may not.
type id [16]byte

func idOf(key string) id {
	sum := sha256.Sum256([]byte(key))
	return id(sum[:16])
}

// An index numbers keys from 1, in the order of their ids, which is that of their
// locks.
type index struct {
	ids  []id
	keys []string
}

// add names a key that may have been added before.
func (x *index) add(key string) {
	i := idOf(key)
	if at, ok := slices.BinarySearchFunc(x.ids, i, compareIDs); !ok {
		x.ids = slices.Insert(x.ids, at, i)
		x.keys = slices.Insert(x.keys, at, key)
	}
}

// number is that of a key, once all have been added.
func (x *index) number(key string) int64 {
	at, _ := slices.BinarySearchFunc(x.ids, idOf(key), compareIDs)
	return int64(at) + 1
}

func compareIDs(a, b id) int { return bytes.Compare(a[:], b[:]) }

func appendIDs(b []byte, ids ...id) []byte {
	b = append(b, `'{`...)
	for i, x := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = hex.AppendEncode(b, x[:])
	}
	return append(b, `}'::uuid[]`...)
}

func appendID(b []byte, x id) []byte {
	b = append(b, '\'')
	b = hex.AppendEncode(b, x[:])
	return append(b, `'::uuid`...)
}

func appendNumbers(b []byte, ns ...int64) []byte {
	b = append(b, `'{`...)
	for i, n := range ns {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return append(b, `}'::bigint[]`...)
}

// parseArray reads an array of numbers as PostgreSQL writes it.
func parseArray(text []byte) ([]int64, error) {
	inner, ok := bytes.CutPrefix(text, []byte("{"))
	inner, end := bytes.CutSuffix(inner, []byte("}"))
	if !ok || !end {
		return nil, fmt.Errorf("%.100q is no array", text)
	}
	var ns []int64
	for piece := range bytes.SplitSeq(inner, []byte(",")) {
		n, err := strconv.ParseInt(string(piece), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%.100q is no array of numbers", text)
		}
		ns = append(ns, n)
	}
	return ns, nil
}

// micros is a duration in microseconds, rounded up: no window and no hold is
// shorter than it was said to be.
func micros(d time.Duration) int64 {
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	return us
}
