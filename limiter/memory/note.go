package memory

import (
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// granted notes a grant dated at, which is now or, where it is seeded, earlier.
// The shards of its buckets are locked.
func (l *Limiter) granted(r *limiter.Request, asks []ask, permit string, now, at int64) (end uint64) {
	j := l.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return 0
	}
	stamp := j.stamp(&l.clock, now)
	for i := range asks {
		b := asks[i].bucket
		set := uint64(1) << shardOf(asks[i].hash)
		if permit != "" && r.Limits[i].Concurrent > 0 && !holds(r, asks[:i], b) {
			j.note(set, stamp.dated(at, record{kind: aPermit, key: j.noteBucket(set, b), amount: bitsOf(permit), span: int64(r.Hold)}))
		}
		if !asks[i].alone(asks[:i]) {
			continue
		}
		var last record
		for k := range asks[i:] {
			a := &asks[i+k]
			if a.bucket != b || a.window == nil { // where that points to may have moved
				continue
			}
			if last.kind != 0 {
				last.more = true
				j.note(set, last)
			}
			last = stamp.dated(at, record{kind: aGrant, key: j.noteBucket(set, b), amount: uint64(a.cost), span: int64(r.Limits[i+k].Per)})
		}
		if last.kind != 0 {
			j.note(set, last)
		}
	}
	return j.noted
}

// opened notes that a bucket has been asked with a new span. Its shard is
// locked. Nobody waits for the note: it goes with the next grant.
func (l *Limiter) opened(b *bucket, per, now int64) {
	j := l.journal
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		set := uint64(1) << shardOf(b.hash)
		j.note(set, j.stamp(&l.clock, now).dated(now, record{kind: aWindow, key: j.noteBucket(set, b), span: per}))
	}
}

// settled notes what a call counts more in a window, or less of what it counted
// at an instant. The bucket's shard is locked.
func (l *Limiter) settled(k kind, b *bucket, per, cost, now, at int64) (end uint64) {
	j := l.journal
	if j == nil {
		return 0
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return 0
	}
	set := uint64(1) << shardOf(b.hash)
	j.note(set, j.stamp(&l.clock, now).dated(at, record{kind: k, key: j.noteBucket(set, b), amount: uint64(cost), span: per}))
	return j.noted
}

// changed notes what became of a permit. A shard of its places is locked.
func (l *Limiter) changed(k kind, permit string, now, span int64) (end uint64) {
	j := l.journal
	if j == nil {
		return 0
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return 0
	}
	j.note(all, j.stamp(&l.clock, now).dated(now, record{kind: k, amount: bitsOf(permit), span: span}))
	return j.noted
}

// caller notes that a caller's key is closed for so long, or open. Its shard is
// locked.
func (l *Limiter) caller(k kind, set uint64, key string, now, span int64) (end uint64) {
	j := l.journal
	if j == nil {
		return 0
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return 0
	}
	j.note(set, j.stamp(&l.clock, now).dated(now, record{kind: k, key: j.noteKey(set, key), span: span}))
	return j.noted
}

// note takes down a record that concerns a set of shards. mu is held.
func (j *journal) note(set uint64, r record) {
	var raw [recordSize]byte
	j.take(set, r.add(raw[:0]))
}

// noteKey gives a key a number. mu is held.
func (j *journal) noteKey(set uint64, key string) (number uint64) {
	j.keys++
	j.take(set, addKey(nil, j.keys, key))
	return j.keys
}

func (j *journal) take(set uint64, raw []byte) {
	j.noted += uint64(len(raw))
	if !j.broken {
		j.pending = append(j.pending, raw...)
		j.arm()
	}
	if j.copying && j.copied&set != 0 {
		j.next = append(j.next, raw...)
	}
}

// noteBucket is the number of a bucket's key.
func (j *journal) noteBucket(set uint64, b *bucket) uint64 {
	if b.number == 0 {
		b.number = j.noteKey(set, b.key)
	}
	return b.number
}

// A stamp is one instant by each clock.
type stamp struct{ now, boot, wall int64 }

// stamp reads the clocks at now, of the limiter's. A sleep that the limiter has
// not noticed yet is part of it: the wall clock has moved on by it, and then the
// machine is asked. mu is held.
func (j *journal) stamp(c *clock, now int64) stamp {
	s := stamp{now: now, boot: j.zero + now, wall: time.Now().UnixNano()}
	if apart := s.wall - now; max(apart-j.apart, j.apart-apart) >= leastSleep {
		j.apart, j.unnoticed = apart, c.suspended()-c.reference-c.slept
		if j.unnoticed < leastSleep {
			j.unnoticed = 0
		}
	}
	s.boot += j.unnoticed
	return s
}

// dated is a record of an instant of the limiter's.
func (s stamp) dated(at int64, r record) record {
	r.boot, r.wall = s.boot+at-s.now, s.wall+at-s.now
	return r
}
