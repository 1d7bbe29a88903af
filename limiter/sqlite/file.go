package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"modernc.org/sqlite"
)

// SQLite's result codes that are told apart.
const (
	codeBusy     = 5
	codeReadOnly = 8
	codeIO       = 10
	codeCorrupt  = 11
	codeFull     = 13
	codeCantOpen = 14
	codeNoFile   = 26 // not a database
)

// code is SQLite's result code that an error carries, 0 for none.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// What to do about an error of SQLite's.
var advice = map[int]string{
	codeBusy:     "another program keeps it locked: find it (fuser FILE) and end it, or what it does with the file",
	codeReadOnly: "it cannot be written: let this user write it, its directory, and FILE-wal and FILE-shm beside it",
	codeCantOpen: "it cannot be opened: let this user read and write it, its directory, and FILE-wal and FILE-shm beside it",
	codeIO:       "the disk cannot be read or written: see what the system's log says of it",
	codeFull:     "the disk is full: make room",
	codeCorrupt:  "it is damaged: move it away, with FILE-wal and FILE-shm, to begin with empty windows",
	codeNoFile:   "it is no database: name another file, or move it away",
}

var errClosed = errors.New("it was closed")

// fault says of an error whose it is and what to do.
func (l *Limiter) fault(err error) error {
	if todo := advice[code(err)]; todo != "" {
		err = fmt.Errorf("%s (%w)", todo, err)
	}
	return fmt.Errorf("sqlite limiter %s: %w", l.path, err)
}

// enter takes the turn of this process to use the file, and opens it where it
// has to be.
func (l *Limiter) enter(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		select {
		case l.turn <- struct{}{}:
		default:
			err = l.stand(ctx)
		}
	}
	if err != nil {
		return l.fault(err)
	}
	switch {
	case l.closed:
		err = errClosed
	case l.db == nil || l.moved():
		err = l.reopen(ctx)
	}
	if err != nil {
		l.leave()
		return l.fault(err)
	}
	return nil
}

// stand waits for the turn.
func (l *Limiter) stand(ctx context.Context) error {
	long := time.NewTimer(l.wait)
	defer long.Stop()
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-long.C:
		return fmt.Errorf("other calls of this process have waited for it for %v", l.wait)
	}
}

func (l *Limiter) leave() { <-l.turn }

// alive is an error where no call can be answered any more.
func (l *Limiter) alive(ctx context.Context) error {
	err := l.enter(ctx)
	if err == nil {
		l.leave()
	}
	return err
}

// The pauses between looks whether a lock is free. Whoever has it, has it for
// some ten microseconds.
const (
	shortPause = 20 * time.Microsecond
	longPause  = 500 * time.Microsecond
)

// patiently tries until the file is not locked, the context has ended, or the
// wait is over.
func (l *Limiter) patiently(ctx context.Context, try func() error) error {
	var start time.Time
	for pause := shortPause; ; pause = min(longPause, 2*pause) {
		err := try()
		if code(err) != codeBusy {
			return err
		}
		switch {
		case start.IsZero():
			start = time.Now()
		case time.Since(start) > l.wait:
			return fmt.Errorf("waited %v: %w", l.wait, err)
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// A query is a statement that is prepared once.
type query int

const (
	begin query = iota
	look
	commit
	rollback
	getClock
	setClock
	getBucket
	getRow
	addBucket
	setBucket
	getThrottle
	setThrottle
	endThrottle
	getBlob
	setBlob
	endBlob
	sweepTo
	sweepBuckets
	sweepThrottles
	freePages
	dropPages
	lastQuery = dropPages
)

var queries = [lastQuery + 1]string{
	begin:    "BEGIN IMMEDIATE",
	look:     "BEGIN",
	commit:   "COMMIT",
	rollback: "ROLLBACK",

	getClock: "SELECT run, zero, last, wall FROM clock",
	setClock: "UPDATE clock SET run = ?, zero = ?, last = ?, wall = ?",

	getBucket: "SELECT id, key, state FROM buckets WHERE key = ?",
	getRow:    "SELECT id, key, state FROM buckets WHERE id = ?",
	addBucket: "INSERT INTO buckets (key, idle, state) VALUES (?, 0, x'')",
	setBucket: "UPDATE buckets SET idle = ?, state = ? WHERE id = ?",

	getThrottle: "SELECT until FROM throttles WHERE key = ?",
	setThrottle: "INSERT INTO throttles VALUES (?1, ?2) ON CONFLICT DO UPDATE SET until = ?2 WHERE until < ?2",
	endThrottle: "DELETE FROM throttles WHERE key = ?",

	getBlob: "SELECT value FROM blobs WHERE key = ?",
	setBlob: "INSERT INTO blobs VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2",
	endBlob: "DELETE FROM blobs WHERE key = ?",

	sweepTo:        "SELECT coalesce(max(id), 0), count(*) FROM (SELECT id FROM buckets WHERE id > ? ORDER BY id LIMIT ?)",
	sweepBuckets:   "DELETE FROM buckets WHERE id > ? AND id <= ? AND idle <= ?",
	sweepThrottles: "DELETE FROM throttles WHERE until <= ?",
	freePages:      "SELECT freelist_count FROM pragma_freelist_count",
	dropPages:      "PRAGMA incremental_vacuum(64)",
}

// prepare prepares every query.
func (l *Limiter) prepare() (err error) {
	for q, text := range queries {
		if l.stmts[q], err = l.conn.PrepareContext(context.Background(), text); err != nil {
			return err
		}
	}
	return nil
}

// Statements take the fraction of a millisecond. A context that could end within
// one costs more than that, and would leave open what became of it.

func (l *Limiter) exec(q query, args ...any) error {
	_, err := l.stmts[q].ExecContext(context.Background(), args...)
	return err
}

// row reads the one row that a query finds. ok is false where there is none.
func (l *Limiter) row(q query, args []any, into ...any) (ok bool, err error) {
	err = l.stmts[q].QueryRowContext(context.Background(), args...).Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}
