package memory

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"strings"
)

// A journal is a header and records of one size, each with its own sum, so
// that a damaged one costs itself alone and an incomplete one at the end is
// recognised. Keys are written once and have a number.
const (
	recordSize = 48
	headerSize = 2 * recordSize
	version    = 1
	magic      = "paceline journal"
)

type kind uint8

const (
	aKey      kind = iota + 1 // key: its number, amount: its length; its text follows
	aText                     // a piece of the key before
	aWindow                   // span: a bucket has been asked with it
	aGrant                    // amount: cost, span: the window's
	anEntry                   // the same, for that window alone: what a snapshot holds
	aPermit                   // amount: the permit, span: its hold
	aRelease                  // amount: the permit
	aRenewal                  // amount: the permit, span: its hold
	aThrottle                 // span: how long
	anOpening                 // the end of a throttle
	aReturn                   // amount: what a grant of this instant counts less, span: the window's
	lastKind  = aReturn
)

// A record is one thing that happened. All instants are told by two clocks: the
// machine's since it was started, and the wall's.
type record struct {
	kind   kind
	more   bool // the next one is of the same call and the same bucket
	key    uint64
	amount uint64
	span   int64
	boot   int64
	wall   int64
	text   string // of aText, at most textSize
}

const textSize = recordSize - 8

var sums = crc32.MakeTable(crc32.Castagnoli)

// add appends a record to b.
func (r *record) add(b []byte) []byte {
	var raw [recordSize]byte
	raw[4] = byte(r.kind)
	if r.more {
		raw[5] = 1
	}
	if r.kind == aText {
		raw[6] = byte(len(r.text))
		copy(raw[8:], r.text)
	} else {
		binary.LittleEndian.PutUint64(raw[8:], r.key)
		binary.LittleEndian.PutUint64(raw[16:], r.amount)
		binary.LittleEndian.PutUint64(raw[24:], uint64(r.span))
		binary.LittleEndian.PutUint64(raw[32:], uint64(r.boot))
		binary.LittleEndian.PutUint64(raw[40:], uint64(r.wall))
	}
	binary.LittleEndian.PutUint32(raw[:], crc32.Checksum(raw[4:], sums))
	return append(b, raw[:]...)
}

// parse reads a record, if that is what raw holds.
func parse(raw []byte) (r record, ok bool) {
	if binary.LittleEndian.Uint32(raw) != crc32.Checksum(raw[4:recordSize], sums) {
		return r, false
	}
	r.kind, r.more = kind(raw[4]), raw[5] == 1
	if r.kind == 0 || r.kind > lastKind {
		return r, false
	}
	if r.kind == aText {
		if raw[6] > textSize {
			return r, false
		}
		r.text = string(raw[8 : 8+raw[6]])
		return r, true
	}
	r.key = binary.LittleEndian.Uint64(raw[8:])
	r.amount = binary.LittleEndian.Uint64(raw[16:])
	r.span = int64(binary.LittleEndian.Uint64(raw[24:]))
	r.boot = int64(binary.LittleEndian.Uint64(raw[32:]))
	r.wall = int64(binary.LittleEndian.Uint64(raw[40:]))
	return r, r.span >= 0
}

// addKey appends a key and its text.
func addKey(b []byte, number uint64, key string) []byte {
	b = (&record{kind: aKey, key: number, amount: uint64(len(key))}).add(b)
	for len(key) > 0 {
		n := min(textSize, len(key))
		b = (&record{kind: aText, text: key[:n]}).add(b)
		key = key[n:]
	}
	return b
}

// header begins a journal of the machine's present run.
func header(bootID string) []byte {
	raw := make([]byte, headerSize)
	copy(raw, magic)
	binary.LittleEndian.PutUint32(raw[16:], version)
	raw[20] = byte(copy(raw[24:headerSize-4], bootID))
	binary.LittleEndian.PutUint32(raw[headerSize-4:], crc32.Checksum(raw[:headerSize-4], sums))
	return raw
}

var (
	errForeign = errors.New("not a journal")
	errNewer   = errors.New("a newer version's journal")
)

// parseHeader says in which run of the machine a journal was begun.
func parseHeader(raw []byte) (bootID string, err error) {
	if len(raw) < headerSize || string(raw[:len(magic)]) != magic {
		return "", errForeign
	}
	if binary.LittleEndian.Uint32(raw[16:]) > version {
		return "", errNewer
	}
	n := int(raw[20])
	if binary.LittleEndian.Uint32(raw[headerSize-4:]) != crc32.Checksum(raw[:headerSize-4], sums) || n > headerSize-28 {
		return "", errForeign
	}
	return string(raw[24 : 24+n]), nil
}

// A scan reads the records of a journal and gives keys back their text.
type scan struct {
	in      *bufio.Reader
	keys    map[uint64]string
	records int
	damaged bool  // something before the end could not be read
	cut     int64 // bytes at the end that could not be read

	number  uint64 // of the key whose text is being read
	missing uint64 // how much of it is missing
	text    strings.Builder
}

func newScan(r io.Reader) *scan {
	return &scan{in: bufio.NewReaderSize(r, 1<<16), keys: map[uint64]string{}}
}

// next is the next record that is not part of a key. Unreadable ones are passed
// over. At the end ok is false, with what kept it from reading, if anything.
func (s *scan) next() (r record, ok bool, err error) {
	var raw [recordSize]byte
	for {
		n, err := io.ReadFull(s.in, raw[:])
		switch {
		case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
			s.cut += int64(n)
			return r, false, nil
		case err != nil:
			return r, false, err
		}
		r, ok := parse(raw[:])
		if !ok {
			s.cut += recordSize
			continue
		}
		s.records++
		if s.cut > 0 { // not the end
			s.damaged, s.cut = true, 0
		}
		switch r.kind {
		case aKey:
			s.damaged = s.damaged || s.missing > 0
			s.number, s.missing = r.key, r.amount
			s.text.Reset()
			if s.missing == 0 {
				s.keys[s.number] = ""
			}
		case aText:
			if uint64(len(r.text)) > s.missing {
				s.damaged, s.missing = true, 0 // its beginning is lost
				continue
			}
			s.text.WriteString(r.text)
			if s.missing -= uint64(len(r.text)); s.missing == 0 {
				s.keys[s.number] = s.text.String()
			}
		default:
			if s.missing > 0 { // its end is lost
				s.damaged, s.missing = true, 0
			}
			return r, true, nil
		}
	}
}
