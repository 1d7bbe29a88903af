package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
)

// format is the version of the tables, in user_version; application marks a file
// as a limiter's.
const (
	format      = 1
	application = 0x70616365 // "pace"
)

const schema = `
CREATE TABLE clock (one INTEGER PRIMARY KEY CHECK (one = 1), run TEXT NOT NULL, zero INTEGER NOT NULL,
	last INTEGER NOT NULL, wall INTEGER NOT NULL);
-- idle is from when a bucket counts nothing. It stands before state, so that it is found without reading that.
CREATE TABLE buckets (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, idle INTEGER NOT NULL, state BLOB NOT NULL);
CREATE TABLE throttles (key TEXT PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX throttles_until ON throttles (until);
CREATE TABLE blobs (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
`

// making is held while a file is made. Closing it loses all locks that the process
// has of it, so until then no other Limiter may come to have one.
var making sync.Mutex

// reopen opens the file as it is at its path now.
func (l *Limiter) reopen(ctx context.Context) (err error) {
	_ = l.shut() // of a file that is gone or failed, nothing is lost
	if l.is, err = ready(l.path); err != nil {
		return err
	}
	// Waiting for locks is done here, where a context can end it.
	name := "file:" + (&url.URL{Path: filepath.ToSlash(l.path)}).EscapedPath() + "?_pragma=busy_timeout(0)"
	if l.db, err = sql.Open("sqlite", name); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = l.shut() // the first fault is the one to mend
		}
	}()
	l.db.SetMaxOpenConns(1)
	l.conn, err = l.db.Conn(context.Background())
	if err != nil {
		return err
	}
	if err := l.patiently(ctx, l.begin); err != nil {
		return err
	}
	return l.prepare()
}

// leastSize is the size of the smallest page. What is smaller SQLite may take for
// nothing, and write over it.
const leastSize = 512

// ready sees to it that there is a file, and says which.
func ready(path string) (os.FileInfo, error) {
	making.Lock()
	defer making.Unlock()
	// SQLite gives the files beside it the same mode.
	made, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	switch {
	case err == nil:
		if err := made.Close(); err != nil {
			return nil, err
		}
	case errors.Is(err, fs.ErrExist):
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no directory %s: make it, or correct the path", filepath.Dir(path))
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("it cannot be made: let this user write %s (%w)", filepath.Dir(path), err)
	default:
		return nil, err
	}
	is, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case is.IsDir():
		return nil, errors.New("it is a directory: name a file in it")
	case !is.Mode().IsRegular():
		return nil, errors.New("it is no regular file: name one, or one that does not exist yet")
	case is.Size() > 0 && is.Size() < leastSize:
		return nil, errors.New("it is no database: name another file, or move it away")
	}
	return is, nil
}

// begin looks whether the file is a limiter's and makes it one if it is empty.
func (l *Limiter) begin() error {
	ctx := context.Background()
	var app, version, tables int
	look := func() error {
		return l.conn.QueryRowContext(ctx, `SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
			FROM pragma_application_id, pragma_user_version`).Scan(&app, &version, &tables)
	}
	if err := look(); err != nil {
		return err
	}
	switch {
	case app != application && (tables > 0 || version != 0):
		return errors.New("it is a database of another program: name another file")
	case version > format:
		return fmt.Errorf("a newer paceline has written it (format %d, this one knows %d): use that one, or another file", version, format)
	}
	if _, err := l.conn.ExecContext(ctx, "PRAGMA auto_vacuum = incremental"); err != nil { // before there is anything
		return err
	}
	var mode string
	if err := l.conn.QueryRowContext(ctx, "PRAGMA journal_mode = wal").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return errors.New("its file system cannot share memory between processes: name a file on a local disk")
	}
	sync := "normal"
	if l.durable {
		sync = "full"
	}
	for _, set := range []string{"PRAGMA synchronous = " + sync, "PRAGMA journal_size_limit = 4194304", "BEGIN IMMEDIATE"} {
		if _, err := l.conn.ExecContext(ctx, set); err != nil {
			return err
		}
	}
	defer l.conn.ExecContext(ctx, "ROLLBACK") // nothing, once it is committed
	if err := look(); err != nil || app == application {
		return err
	}
	start := max(earliest, l.machine.wall())
	make := fmt.Sprintf("%s; INSERT INTO clock VALUES (1, '', 0, %d, %d); PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT",
		schema, start, start, application, format)
	_, err := l.conn.ExecContext(ctx, make)
	return err
}

// shut closes the file, if it is open.
func (l *Limiter) shut() error {
	if l.db == nil {
		return nil
	}
	var errs []error
	for i, s := range l.stmts {
		if s != nil {
			errs = append(errs, s.Close())
		}
		l.stmts[i] = nil
	}
	if l.conn != nil {
		errs = append(errs, l.conn.Close())
	}
	errs = append(errs, l.db.Close())
	l.db, l.conn = nil, nil
	return errors.Join(errs...)
}

// moved says whether another file is at the path by now, or none.
func (l *Limiter) moved() bool {
	is, err := os.Stat(l.path)
	return err != nil || !os.SameFile(is, l.is)
}
