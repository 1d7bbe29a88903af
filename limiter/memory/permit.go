package memory

import (
	"encoding/binary"
	"unsafe"
)

// A permit is 96 bits: who issued it, the generation of its first place, and
// where that place is. A shard would need 4 GiB of places before an index did
// not fit.
const (
	nonceBits      = 24
	generationBits = 40
	shardBits      = 6
	indexBits      = 26
)

// Four bits to a letter from a to p: eight letters are one word, written and
// read without a table.
const (
	permitLength = (nonceBits + generationBits + shardBits + indexBits) / 4

	letters = 0x6161616161616161 // "aaaaaaaa"
	nibbles = 0x0f0f0f0f0f0f0f0f
)

// permitsAtOnce share an allocation of 504 bytes, in a size class of 512.
const permitsAtOnce = 21

// format writes a permit. It is cut from a text of several, so that most grants
// allocate nothing; who keeps one keeps the 512 bytes.
func (s *shard) format(nonce uint64, id placeID) string {
	if s.written == len(s.paper) {
		s.paper, s.written = make([]byte, permitLength*permitsAtOnce), 0
	}
	b := s.paper[s.written : s.written+permitLength]
	s.written += permitLength
	put(b[0:8], nonce<<8|id.generation>>32)
	put(b[8:16], id.generation)
	put(b[16:24], id.shard<<indexBits|id.index)
	return unsafe.String(&b[0], permitLength) // nobody writes there again
}

// parse reads a permit, unless it is none of ours.
func (l *Limiter) parse(permit string) (id placeID, ok bool) {
	if len(permit) != permitLength || !l.ready.Load() {
		return placeID{}, false
	}
	first, ok1 := get(permit[0:8])
	second, ok2 := get(permit[8:16])
	third, ok3 := get(permit[16:24])
	return placeID{
		shard:      third >> indexBits,
		index:      third & (1<<indexBits - 1),
		generation: first&0xff<<32 | second,
	}, ok1 && ok2 && ok3 && first>>8 == l.nonce
}

// put writes the low 32 bits of v.
func put(b []byte, v uint64) {
	v &= 0xffffffff
	v = (v | v<<16) & 0x0000ffff0000ffff
	v = (v | v<<8) & 0x00ff00ff00ff00ff
	v = (v | v<<4) & nibbles
	binary.LittleEndian.PutUint64(b, v+letters)
}

// get reads what put wrote; a letter beyond a to p is not ok.
func get(s string) (v uint64, ok bool) {
	_ = s[7] // one load
	v = uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
	v -= letters
	if v&^nibbles != 0 {
		return 0, false
	}
	v = (v | v>>4) & 0x00ff00ff00ff00ff
	v = (v | v>>8) & 0x0000ffff0000ffff
	v = (v | v>>16) & 0x00000000ffffffff
	return v, true
}
