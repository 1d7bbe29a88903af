package history

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/paceline-proxy/paceline"
	"modernc.org/sqlite"
)

// format is the version of the tables, in user_version. Columns that are added
// do not change it.
const format = 1

// errNewer is that a newer paceline has written the log.
var errNewer = errors.New("it was written by a newer paceline: use that one, or move the file away to begin a new log")

// A file is a log that is written. It is opened again after every failure,
// since most of what ails files passes.
type file struct {
	path   string
	logger *slog.Logger

	db *sql.DB // nil while it is not open
	// inserts store one row, and several, which costs less for each.
	inserts [2]*sql.Stmt
	is      os.FileInfo
	// damaged is how often a file was set aside. A disk that damages every
	// file is not filled with them.
	damaged int
}

// dsn names a database to the driver.
func dsn(path, options string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + options
}

// open opens the file, and makes it where there is none. A damaged one is set
// aside.
func (f *file) open() error {
	err := f.try()
	if damage(err) && f.damaged < 3 {
		f.damaged++
		if err := f.setAside(err); err != nil {
			return err
		}
		err = f.try()
	}
	if err != nil {
		return fmt.Errorf("open the request log %s: %w", f.path, err)
	}
	return nil
}

// try opens the file as it is.
func (f *file) try() (err error) {
	f.close()
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return err
	}
	// SQLite gives the files beside it the same mode.
	made, err := os.OpenFile(f.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer made.Close()
	if f.is, err = made.Stat(); err != nil {
		return err
	}
	if err := made.Chmod(0o600); err != nil {
		return err
	}
	f.db, err = sql.Open("sqlite", dsn(f.path, "_pragma=busy_timeout(2000)&_txlock=immediate"))
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	f.db.SetMaxOpenConns(1)
	var version int
	if err := f.db.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version > format {
		return errNewer
	}
	for _, set := range []string{
		"PRAGMA auto_vacuum = incremental", // before there is anything
		"PRAGMA journal_mode = wal",
		"PRAGMA synchronous = normal", // a power cut may cost the last rows
		"PRAGMA journal_size_limit = 4194304",
	} {
		if _, err := f.db.Exec(set); err != nil {
			return err
		}
	}
	if err := f.migrate(); err != nil {
		return err
	}
	// Damage is found where rows are going to be written, before they are.
	for _, look := range []string{
		"SELECT * FROM attempts ORDER BY seq DESC LIMIT 1",
		"SELECT max(" + at + ") FROM attempts",
		"SELECT * FROM limits",
	} {
		if _, err := f.db.Exec(look); err != nil {
			return err
		}
	}
	for i, rows := range insertRows {
		if f.inserts[i], err = f.db.Prepare(insertion(rows)); err != nil {
			return err
		}
	}
	return nil
}

// insertRows is how many rows the inserts of a file store.
var insertRows = [2]int{1, 16}

// migrate makes the tables, and adds the columns that are missing.
func (f *file) migrate() error {
	tx, err := f.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	statements := []string{
		"CREATE TABLE IF NOT EXISTS attempts (seq INTEGER PRIMARY KEY)", // in the order of writing
		"CREATE TABLE IF NOT EXISTS limits (provider TEXT PRIMARY KEY, limits TEXT NOT NULL) WITHOUT ROWID",
	}
	has, err := columnsOf(tx)
	if err != nil {
		return err
	}
	for _, c := range columns {
		if !has[c.name] {
			statements = append(statements, fmt.Sprintf("ALTER TABLE attempts ADD COLUMN %s %s", c.name, c.kind))
		}
	}
	statements = append(statements,
		"CREATE INDEX IF NOT EXISTS attempts_at ON attempts ("+at+")",
		fmt.Sprintf("PRAGMA user_version = %d", format))
	for _, s := range statements {
		if _, err := tx.Exec(s); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// columnsOf are the columns that the log has.
func columnsOf(db interface {
	Query(string, ...any) (*sql.Rows, error)
}) (map[string]bool, error) {
	rows, err := db.Query("SELECT name FROM pragma_table_info('attempts')")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	has := make(map[string]bool)
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		has[name] = true
	}
	return has, rows.Err()
}

// code is SQLite's result code that an error carries, 0 for none.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// The result codes that are acted on.
const (
	codeReadOnly = 8
	codeCorrupt  = 11
	codeCantOpen = 14
	codeNoFile   = 26 // not a database
)

// damage reports whether an error says that the file is no sound database.
func damage(err error) bool { return code(err) == codeCorrupt || code(err) == codeNoFile }

// setAside renames the file, unless another process has done so.
func (f *file) setAside(why error) error {
	f.close()
	if now, err := os.Stat(f.path); err != nil || !os.SameFile(now, f.is) {
		return nil
	}
	to := f.path + ".damaged-" + time.Now().UTC().Format("20060102T150405.000")
	// What was not yet moved into the file goes first: it must not come upon
	// the new one.
	_ = os.Rename(f.path+"-wal", to+"-wal")
	_ = os.Remove(f.path + "-shm")
	if err := os.Rename(f.path, to); err != nil {
		return fmt.Errorf("the request log is damaged (%w) and cannot be renamed: %w", why, err)
	}
	f.logger.Warn("the request log was damaged and is set aside; a new one begins", "renamed_to", to, "error", why)
	return nil
}

// write stores rows and, where they are not nil, the declared limits: all of
// it or nothing.
func (f *file) write(records []paceline.Record, limits map[string]paceline.Limits) error {
	err := f.store(records, limits)
	if damage(err) {
		err = f.store(records, limits) // opening it sets it aside
	}
	return err
}

func (f *file) store(records []paceline.Record, limits map[string]paceline.Limits) (err error) {
	if now, err := os.Stat(f.path); f.db == nil || err != nil || !os.SameFile(now, f.is) {
		if err := f.open(); err != nil {
			return err
		}
	}
	defer func() {
		if err != nil {
			f.close()
			err = fmt.Errorf("write the request log %s: %w", f.path, err)
		}
	}()
	tx, err := f.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var values []any
	for len(records) > 0 {
		kind := 0
		if len(records) >= insertRows[1] {
			kind = 1
		}
		values = values[:0]
		for i := range insertRows[kind] {
			for _, c := range columns {
				values = append(values, c.value(&records[i]))
			}
		}
		if _, err := tx.Stmt(f.inserts[kind]).Exec(values...); err != nil {
			return err
		}
		records = records[insertRows[kind]:]
	}
	if limits != nil {
		if _, err := tx.Exec("DELETE FROM limits"); err != nil {
			return err
		}
	}
	for provider, l := range limits {
		text, err := json.Marshal(l)
		if err != nil {
			return err
		}
		if _, err := tx.Exec("INSERT INTO limits VALUES (?, ?)", provider, string(text)); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// The steps in which rows and pages are given up.
const (
	pruneRows  = 500
	prunePages = 256
)

// prune takes one step towards holding no row from before an instant and about
// most bytes, and reports whether there are more to take.
func (f *file) prune(before time.Time, most int64) (more bool, err error) {
	if f.db == nil {
		return false, nil
	}
	defer func() {
		if err != nil {
			f.close()
			err = fmt.Errorf("prune the request log %s: %w", f.path, err)
		}
	}()
	if more, err := f.drop("WHERE "+at+" < ?", before.UnixMicro()); more || err != nil {
		return more, err
	}
	page, pages, free, err := f.pages()
	switch {
	case err != nil || page*pages <= most:
		return false, err
	case page*(pages-free) > most:
		return f.drop("")
	}
	if _, err := f.db.Exec(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", prunePages)); err != nil {
		return false, err
	}
	// Where another program has written the file anew, it may not shrink.
	_, now, free, err := f.pages()
	return now < pages && free > 0, err
}

// pages are the size of a page, how many the file has, and how many of them
// hold nothing.
func (f *file) pages() (size, all, free int64, err error) {
	err = f.db.QueryRow("SELECT page_size, page_count, freelist_count FROM pragma_page_size, pragma_page_count, pragma_freelist_count").
		Scan(&size, &all, &free)
	return size, all, free, err
}

// drop deletes some of the oldest rows, and reports whether there were any.
func (f *file) drop(where string, args ...any) (bool, error) {
	res, err := f.db.Exec("DELETE FROM attempts WHERE seq IN (SELECT seq FROM attempts "+where+" ORDER BY "+at+" LIMIT ?)", append(args, pruneRows)...)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

func (f *file) close() {
	if f.db != nil {
		_ = f.db.Close()
		f.db, f.inserts = nil, [2]*sql.Stmt{}
	}
}
