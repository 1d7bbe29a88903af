package sqlite

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/limiter/internal/settling"
)

// samples are buckets as they come.
func samples() []*bucket {
	busy := &bucket{windows: []window{{per: int64(time.Minute), asked: earliest}}}
	now := earliest
	for range 3000 {
		now += 12345678
		busy.windows[0].book(now, 3)
	}
	return []*bucket{
		{},
		{windows: []window{{per: 1, asked: earliest}}},
		busy,
		{
			windows: []window{
				{per: 1e9, asked: earliest, used: 5, entries: []entry{{earliest, 2}, {earliest + 1, 3}}},
				{per: math.MaxInt64, asked: earliest, used: math.MaxInt64, entries: []entry{{earliest, 1}, {math.MaxInt64, math.MaxInt64 - 1}}},
			},
			held: []holding{
				{permit: math.MaxUint64, expires: math.MaxInt64, place: true},
				{permit: 1, expires: earliest, share: &settling.Share{Granted: earliest, Since: earliest + 5, Tallies: []settling.Tally{
					{Per: 1e9, Calls: 100, First: 10, Later: 90}, {Calls: 100, First: 7},
				}}},
				{permit: 2, expires: math.MaxInt64 - 1, place: true, share: &settling.Share{Granted: 1, Tallies: []settling.Tally{{}}}},
			},
		},
	}
}

func TestStoredBucketsComeBack(t *testing.T) {
	for i, b := range samples() {
		got := b.again(t)
		for k := range b.windows { // a slice of nothing is nothing
			w := &b.windows[k]
			w.entries = slices.Clip(append([]entry{}, w.entries...))
			got.windows[k].entries = slices.Clip(got.windows[k].entries)
		}
		if !reflect.DeepEqual(got, b) {
			t.Errorf("%d: got %+v, want %+v", i, got, b)
		}
	}
}

// A thousand grants take a few kilobytes.
func TestStoredBucketsAreSmall(t *testing.T) {
	raw := samples()[2].encode()
	if len(raw) > 8<<10 {
		t.Errorf("%d bytes", len(raw))
	}
}

// Any damage to a row is found.
func TestDamageIsFound(t *testing.T) {
	raw := samples()[3].encode()
	for i := range raw {
		for _, bad := range [][]byte{raw[:i], slices.Concat(raw[:i], []byte{raw[i] ^ 1<<(i%8)}, raw[i+1:])} {
			if err := new(bucket).decode(bad); !errors.Is(err, errDamaged) {
				t.Fatalf("at %d: %v", i, err)
			}
		}
	}
}

// Whatever stands behind a sum that is right, a bucket is sound or an error: it
// can be asked, booked, settled, and stored again as it is.
func FuzzStoredBucket(f *testing.F) {
	for _, b := range samples() {
		if raw := b.encode()[sumSize:]; len(raw) < 1000 { // large ones are hardly varied
			f.Add(raw)
		}
	}
	f.Add([]byte{})
	f.Add(binary.AppendUvarint(nil, math.MaxUint64))
	f.Fuzz(func(t *testing.T, raw []byte) {
		sum := binary.LittleEndian.AppendUint32(nil, crc32.Checksum(raw, sums))
		b := &bucket{}
		if err := b.decode(append(sum, raw...)); err != nil {
			if !errors.Is(err, errDamaged) || b.windows != nil || b.held != nil {
				t.Fatalf("%v, and %+v", err, b)
			}
			return
		}
		if c := b.again(t); !reflect.DeepEqual(c, b) {
			t.Fatalf("comes back as %+v, was %+v", c, b)
		}
		now := earliest
		b.idle()
		b.places()
		for i := range b.held {
			if s := b.held[i].share; s != nil {
				b.settle(s, 1000, now)
				b.settle(s, 0, now)
			}
		}
		b.lapse(now)
		for _, w := range slices.Clone(b.windows) {
			now++
			w := b.ask(w.per, now)
			if _, full := w.full(math.MaxInt64, 1); !full {
				w.book(now, 1)
				b.bookUnnamed(now, 1, now, func(per int64) bool { return per == w.per })
			}
		}
		b.again(t)
	})
}

// No text is taken for a permit but those that are.
func FuzzPermit(f *testing.F) {
	f.Add("")
	f.Add(".")
	f.Add(permit{number: rand.Uint64(), buckets: []int64{1, 36, math.MaxInt64}}.String())
	f.Add("1.+1")
	f.Add("01.1")
	f.Add("1.A")
	f.Fuzz(func(t *testing.T, text string) {
		if p, ok := parsePermit(text); ok && p.String() != text {
			t.Errorf("%q was taken for %q", text, p)
		}
	})
}
