package sqlite

import "time"

// A machine is where a process runs. Tests have machines of their own.
type machine struct {
	// run is the machine's present run, the same for all processes that read one
	// clock; empty where that is not known.
	run  string
	boot func() int64 // nanoseconds since it was started, asleep or not
	wall func() int64 // since 1970
}

// earliest is what a file's clock begins with at least, so that all that may be
// told of the past has an instant: the year 2006.
const earliest = int64(1) << 60

// A clock is what the file knows of the time: its own instants go on from file to
// file, from run to run of the machine, and never back.
type clock struct {
	run  string // of the machine that read it last
	zero int64  // what it says at 0 of that run's boot clock
	last int64  // an instant,
	wall int64  // and what the wall clock said then
}

// How far behind the instant that is stored may be. It is what counts for another
// run of the machine: where the wall clock was set back meanwhile, what was granted
// since is dated as late as that.
const clockStep = int64(time.Second)

// read is the instant, and whether the clock has to be stored as it is now.
func (c *clock) read(m machine) (now int64, due bool) {
	boot, wall := m.boot(), m.wall()
	same := m.run != "" && c.run == m.run
	if same {
		now = max(c.last, boot+c.zero)
	} else {
		now = after(c.last, max(0, wall-c.wall))
	}
	if same && now-c.last < clockStep {
		return now, false
	}
	*c = clock{run: m.run, zero: now - boot, last: now, wall: wall}
	return now, true
}

// instant is what a caller sees of t.
func instant(t int64) time.Time { return time.Unix(0, t) }
