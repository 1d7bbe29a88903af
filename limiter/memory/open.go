package memory

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// ErrInUse is wrapped by the error of an Open whose journal a process has open:
// two would not know of each other's grants.
var ErrInUse = errors.New("another process has it open")

// A Journal says where a limiter keeps what it grants, so that the next one
// goes on from there. One limiter at a time can have it open.
type Journal struct {
	Path string
	// Hold is how long the places of a predecessor stay taken, from the instant
	// this limiter is opened: nobody is left to release them, and the provider
	// may still be at work. 0 is 30 seconds.
	Hold time.Duration
	// HoldOf, where it is set, says so for each bucket by itself: not every
	// provider works on for a client that is gone. 0 frees its places at once.
	HoldOf func(bucket string) time.Duration
	// Seeded says that whoever opens a damaged journal counts again, with Seed,
	// what was granted before: then the windows of a damaged journal start
	// empty. Otherwise what can still be read of them counts.
	Seeded bool
	// Logger is told when the journal cannot be written and when it can again.
	// nil is slog.Default().
	Logger *slog.Logger
}

const defaultHold = 30 * time.Second

// A Recovery is what was found where a journal was opened.
type Recovery struct {
	Fresh    bool   // there was none
	Damaged  bool   // a part could not be read, or it was no journal
	Newer    bool   // a newer version of paceline wrote it; none of it was read
	Rebooted bool   // not known to be of this run of the machine: how long ago that was is by the wall clock
	Records  int    // how many were read
	Cut      int64  // bytes at its end that a crash left incomplete
	Aside    string // where the file is kept that could not be read whole
}

// A machine is where a process runs. Tests have machines of their own.
type machine struct {
	bootID    string       // of its present run; empty where that is not known
	boot      func() int64 // since it was started, asleep or not
	suspended func() int64 // of that, asleep
}

// Open returns a limiter with the journal at a path.
func Open(path string) (*Limiter, error) { return Journal{Path: path}.Open() }

// Open returns a limiter that goes on from this journal. What it found there
// [Limiter.Recovered] says; a file that could not be read whole is kept beside
// it. An error means that there can be no journal at this path.
//
// Inside a testing/synctest bubble the limiter belongs to the bubble it was
// opened in.
func (j Journal) Open() (*Limiter, error) { return j.open(thisMachine(), onDisk) }

func (j Journal) open(m machine, disk storage) (*Limiter, error) {
	fail := func(err error) (*Limiter, error) {
		return nil, fmt.Errorf("opening the limiter's journal %s: %w", j.Path, err)
	}
	if err := os.MkdirAll(filepath.Dir(j.Path), 0o700); err != nil {
		return fail(err)
	}
	held, err := lock(j.Path + ".lock")
	if err != nil {
		return fail(err)
	}

	// An age is taken by the earlier reading of the machine's clock, what is
	// written by the later: neither makes a grant older than it is.
	l := &Limiter{clock: clock{suspended: m.suspended}}
	before := m.boot()
	l.start()
	p := &replay{l: l, machine: m, boot: before, wall: l.clock.base.UnixNano(), permits: map[uint64][]heldPlace{}}
	l.journal = &journal{
		path:    j.Path,
		bootID:  m.bootID,
		zero:    m.boot() - epoch,
		logger:  cmp.Or(j.Logger, slog.Default()),
		storage: disk,
		lock:    held,
	}
	l.journal.timer = time.AfterFunc(time.Hour, l.tick)
	l.journal.timer.Stop()

	err = p.read(j)
	if p.found.Damaged && j.Seeded {
		l.forgetWindows()
	}
	if err == nil && (p.found.Damaged || p.found.Newer) {
		p.found.Aside, err = setAside(j.Path, p.found.Newer)
	}
	if err != nil {
		held.Close()
		return fail(err)
	}
	p.hold(j.holdOf())
	l.recovered = p.found
	if err := l.rewrite(); err != nil {
		l.journal.giveUp(err)
	}
	return l, nil
}

func (j Journal) holdOf() func(string) time.Duration {
	if j.HoldOf != nil {
		return j.HoldOf
	}
	return func(string) time.Duration { return cmp.Or(j.Hold, defaultHold) }
}

// Recovered says what was found where the limiter's journal was opened.
func (l *Limiter) Recovered() Recovery { return l.recovered }

func (l *Limiter) forgetWindows() {
	for i := range l.shards {
		for _, b := range l.shards[i].slots {
			for ; b != nil; b = b.next {
				b.windows = nil
			}
		}
	}
}

// setAside keeps a file that will be replaced, under a name that says why.
func setAside(path string, newer bool) (string, error) {
	why := "damaged"
	if newer {
		why = "newer"
	}
	for n := 1; ; n++ {
		aside := fmt.Sprintf("%s.%s-%d", path, why, n)
		if _, err := os.Lstat(aside); err == nil {
			continue
		}
		// A link leaves the original until its successor is complete.
		if os.Link(path, aside) == nil {
			return aside, nil
		}
		return aside, os.Rename(path, aside)
	}
}
