package memory

import (
	"errors"
	"io"
	"os"
	"time"
)

// A replay makes a limiter of what a journal says.
type replay struct {
	l          *Limiter
	machine    machine
	boot, wall int64 // now
	byWall     bool  // ages are by the wall clock
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
	switch bootID {
	case "":
		p.found.Rebooted, p.byWall = true, true
	case p.machine.bootID:
	default:
		p.found.Rebooted = true
		if err := p.resume(f); err != nil {
			return err
		}
		if _, err := f.Seek(headerSize, io.SeekStart); err != nil {
			return err
		}
	}
	return p.replay(f)
}

// resume makes boot what the machine's clock would say if the run that wrote a
// journal had not ended. The wall clock tells for how long that is over; how
// far the records are apart it does not, since it may have been set meanwhile.
func (p *replay) resume(r io.Reader) error {
	for s := newScan(r); ; {
		last, ok, err := s.next()
		if !ok || err != nil {
			return err
		}
		p.boot = p.wall - last.wall + last.boot
	}
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
	if p.byWall {
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
	case aWindow, aGrant, anEntry, aReturn:
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
	case aReturn:
		// What counted then counted still when this was written.
		if w := b.seek(r.span); w != nil {
			w.takeOff(at, int64(r.amount))
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
