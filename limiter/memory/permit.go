package memory

import (
	"encoding/binary"
	"unsafe"
)

// A permit is 64 bits: its number, and where its first place is, which knows it
// by heart. Each shard counts its permits from a number drawn when the limiter
// starts, so that neither an earlier holder of a place nor a permit from another
// process is taken for the holder of today: a shard would have to issue exactly
// four billion permits in between, or to draw one number of as many. A shard
// would need 4 GiB of places before an index did not fit.
const (
	numberBits = 32
	shardBits  = 6
	indexBits  = 26
)

// Four bits to a letter from a to p: eight letters are one word, written and
// read without a table.
const (
	permitLength = (numberBits + shardBits + indexBits) / 4

	letters = 0x6161616161616161 // "aaaaaaaa"
	nibbles = 0x0f0f0f0f0f0f0f0f
)

// permitsAtOnce share an allocation of 512 bytes.
const permitsAtOnce = 32

// format writes the next permit. It is cut from a text of several, so that most
// grants allocate nothing; who keeps one keeps the 512 bytes.
func (s *shard) format(home placeID) string {
	if len(s.paper) == 0 {
		s.paper = make([]byte, permitLength*permitsAtOnce)
	}
	b := s.paper[:permitLength]
	s.paper = s.paper[permitLength:]
	put(b[:8], uint64(s.number))
	put(b[8:], home.shard<<indexBits|home.index)
	s.number++
	return unsafe.String(&b[0], permitLength) // nobody writes there again
}

// homeOf is where a permit's first place would be, unless it is no permit.
func homeOf(permit string) (home placeID, ok bool) {
	if len(permit) != permitLength {
		return placeID{}, false
	}
	at, ok := get(permit[8:])
	return placeID{shard: at >> indexBits, index: at & (1<<indexBits - 1)}, ok
}

// bitsOf is a permit as a number, as the journal has it.
func bitsOf(permit string) uint64 {
	number, _ := get(permit[:8])
	at, _ := get(permit[8:])
	return number<<32 | at
}

// put writes 32 bits.
func put(b []byte, v uint64) {
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
