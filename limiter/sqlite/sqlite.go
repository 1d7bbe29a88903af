// Package sqlite is the limiter that several processes of one machine share
// without a daemon: one exact count in one file.
//
//	l, err := sqlite.Open(ctx, "/var/lib/app/limits.db", sqlite.Options{})
//
// Each call is one transaction, so what one process was granted counts for the
// next one that asks. The windows are those of limiter/memory: up to 1024 grants
// of a window are kept one by one; beyond that, grants that share a 1023rd of the
// window become one, as old as the youngest instant they could have. Instants are
// exact to the nanosecond. Buckets that count nothing any more are forgotten by
// the way, and the space they took is used again.
//
// A process that is killed loses nothing it was granted, and its places come free
// once their hold has passed. A power cut may lose what the system had not yet
// written to the disk by itself, on Linux what was granted in the last half minute;
// the file stays sound. With [Options.Durable] it loses nothing, at a sync of the
// disk for each call that is granted.
//
// All processes agree about the time, which is the machine's since it was started,
// asleep or not; nobody who sets the wall clock moves it. How long the machine was
// off is by the wall clock, where an instant to come has happened just now. That
// is so on Linux; elsewhere all time is by the wall clock, and stands still while
// that is behind what it was.
//
// The file belongs on a local disk: the processes share memory beside it
// (FILE-shm), which no network file system offers to several machines. Nothing else
// may write it. Whoever removes it, with FILE-wal and FILE-shm, begins with empty
// windows, and processes that have it open go on in the new one.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// Options are how a file is used. The zero value is what most want.
type Options struct {
	// Wait is how long a call waits while others have the file locked, unless
	// its context ends sooner. 0 is 5 seconds.
	Wait time.Duration
	// Durable hands each grant to the disk before it is answered.
	Durable bool
}

const defaultWait = 5 * time.Second

// A Limiter counts in a file. Its methods wait for nothing but the file, which
// others have for the fraction of a millisecond. An error that does not wrap
// limiter.ErrInvalid says that the file cannot be used and what to do.
type Limiter struct {
	path    string
	wait    time.Duration
	durable bool
	machine machine

	// turn is held by who uses the fields below.
	turn   chan struct{}
	closed bool

	db    *sql.DB // nil while the file is not open
	conn  *sql.Conn
	is    os.FileInfo // the file that is open
	stmts [lastQuery + 1]*sql.Stmt

	debt int   // what calls and new buckets have added since the last sweep
	hand int64 // the bucket where the next sweep goes on
}

var (
	_ limiter.Limiter = (*Limiter)(nil)
	_ limiter.Batcher = (*Limiter)(nil)
	_ limiter.Settler = (*Limiter)(nil)
	_ limiter.Renewer = (*Limiter)(nil)
	_ limiter.Opener  = (*Limiter)(nil)
	_ limiter.Peeker  = (*Limiter)(nil)
	_ limiter.Seeder  = (*Limiter)(nil)
	_ limiter.Blobs   = (*Limiter)(nil)
)

// Open opens the file at a path and makes it where there is none; the directory
// has to exist. The limiter must be closed after use.
func Open(ctx context.Context, path string, o Options) (*Limiter, error) {
	return open(ctx, path, o, thisMachine())
}

func open(ctx context.Context, path string, o Options, m machine) (*Limiter, error) {
	whole, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("sqlite limiter %s: %w", path, err)
	}
	l := &Limiter{
		path:    whole,
		wait:    cmp.Or(o.Wait, defaultWait),
		durable: o.Durable,
		machine: m,
		turn:    make(chan struct{}, 1),
	}
	if err := l.enter(ctx); err != nil {
		return nil, err
	}
	l.leave()
	return l, nil
}

// Close lets go of the file. Every call from then on is an error.
func (l *Limiter) Close() error {
	l.turn <- struct{}{}
	defer l.leave()
	l.closed = true
	if err := l.shut(); err != nil {
		return l.fault(err)
	}
	return nil
}
