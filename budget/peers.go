package budget

import (
	"context"
	"maps"
	"math/rand/v2"
	"strconv"
	"time"
)

const (
	// seenFor is how long a process counts after it has last written.
	seenFor = time.Minute
	// claimFor is how long a process may take to send the probe it has claimed.
	claimFor = 2 * time.Second
	maxPeers = 64
)

// Peers is how many processes use the caller key, this one included.
func (s *State) Peers(now time.Time) (n int) {
	for _, at := range s.Processes {
		if now.Sub(at) < seenFor {
			n++
		}
	}
	return max(1, n)
}

// id names the book: two of one process are two, as two processes are.
func (b *Book) id() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.name == "" {
		b.name = strconv.FormatUint(rand.Uint64(), 36)
	}
	return b.name
}

// seen notes that a process uses the key, and forgets those that no longer do.
func (s *State) seen(id string, now time.Time) {
	if at, ok := s.Processes[id]; ok && now.Sub(at) < seenFor/4 {
		return
	}
	m := maps.Clone(s.Processes)
	if m == nil {
		m = make(map[string]time.Time, 1)
	}
	maps.DeleteFunc(m, func(_ string, at time.Time) bool { return now.Sub(at) >= seenFor })
	if len(m) < maxPeers {
		m[id] = now
	}
	s.Processes = m
}

// Claim takes the probe after a pause for this process, and reports whether it
// has it: of several over one store one has. Where the store does not work,
// each looks for itself.
func (c *Caller) Claim(now time.Time) bool {
	if c.book.Store == nil {
		return true
	}
	id := c.book.id()
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.state.Probe; now.Before(p.Claimed) {
		return p.By == id
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	mine := true
	var found State
	err := c.book.Store.Update(ctx, c.key, func(old []byte) []byte {
		stored, err := Decode(old, now)
		if err != nil {
			stored = State{}
		}
		found = Merge(c.state, stored)
		p := &found.Probe
		if mine = p.Needed && p.Sent.IsZero() && !now.Before(p.Claimed) && !found.Shut(now); !mine {
			return old
		}
		p.By, p.Claimed, p.Changed = id, now.Add(claimFor), now
		b, err := Encode(found)
		if err != nil {
			return old
		}
		return b
	})
	c.report(&c.unwritten, err)
	if err != nil {
		return true
	}
	c.adopt(found)
	return mine
}
