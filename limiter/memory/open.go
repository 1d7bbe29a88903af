package memory

import (
	"cmp"
	"errors"
	"fmt"
	"io"
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
	Rebooted bool   // not known to be of this run of the machine: ages are by the wall clock
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
		machine: m,
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

// A replay makes a limiter of what a journal says.
type replay struct {
	l          *Limiter
	machine    machine
	boot, wall int64 // now
	found      Recovery

	permits map[uint64][]heldPlace
	call    []record // grants of one call in one bucket, so far
}

// A heldPlace is a place a predecessor held.
type heldPlace struct {
	key     string
	expires int64
}

// read replays a journal's file.
func (p *replay) read(j Journal) error {
	f, err := os.Open(j.Path)
	if errors.Is(err, os.ErrNotExist) {
		p.found.Fresh = true
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, headerSize)
	n, err := io.ReadFull(f, head)
	switch {
	case err == io.EOF: // made, and then the power was cut
		p.found.Fresh = true
		return nil
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	}
	bootID, err := parseHeader(head[:n])
	if err != nil {
		p.found.Newer, p.found.Damaged = errors.Is(err, errNewer), errors.Is(err, errForeign)
		return nil
	}
	p.found.Rebooted = bootID == "" || bootID != p.machine.bootID
	return p.replay(f)
}

func (p *replay) replay(r io.Reader) error {
	s := newScan(r)
	for {
		r, ok, err := s.next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		p.take(s, r)
	}
	p.found.Records, p.found.Cut = s.records, s.cut
	p.found.Damaged = p.found.Damaged || s.damaged
	return nil
}

// at is the instant of a record; ok is false where it is too long ago to be
// told.
func (p *replay) at(r record) (at int64, ok bool) {
	now, then := p.boot, r.boot
	if p.found.Rebooted {
		now, then = p.wall, r.wall
	}
	age := now - then
	if then > now {
		age = 0 // by a clock that was set back
	}
	return epoch - age, age >= 0 && age < epoch
}

func (p *replay) take(s *scan, r record) {
	at, ok := p.at(r)
	if !ok {
		return
	}
	key := ""
	switch r.kind {
	case aRelease, aRenewal:
	default:
		if key, ok = s.keys[r.key]; !ok {
			p.found.Damaged = true
			return
		}
	}
	if r.kind != aGrant {
		p.call = p.call[:0]
	}
	switch r.kind {
	case aWindow, aGrant, anEntry:
		if r.span == 0 || r.kind != aWindow && (r.amount == 0 || r.amount > 1<<62) {
			return
		}
		p.count(key, r, at)
	case aPermit:
		p.permits[r.amount] = append(p.permits[r.amount], heldPlace{key, after(at, r.span)})
	case aRelease:
		delete(p.permits, r.amount)
	case aRenewal:
		for i := range p.permits[r.amount] {
			p.permits[r.amount][i].expires = after(at, r.span)
		}
	case aThrottle:
		if until := after(at, r.span); until > epoch {
			p.l.throttle(hashOf(key), key, at, until)
		}
	case anOpening:
		p.l.unthrottle(hashOf(key), key, at)
	}
}

// count replays what concerns a bucket's windows.
func (p *replay) count(key string, r record, at int64) {
	hash := hashOf(key)
	b := p.l.shards[shardOf(hash)].bucket(hash, key)
	switch r.kind {
	case aWindow:
		if b.seek(r.span) == nil {
			b.open(r.span, at)
		}
	case anEntry:
		if w := b.seek(r.span); w != nil {
			w.expire(at)
			w.insert(at, min(int64(r.amount), 1<<62-w.used()))
		}
	case aGrant:
		if len(p.call) > 0 && p.call[0].key != r.key {
			p.call = p.call[:0]
		}
		p.call = append(p.call, r)
		if r.more {
			return
		}
		for _, g := range p.call {
			if b.seek(g.span) == nil {
				b.open(g.span, at)
			}
			b.seek(g.span).asked = at
		}
		asks := make([]ask, 0, len(p.call))
		for _, g := range p.call {
			w := b.seek(g.span)
			if w == nil {
				continue
			}
			w.expire(at)
			w.insert(at, min(int64(g.amount), 1<<62-w.used()))
			asks = append(asks, ask{bucket: b, window: w, cost: int64(g.amount)})
		}
		bookUnnamed(asks, at)
		p.call = p.call[:0]
	}
}

// hold gives the places that are held still to nobody, for so long at most.
func (p *replay) hold(most func(bucket string) time.Duration) {
	for _, places := range p.permits {
		for _, h := range places {
			expires := min(h.expires, after(epoch, int64(max(0, most(h.key)))))
			if expires <= epoch {
				continue
			}
			hash := hashOf(h.key)
			s := &p.l.shards[shardOf(hash)]
			index := s.take(s.bucket(hash, h.key), epoch, expires)
			s.places[index].permit = s.format(placeID{shardOf(hash), index})
		}
	}
}
