// Package memory is the limiter inside one process: exact, and without a
// goroutine or a timer of its own.
//
// Each window is a short ring of grants, so an ask costs the same at a hundred
// and at a million calls a window. Up to 1024 grants of a window are kept one
// by one; beyond that, grants that share a 1023rd of the window become one, as
// old as the youngest instant they could have. At most 0.1 % of a rate is given
// up that way, and no window is ever exceeded.
//
// Buckets that count nothing any more are forgotten by the way, while others
// are asked for: millions of keys may come and go.
//
// With a journal ([Open]) what was granted outlives the process. Each grant is
// handed to the system in one write before Acquire returns, and every second to
// the disk: kill -9 loses nothing, a power cut what was granted in its last
// second. Where the file cannot be written, the limiter goes on without it and
// tries again each second.
//
// Time is what passes in the world, also while the machine sleeps (on Linux).
// Inside a testing/synctest bubble it is the bubble's, to the nanosecond; a
// limiter belongs to the bubble of its first use.
package memory

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/paceline-proxy/paceline/limiter"
)

// A Limiter counts in this process. The zero Limiter is ready to use. It must
// not be copied. No method waits for anything but other askers, so contexts are
// not consulted: a call that has nothing to wait for has nothing to give up.
type Limiter struct {
	shards [shards]shard
	clock  clock

	// closed is how many keys are throttled, in all shards. While it is 0, an
	// acquire need not look for its caller.
	closed atomic.Int64

	// patrol is the shard that the next sweep visits besides its own.
	patrol atomic.Uint32

	// journal is where grants are written, or nil.
	journal   *journal
	recovered Recovery

	ready atomic.Bool
	first sync.Mutex
}

var (
	_ limiter.Limiter = (*Limiter)(nil)
	_ limiter.Renewer = (*Limiter)(nil)
	_ limiter.Settler = (*Limiter)(nil)
	_ limiter.Opener  = (*Limiter)(nil)
	_ limiter.Peeker  = (*Limiter)(nil)
	_ limiter.Seeder  = (*Limiter)(nil)
)

// New returns a Limiter in which nothing is counted.
func New() *Limiter {
	l := new(Limiter)
	l.start()
	return l
}

// start sets the clock going. A zero Limiter does so at its first use.
func (l *Limiter) start() {
	l.first.Lock()
	defer l.first.Unlock()
	if l.ready.Load() {
		return
	}
	for i := range l.shards {
		l.shards[i].number = rand.Uint32()
	}
	l.clock.start()
	l.ready.Store(true)
}
