package memory

import (
	"os"
	"path/filepath"
)

// A successor is the file that is going to take a journal's place.
type successor struct {
	file
	size int64
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
	s := &successor{file: f}
	defer func() {
		if err != nil {
			j.mu.Lock()
			j.copying, j.next = false, nil
			j.mu.Unlock()
			f.Close()
			os.Remove(path)
		}
	}()

	j.mu.Lock()
	j.copying, j.copied, j.next = true, 0, header(j.bootID)
	j.mu.Unlock()
	for i := range l.shards {
		l.copyShard(uint64(i))
		if err := j.drain(s, 1<<18); err != nil {
			return err
		}
	}
	if err := j.drain(s, 0); err != nil {
		return err
	}
	if err := f.Sync(); err != nil { // the bulk, while nobody waits
		return err
	}
	old, err := j.replace(path, s)
	if err != nil {
		return err
	}
	if old != nil {
		old.Close()
	}
	j.storage.syncDir(filepath.Dir(j.path))
	return nil
}

// drain writes what belongs into the successor so far, unless that is little.
func (j *journal) drain(s *successor, little int) error {
	j.mu.Lock()
	raw := j.next
	if len(raw) < little {
		raw = nil
	} else {
		j.next = nil
	}
	j.mu.Unlock()
	if len(raw) == 0 {
		return nil
	}
	n, err := s.Write(raw)
	s.size += int64(n)
	return err
}

// replace puts the successor in the journal's place, with all that has been
// written to the file it returns. Whose record is to be written waits; others
// do not.
func (j *journal) replace(path string, s *successor) (old file, err error) {
	j.writing.Lock()
	defer j.writing.Unlock()
	if err := j.drain(s, 0); err != nil {
		return nil, err
	}
	if err := os.Rename(path, j.path); err != nil {
		return nil, err
	}
	old, j.file, j.size = j.file, s.file, s.size

	j.mu.Lock()
	defer j.mu.Unlock()
	j.atMost = max(compactAt, 2*j.size)
	// All shards had been copied, so what is not in the file yet is in next.
	j.pending, j.written = j.next, j.noted-uint64(len(j.next))
	j.copying, j.next, j.broken = false, nil, false
	if len(j.pending) > 0 {
		j.arm()
	}
	return old, nil
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
