package memory

import (
	"hash/maphash"
	"math/bits"
	"strings"
	"sync"
)

// Sixty-four shards, so that a set of them is a word.
const shards = 64

// all is the set of every shard.
const all = ^uint64(0)

var seed = maphash.MakeSeed()

// A shard is the buckets and throttles of a part of all keys, behind one lock.
type shard struct {
	mu sync.Mutex

	slots []*bucket // chains by hash; a power of two long, or nil
	count int

	places   []place
	free     []uint32 // places nobody holds
	unplaced bucket   // of permits that hold no place

	number uint32 // of the next permit
	paper  []byte // where it is written

	throttles throttles

	debt int // what asks and new buckets have added since the last sweep
	hand int // the slot where the next sweep goes on

	_ [64]byte // a neighbour's lock shall not share our cache line
}

func hashOf(key string) uint64 { return maphash.String(seed, key) }

func shardOf(hash uint64) uint64 { return hash % shards }

// lock takes the locks of a set of shards, in ascending order as everyone does.
func (l *Limiter) lock(set uint64) {
	for ; set != 0; set &= set - 1 {
		l.shards[bits.TrailingZeros64(set)].mu.Lock()
	}
}

func (l *Limiter) unlock(set uint64) {
	for ; set != 0; set &= set - 1 {
		l.shards[bits.TrailingZeros64(set)].mu.Unlock()
	}
}

func (s *shard) slot(hash uint64) int { return int(hash/shards) & (len(s.slots) - 1) }

// seek finds a key's bucket, nil where there is none.
func (s *shard) seek(hash uint64, key string) *bucket {
	if len(s.slots) > 0 {
		for b := s.slots[s.slot(hash)]; b != nil; b = b.next {
			if b.hash == hash && b.key == key {
				return b
			}
		}
	}
	return nil
}

// bucket finds a key's bucket or makes it.
func (s *shard) bucket(hash uint64, key string) *bucket {
	if b := s.seek(hash, key); b != nil {
		return b
	}
	if s.count >= len(s.slots) {
		s.resize(max(4, 2*len(s.slots)))
	}
	// A copy of the key: one cut out of a request body would keep the body.
	b := &bucket{hash: hash, key: strings.Clone(key)}
	s.insert(b)
	s.count++
	s.debt += newBucketDebt
	return b
}

func (s *shard) insert(b *bucket) {
	i := s.slot(b.hash)
	b.next = s.slots[i]
	s.slots[i] = b
}

func (s *shard) resize(n int) {
	old := s.slots
	s.slots, s.hand = make([]*bucket, n), 0
	for _, b := range old {
		for b != nil {
			next := b.next
			s.insert(b)
			b = next
		}
	}
}
