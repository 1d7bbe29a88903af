package budget

import (
	"context"
	"maps"
	"sync"
	"time"
)

// ReadEvery is how often a caller key reads its store at most. There is no
// watch.
const ReadEvery = 50 * time.Millisecond

const (
	writeEvery = 100 * time.Millisecond
	patience   = 250 * time.Millisecond // with a store that does not answer
)

// A Book holds the caller keys of one process. The zero value keeps them in
// memory; with a Store they are shared by every process that opens it.
//
// Every failure of the store means that nothing more is known than what this
// process has seen itself: it never stops a request.
type Book struct {
	Store Store
	// Fault is told of a failing store: for each caller key once, until it fails
	// otherwise, or again after it worked. nil is silence.
	Fault func(error)

	mu      sync.Mutex
	name    string // of this book in its store
	callers map[string]*Caller
	sweepAt int // how many callers are too many not to look at
}

// How long a caller key is remembered that nobody uses: what it has learned
// for an hour, and where that is nothing, its starts for a while.
const (
	rememberLearned = time.Hour
	rememberStarts  = 2 * time.Minute
	fewCallers      = 1024
)

// Caller returns what is known of a caller key at now. Keys that come and go,
// as models named by strangers do, are forgotten when nobody uses them; a
// Store still has what they learned.
func (b *Book) Caller(key string, now time.Time) *Caller {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.callers[key]
	if c == nil {
		if b.callers == nil {
			b.callers, b.sweepAt = make(map[string]*Caller), fewCallers
		}
		c = &Caller{book: b, key: key, used: now}
		b.callers[key] = c
		if len(b.callers) >= b.sweepAt {
			maps.DeleteFunc(b.callers, func(_ string, c *Caller) bool { return c.forgettable(now) })
			b.sweepAt = max(fewCallers, 2*len(b.callers))
		}
	}
	return c
}

// A Caller is one caller key as this process knows it. Its methods may be
// called at the same time.
type Caller struct {
	book *Book
	key  string

	mu      sync.Mutex
	state   State
	starts  Starts
	read    time.Time // when the store was last read
	written time.Time
	told    Pause // the latest that was written
	probing bool  // Probe.Needed, as it was written
	obeyed  Orders
	dirty   bool
	used    time.Time

	// What was last said of reading and of writing, empty while they work.
	unread, unwritten string
}

// forgettable reports whether nobody would miss the caller.
func (c *Caller) forgettable(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	idle := now.Sub(c.used)
	return !c.state.Pause.Active(now) && (idle > rememberLearned || idle > rememberStarts && c.state.blank())
}

// Use shows f the state and the log of starts under the caller's lock. f
// reports whether it changed what other processes should know; now is the
// instant it works at. f must not keep what it is shown.
func (c *Caller) Use(now time.Time, f func(*State, *Starts) (changed bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = now
	c.refresh(now)
	if f(&c.state, &c.starts) {
		c.dirty = true
	}
	c.flush(now)
}

// PausedUntil is the end of the pause of the caller key, as far as is known
// here.
func (c *Caller) PausedUntil() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Pause.Until
}

// refresh takes in what other processes wrote.
func (c *Caller) refresh(now time.Time) {
	if c.book.Store == nil || !c.read.IsZero() && now.Sub(c.read) < ReadEvery {
		return
	}
	c.read = now
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var stored State
	raw, err := c.book.Store.Get(ctx, c.key)
	if err == nil {
		stored, err = Decode(raw, now)
	}
	c.report(&c.unread, err)
	if err != nil {
		return
	}
	c.adopt(Merge(c.state, stored))
}

// adopt takes over what is known, but for what concerns this process alone.
func (c *Caller) adopt(s State) {
	s.Ramp, s.Heard, s.Unread, s.Opened = c.state.Ramp, c.state.Heard, c.state.Unread, c.state.Opened
	c.state = s
}

// flush writes what changed. Between two writes changes gather; the next use
// of the caller carries them.
func (c *Caller) flush(now time.Time) {
	// Nobody may send into a pause, others wait for the end of a probe, and what
	// an operator orders is to last.
	urgent := c.state.Pause != c.told || c.state.Probe.Needed != c.probing || c.state.Orders != c.obeyed
	if !c.dirty || c.book.Store == nil || !urgent && now.Sub(c.written) < writeEvery {
		return
	}
	c.written, c.told, c.probing, c.obeyed, c.dirty = now, c.state.Pause, c.state.Probe.Needed, c.state.Orders, false
	c.state.seen(c.book.id(), now)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var unencoded error
	err := c.book.Store.Update(ctx, c.key, func(old []byte) []byte {
		merged := c.state
		if stored, err := Decode(old, now); err == nil {
			merged = Merge(c.state, stored)
		}
		b, err := Encode(merged)
		if err != nil {
			unencoded = err
			return old
		}
		return b
	})
	if err == nil {
		err = unencoded
	}
	c.dirty = c.dirty || err != nil
	c.report(&c.unwritten, err)
}

// report tells of what reading or writing came to, unless that was said.
func (c *Caller) report(said *string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != *said && c.book.Fault != nil {
		c.book.Fault(err)
	}
	*said = text
}
