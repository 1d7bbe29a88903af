package memory

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// A journal past this size is written anew, with what still counts.
const compactAt = 8 << 20

// How much a power cut may lose, and how often a broken journal is tried again.
const syncEvery = time.Second

// A journal is the file that a limiter's grants are written to.
//
// What happens is noted in pending under the locks of the shards it concerns,
// so that the notes of a bucket are in its order, and written once those are
// given back: one write for all who wait for one meanwhile.
//
// Locks are taken in the order: ticks, a shard's, writing, mu.
type journal struct {
	path    string
	machine machine
	zero    int64 // what the machine's clock says at 0 of the limiter's
	logger  *slog.Logger
	storage storage
	lock    io.Closer

	ticks sync.Mutex // held by who syncs, compacts or closes

	writing sync.Mutex // held by who writes to the file
	file    file
	size    int64
	written uint64 // up to where notes have been written

	mu      sync.Mutex
	pending []byte
	spare   []byte // the last pending; also guarded by writing
	noted   uint64 // up to where notes have been taken
	keys    uint64 // numbers given so far

	// How far the wall's clock and the limiter's were apart when the machine
	// was last asked for a sleep, and what the limiter had not noticed then.
	apart, unnoticed int64

	broken bool // nothing is noted until the file has been written anew
	closed bool
	timer  *time.Timer
	armed  bool
	atMost int64 // the size to compact at

	// While the file is written anew: what belongs after what has been copied.
	copying bool
	copied  uint64 // the set of shards
	next    []byte
}

// A storage is where a journal is kept. Tests have some that are full, or quick.
type storage struct {
	create  func(path string) (file, error)
	syncDir func(path string) // makes a rename last through a power cut, where the system can
}

var onDisk = storage{create, syncDir}

// A file is what a journal needs of an os.File.
type file interface {
	io.WriteCloser
	Sync() error
}

func create(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return dataFile{f}, nil
}

// A dataFile syncs what a reader needs, not when it was last changed.
type dataFile struct{ *os.File }

func (f dataFile) Sync() error { return datasync(f.File) }

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
	if !j.broken {
		j.pending = append(j.pending, raw...)
		j.noted += uint64(len(raw))
		j.arm()
	}
	if j.copying && j.copied&set != 0 {
		j.next = append(j.next, raw...)
	}
}

// arm sees to it that a tick comes. mu is held.
func (j *journal) arm() {
	if !j.armed && !j.closed {
		j.armed = true
		j.timer.Reset(syncEvery)
	}
}

// noteBucket is the number of a bucket's key.
func (j *journal) noteBucket(set uint64, b *bucket) uint64 {
	if b.number == 0 {
		b.number = j.noteKey(set, b.key)
	}
	return b.number
}

// commit returns once all that was noted up to end has been handed to the
// system, or cannot be.
func (j *journal) commit(end uint64) {
	j.writing.Lock()
	defer j.writing.Unlock()
	if j.written >= end {
		return
	}
	j.mu.Lock()
	raw, noted := j.pending, j.noted
	j.pending, j.spare = j.spare[:0], nil
	j.mu.Unlock()
	if len(raw) > 0 {
		n, err := j.file.Write(raw)
		j.size += int64(n)
		if err != nil {
			j.fail(err)
			return
		}
	}
	j.written = noted
	if cap(raw) <= 1<<20 { // not after a crowd
		j.mu.Lock()
		j.spare = raw
		j.mu.Unlock()
	}
}

// fail gives the file up until it has been written anew: what it lacks now it
// would lack for ever. writing is held.
func (j *journal) fail(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.broken {
		j.logger.Warn("the limiter's journal cannot be written; limits hold, but a restart would not know of what is granted from now on",
			"path", j.path, "err", err)
	}
	j.broken = true
	j.written, j.pending = j.noted, nil
	j.arm()
}

func (j *journal) giveUp(err error) {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.fail(err)
}

// tick writes, syncs and compacts, a second after there was something to.
func (l *Limiter) tick() {
	j := l.journal
	j.ticks.Lock()
	defer j.ticks.Unlock()
	j.mu.Lock()
	j.armed = false
	broken, closed, end, atMost := j.broken, j.closed, j.noted, j.atMost
	j.mu.Unlock()
	switch {
	case closed:
	case broken:
		if err := l.rewrite(); err != nil {
			j.giveUp(err)
			return
		}
		j.logger.Info("the limiter's journal is written again", "path", j.path)
	default:
		j.commit(end)
		if err := j.file.Sync(); err != nil { // only a tick replaces the file
			j.giveUp(err)
			return
		}
		j.writing.Lock()
		size := j.size
		j.writing.Unlock()
		if size <= atMost {
			return
		}
		if err := l.rewrite(); err != nil {
			j.logger.Warn("the limiter's journal cannot be compacted", "path", j.path, "err", err)
			j.mu.Lock()
			j.atMost = 2 * size
			j.mu.Unlock()
		}
	}
}

// rewrite puts a new file in the journal's place, with what counts now. Grants
// go on meanwhile: what happens in a shard after its part was copied goes to
// both files. Only who ticks may call it.
func (l *Limiter) rewrite() (err error) {
	j := l.journal
	path := j.path + ".new"
	f, err := j.storage.create(path)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			j.mu.Lock()
			j.copying, j.next = false, nil
			j.mu.Unlock()
			f.Close()
			os.Remove(path)
		}
	}()
	var size int64
	drain := func(least int) error {
		j.mu.Lock()
		raw := j.next
		if len(raw) >= least {
			j.next = nil
		}
		j.mu.Unlock()
		if len(raw) < least {
			return nil
		}
		n, err := f.Write(raw)
		size += int64(n)
		return err
	}

	j.mu.Lock()
	j.copying, j.copied, j.next = true, 0, header(j.machine.bootID)
	j.mu.Unlock()
	for i := range l.shards {
		l.copyShard(uint64(i))
		if err := drain(1 << 18); err != nil {
			return err
		}
	}
	if err := drain(0); err != nil {
		return err
	}
	if err := f.Sync(); err != nil { // the bulk, while nobody waits
		return err
	}
	if err := j.replace(path, f, size); err != nil {
		return err
	}
	j.storage.syncDir(filepath.Dir(j.path))
	return nil
}

// replace puts a new file in the journal's place, once it has what happened
// while it was written.
func (j *journal) replace(path string, f file, size int64) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	n, err := f.Write(j.next)
	if err != nil {
		return err
	}
	if err := os.Rename(path, j.path); err != nil {
		return err
	}
	if j.file != nil {
		j.file.Close()
	}
	j.file, j.size = f, size+int64(n)
	j.atMost = max(compactAt, 2*j.size)
	j.copying, j.next, j.broken = false, nil, false
	j.pending, j.written = j.pending[:0], j.noted // all of it is in the new file
	return nil
}

func syncDir(path string) {
	if d, err := os.Open(path); err == nil {
		d.Sync()
		d.Close()
	}
}

// copyShard writes down what a shard holds.
func (l *Limiter) copyShard(i uint64) {
	j, s := l.journal, &l.shards[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	now, _ := l.clock.now()
	at := j.stamp(&l.clock, now)
	var raw []byte
	add := func(instant int64, r record) {
		r = at.dated(instant, r)
		raw = r.add(raw)
	}
	for _, b := range s.slots {
		for ; b != nil; b = b.next {
			if s.tidy(b, now) {
				b.number = 0 // not in the new file
				continue
			}
			if b.number == 0 {
				j.keys++
				b.number = j.keys
			}
			raw = addKey(raw, b.number, b.key)
			for i := range b.windows { // all of them first: a new one copies
				w := &b.windows[i]
				add(min(w.asked, now), record{kind: aWindow, key: b.number, span: w.per})
			}
			for i := range b.windows {
				b.windows[i].each(func(instant, cost int64) {
					add(instant, record{kind: anEntry, key: b.number, amount: uint64(cost), span: b.windows[i].per})
				})
			}
			for _, index := range b.held {
				p := &s.places[index]
				add(now, record{kind: aPermit, key: b.number, amount: bitsOf(p.permit), span: p.expires - now})
			}
		}
	}
	for key, until := range s.throttles.until {
		if until > now {
			j.keys++
			raw = addKey(raw, j.keys, key)
			add(now, record{kind: aThrottle, key: j.keys, span: until - now})
		}
	}
	j.copied |= 1 << i
	j.next = append(j.next, raw...)
}

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
		if !asks[i].first(asks[:i]) {
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

// first says whether none of the earlier asks is for the same bucket.
func (a *ask) first(earlier []ask) bool { return a.last(earlier) }

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

// commit waits until what was noted up to end has been handed to the system.
func (l *Limiter) commit(end uint64) {
	if end > 0 {
		l.journal.commit(end)
	}
}

// Close writes what is left to write and lets go of the journal. The limiter
// goes on without one. It does nothing where there is none.
func (l *Limiter) Close() error {
	j := l.journal
	if j == nil {
		return nil
	}
	j.ticks.Lock()
	defer j.ticks.Unlock()
	j.mu.Lock()
	broken, closed, end := j.broken, j.closed, j.noted
	j.closed = true
	j.timer.Stop()
	j.mu.Unlock()
	if closed {
		return nil
	}
	var err error
	if broken {
		err = l.rewrite()
	}
	j.commit(end)
	j.writing.Lock()
	defer j.writing.Unlock()
	if j.file != nil {
		err = errors.Join(err, j.file.Sync(), j.file.Close())
	}
	return errors.Join(err, j.lock.Close())
}
