package memory

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
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
	bootID  string // of the machine's present run
	zero    int64  // what the machine's clock says at 0 of the limiter's
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

// arm sees to it that a tick comes. mu is held.
func (j *journal) arm() {
	if !j.armed && !j.closed {
		j.armed = true
		j.timer.Reset(syncEvery)
	}
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
		err := j.file.Sync() // only a tick replaces the file
		if err == nil {
			_, err = os.Stat(j.path) // what was removed nobody would find
		}
		if err != nil {
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
	closed, end := j.closed, j.noted
	j.closed = true
	j.timer.Stop()
	j.mu.Unlock()
	if closed {
		return nil
	}
	j.commit(end)
	j.mu.Lock()
	broken := j.broken
	j.mu.Unlock()
	var err error
	if broken {
		err = l.rewrite()
	}
	j.writing.Lock()
	defer j.writing.Unlock()
	if j.file != nil {
		err = errors.Join(err, j.file.Sync(), j.file.Close())
	}
	return errors.Join(err, j.lock.Close())
}
