package sqlite

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"

	"github.com/paceline-proxy/paceline/limiter/internal/settling"
)

// A bucket is stored as numbers, mostly small, since an instant is what passed
// since the one before: a few kilobytes for a thousand grants. A sum over them
// comes first, so that a damaged row is found out.
//
//	sum      4 bytes
//	windows  number; each: per, asked, number of entries; each: at, cost
//	held     number; each: permit (8 bytes), expires, place, has a share; then:
//	         granted, since, number of tallies; each: per, calls, first, later
//
// Instants are differences to the last one of their kind.
var sums = crc32.MakeTable(crc32.Castagnoli)

const sumSize = 4

// errDamaged is that a row is not what was stored there.
var errDamaged = errors.New("what is stored of it is damaged")

// encode is what is stored of the bucket.
func (b *bucket) encode() []byte {
	size := 64
	for i := range b.windows {
		size += 8 * len(b.windows[i].entries)
	}
	raw := make([]byte, sumSize, size)
	put := func(v int64) { raw = binary.AppendUvarint(raw, uint64(v)) }
	put(int64(len(b.windows)))
	for i := range b.windows {
		w := &b.windows[i]
		put(w.per)
		put(w.asked)
		put(int64(len(w.entries)))
		last := int64(0)
		for _, e := range w.entries {
			put(e.at - last)
			put(e.cost)
			last = e.at
		}
	}
	put(int64(len(b.held)))
	last := int64(0)
	for i := range b.held {
		h := &b.held[i]
		raw = binary.LittleEndian.AppendUint64(raw, h.permit)
		raw = binary.AppendVarint(raw, h.expires-last)
		last = h.expires
		put(bit(h.place))
		put(bit(h.share != nil))
		if h.share != nil {
			put(h.share.Granted)
			put(h.share.Since)
			put(int64(len(h.share.Tallies)))
			for _, c := range h.share.Tallies {
				put(c.Per)
				put(c.Calls)
				put(c.First)
				put(c.Later)
			}
		}
	}
	binary.LittleEndian.PutUint32(raw, crc32.Checksum(raw[sumSize:], sums))
	return raw
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// decode fills the bucket with what is stored of it.
func (b *bucket) decode(raw []byte) error {
	if len(raw) < sumSize || binary.LittleEndian.Uint32(raw) != crc32.Checksum(raw[sumSize:], sums) {
		return errDamaged
	}
	return b.parse(raw[sumSize:])
}

// parse reads what stands behind the sum. Whatever it is given, it makes a sound
// bucket or an error.
func (b *bucket) parse(raw []byte) error {
	r := reader{raw: raw}
	for range r.count(3) {
		w := window{per: r.number(), asked: r.number()}
		r.check(w.per > 0 && b.seek(w.per) == nil)
		n := r.count(2)
		w.entries = make([]entry, 0, n+1) // most often one will be added
		at := int64(0)
		for i := range n {
			past, cost := r.number(), r.number()
			r.check(past <= math.MaxInt64-at && (past > 0 || i == 0))
			r.check(cost > 0 && cost <= math.MaxInt64-w.used)
			at += past
			w.used += cost
			w.entries = append(w.entries, entry{at, cost})
		}
		b.windows = append(b.windows, w)
	}
	last := int64(0)
	for range r.count(11) {
		h := holding{permit: r.eight()}
		h.expires = last + r.signed() // wraps, as the difference did
		r.check(h.expires >= 0)
		last = h.expires
		h.place = r.number() == 1
		if r.number() == 1 {
			h.share = &settling.Share{Granted: r.number(), Since: r.number()}
			for range r.count(4) {
				c := settling.Tally{Per: r.number(), Calls: r.number(), First: r.number(), Later: r.number()}
				r.check(c.First <= c.Calls && c.Later <= c.Calls-c.First)
				h.share.Tallies = append(h.share.Tallies, c)
			}
			r.check(len(h.share.Tallies) > 0)
		}
		b.held = append(b.held, h)
	}
	r.check(r.at == len(r.raw))
	if r.bad {
		b.windows, b.held = nil, nil
		return errDamaged
	}
	return nil
}

// A reader reads numbers until one is bad; then all are 0.
type reader struct {
	raw []byte
	at  int
	bad bool
}

func (r *reader) check(ok bool) {
	if !ok {
		r.bad, r.at = true, len(r.raw)
	}
}

// number reads one that is not negative.
func (r *reader) number() int64 {
	v, n := binary.Uvarint(r.raw[r.at:])
	if n <= 0 || v > math.MaxInt64 {
		r.check(false)
		return 0
	}
	r.at += n
	return int64(v)
}

func (r *reader) signed() int64 {
	v, n := binary.Varint(r.raw[r.at:])
	if n <= 0 {
		r.check(false)
		return 0
	}
	r.at += n
	return v
}

func (r *reader) eight() uint64 {
	if len(r.raw)-r.at < 8 {
		r.check(false)
		return 0
	}
	r.at += 8
	return binary.LittleEndian.Uint64(r.raw[r.at-8:])
}

// count reads how many things of at least so many bytes follow.
func (r *reader) count(least int) int {
	n := r.number()
	if n > int64((len(r.raw)-r.at)/least) {
		r.check(false)
		return 0
	}
	return int(n)
}
