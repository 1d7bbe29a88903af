package redis

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// What a key is of, behind the tag.
const (
	bucketKey   = "b"
	throttleKey = "t"
	recordKey   = "p"
	blobKey     = "s"
)

// A hash stands for a name in a key, so that a name may be as long as it likes
// and its key shows nothing of it. It is 22 letters.
type hash [16]byte

func hashOf(name string) (h hash) {
	sum := sha256.Sum256([]byte(name))
	copy(h[:], sum[:])
	return h
}

var letters = base64.RawURLEncoding.Strict()

func (l *Limiter) key(kind string, h hash) string {
	b := make([]byte, 0, 64)
	b = append(b, l.tag...)
	b = append(b, kind...)
	return string(letters.AppendEncode(b, h[:]))
}

// A permit says itself where it holds places, so that nothing else has to be
// stored for it: its name, whether it has a record of what it counts, and its
// buckets.
type permit struct {
	name    [permitName]byte
	record  bool
	buckets []hash
}

const permitName = 12

func (p permit) String() string {
	b := make([]byte, 0, 64)
	b = append(b, p.name[:]...)
	if p.record {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	for _, h := range p.buckets {
		b = append(b, h[:]...)
	}
	return letters.EncodeToString(b)
}

// permitOf reads what String wrote; anything else is not ok.
func permitOf(s string) (p permit, ok bool) {
	b, err := letters.DecodeString(s)
	if err != nil || len(b) <= permitName || (len(b)-permitName-1)%len(hash{}) != 0 || b[permitName] > 1 {
		return p, false
	}
	copy(p.name[:], b)
	p.record = b[permitName] == 1
	for b = b[permitName+1:]; len(b) > 0; b = b[len(hash{}):] {
		p.buckets = append(p.buckets, hash(b))
	}
	return p, p.record || len(p.buckets) > 0
}

// recordOf is the key of what a permit's call counts.
func (l *Limiter) recordOf(name [permitName]byte) string {
	return l.tag + recordKey + letters.EncodeToString(name[:])
}

// name is that of this limiter's n-th permit.
func (l *Limiter) name(n uint32) (name [permitName]byte) {
	copy(name[:], l.prefix[:])
	binary.LittleEndian.PutUint32(name[len(l.prefix):], n)
	return name
}

// names are n numbers in a row. They come again after four billion.
func (l *Limiter) names(n int) (first uint32) {
	for {
		last := l.number.Add(uint32(n))
		if last >= uint32(n) {
			return last - uint32(n)
		}
	}
}
