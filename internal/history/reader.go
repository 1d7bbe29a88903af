package history

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/dialect"
)

// A Query says which rows to read. The zero value is all of them.
type Query struct {
	// Provider is the entry whose rows to read.
	Provider string
	// The period, from Since up to but without Until; zero is without an end.
	// A row belongs to the instant it was sent.
	Since, Until time.Time
	// Status and Class are those of the rows to read.
	Status int
	Class  dialect.Class
	// Last is how many rows to read at most, the latest of them.
	Last int
}

// where is the query's condition, for an AND to follow.
func (q Query) where() (string, []any) {
	var terms []string
	var args []any
	add := func(given bool, term string, arg any) {
		if given {
			terms, args = append(terms, term), append(args, arg)
		}
	}
	add(!q.Since.IsZero(), at+" >= ?", q.Since.UnixMicro())
	add(!q.Until.IsZero(), at+" < ?", q.Until.UnixMicro())
	add(q.Provider != "", "provider = ?", q.Provider)
	add(q.Status != 0, "status = ?", int64(q.Status))
	add(q.Class != "", "class = ?", string(q.Class))
	return strings.Join(append(terms, ""), " AND "), args
}

// A Reader reads a log, beside whoever writes it.
type Reader struct {
	path    string
	is      os.FileInfo
	db      *sql.DB
	columns []column // that the log has
}

// OpenReader opens the log at path to read. It changes nothing, and works
// where nothing can be written. Where nothing was logged yet, the error is
// fs.ErrNotExist.
func OpenReader(path string) (*Reader, error) {
	r := &Reader{path: path}
	if err := r.open(); err != nil {
		r.Close()
		return nil, r.failed(err)
	}
	return r, nil
}

func (r *Reader) open() error {
	err := r.try("mode=ro")
	if code(err) == codeCantOpen && empty(r.path+"-wal") {
		// SQLite wants files beside it, and cannot make them. So nobody writes
		// the log, and it can be read as it is.
		err = r.try("mode=ro&immutable=1")
	}
	return err
}

// empty reports whether there is nothing in a file.
func empty(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Size() == 0
}

func (r *Reader) try(mode string) (err error) {
	r.Close()
	if r.is, err = os.Stat(r.path); err != nil {
		return err
	}
	if r.db, err = sql.Open("sqlite", dsn(r.path, mode+"&_pragma=busy_timeout(2000)")); err != nil {
		return err
	}
	var version int
	if err := r.db.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	switch {
	case version == 0: // made and not yet begun
		return fs.ErrNotExist
	case version > format:
		return errNewer
	}
	has, err := columnsOf(r.db)
	r.columns = slices.DeleteFunc(slices.Clone(columns), func(c column) bool { return !has[c.name] })
	return err
}

// failed says what to do about an error.
func (r *Reader) failed(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("no requests logged yet: %s: %w", r.path, fs.ErrNotExist)
	case damage(err):
		return fmt.Errorf("the request log %s is damaged; the proxy sets it aside when it meets the damage, and begins a new one: %w", r.path, err)
	}
	return fmt.Errorf("read the request log %s: %w", r.path, err)
}

// Close closes the file.
func (r *Reader) Close() error {
	if r.db == nil {
		return nil
	}
	return r.db.Close()
}

// A row is a record with where it is found again.
type row struct {
	paceline.Record
	at, seq int64
}

// read reads some columns of the rows of a query, each into the same row. It
// asks the driver itself: database/sql takes as long for a row as SQLite does.
func (r *Reader) read(ctx context.Context, columns []column, q Query, rest string, args ...any) iter.Seq2[*row, error] {
	names := []string{at, "seq"}
	for _, c := range columns {
		names = append(names, c.name)
	}
	where, all := q.where()
	query := "SELECT " + strings.Join(names, ", ") + " FROM attempts WHERE " + where + " " + rest
	var values []driver.NamedValue
	for i, v := range append(all, args...) {
		values = append(values, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return func(yield func(*row, error) bool) {
		conn, err := r.db.Conn(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		defer conn.Close()
		stopped := false
		err = conn.Raw(func(c any) error {
			rows, err := c.(driver.QueryerContext).QueryContext(ctx, query, values)
			if err != nil {
				return err
			}
			defer rows.Close()
			found := make([]driver.Value, len(names))
			var now row
			for {
				if err := rows.Next(found); err != nil {
					return err
				}
				now = row{}
				now.at, _ = found[0].(int64)
				now.seq, _ = found[1].(int64)
				for i, v := range found[2:] {
					if v != nil {
						columns[i].set(&now.Record, v)
					}
				}
				if !yield(&now, nil) {
					stopped = true
					return nil
				}
			}
		})
		if err != nil && err != io.EOF && !stopped {
			yield(nil, err)
		}
	}
}

// pageRows is how many rows are read at once. Between pages nothing is held of
// the log: whoever reads slowly must not keep its writer from tidying up.
const pageRows = 1000

// page reads the next rows of a query.
func (r *Reader) page(ctx context.Context, q Query, rest string, args ...any) (page []row, err error) {
	for row, err := range r.read(ctx, r.columns, q, rest+" LIMIT ?", append(args, int64(pageRows))...) {
		if err != nil {
			return page, err
		}
		page = append(page, *row)
	}
	return page, nil
}

// Records reads rows in the order in which they were sent. An error is the
// last that is yielded.
func (r *Reader) Records(ctx context.Context, q Query) iter.Seq2[paceline.Record, error] {
	return func(yield func(paceline.Record, error) bool) {
		from := row{at: math.MinInt64}
		var err error
		if !q.Since.IsZero() {
			from = row{at: q.Since.UnixMicro(), seq: -1}
		}
		if q.Last > 0 {
			where, args := q.where()
			err = r.db.QueryRowContext(ctx, "SELECT "+at+", seq - 1 FROM attempts WHERE "+where+" TRUE ORDER BY "+at+" DESC, seq DESC LIMIT 1 OFFSET ?",
				append(args, q.Last-1)...).Scan(&from.at, &from.seq)
			if errors.Is(err, sql.ErrNoRows) {
				err = nil // there are not so many
			}
		}
		q.Since = time.Time{} // in from, for which SQLite is to search
		for more := true; more && err == nil; {
			var rows []row
			rows, err = r.page(ctx, q, at+" >= ? AND ("+at+" > ? OR seq > ?) ORDER BY "+at+", seq", from.at, from.at, from.seq)
			for _, from = range rows {
				if !yield(from.Record, nil) {
					return
				}
			}
			more = len(rows) == pageRows
		}
		if err != nil {
			yield(paceline.Record{}, r.failed(err))
		}
	}
}

// followEvery is how often new rows are looked for.
const followEvery = 200 * time.Millisecond

// Follow reads rows in the order in which they were written, and goes on with
// those to come until ctx ends, which is no error.
func (r *Reader) Follow(ctx context.Context, q Query) iter.Seq2[paceline.Record, error] {
	return func(yield func(paceline.Record, error) bool) {
		last := q.Last
		if last == 0 {
			last = -1
		}
		where, args := q.where()
		var from, to int64
		err := r.db.QueryRowContext(ctx, "SELECT coalesce(min(seq) - 1, (SELECT max(seq) FROM attempts), 0) FROM (SELECT seq FROM attempts WHERE "+where+" TRUE ORDER BY seq DESC LIMIT ?)",
			append(args, last)...).Scan(&from)
		for err == nil {
			if now, statErr := os.Stat(r.path); statErr == nil && !os.SameFile(now, r.is) {
				from = 0 // another log has begun
				if err = r.open(); err != nil {
					break
				}
			}
			// What comes in between is read next time.
			if err = r.db.QueryRowContext(ctx, "SELECT coalesce(max(seq), 0) FROM attempts").Scan(&to); err != nil {
				break
			}
			var rows []row
			rows, err = r.page(ctx, q, "seq > ? AND seq <= ? ORDER BY seq", from, to)
			for _, row := range rows {
				if !yield(row.Record, nil) {
					return
				}
				from = row.seq
			}
			if len(rows) == pageRows || err != nil {
				continue
			}
			from = to
			select {
			case <-time.After(followEvery):
			case <-ctx.Done():
				return
			}
		}
		if ctx.Err() == nil {
			yield(paceline.Record{}, r.failed(err))
		}
	}
}

// Limits are those that the proxy's configuration declared when it was last
// read, by provider.
func (r *Reader) Limits(ctx context.Context) (map[string]paceline.Limits, error) {
	rows, err := r.db.QueryContext(ctx, "SELECT provider, limits FROM limits")
	if err != nil {
		return nil, r.failed(err)
	}
	defer rows.Close()
	limits := make(map[string]paceline.Limits)
	for rows.Next() {
		var provider, text string
		var l paceline.Limits
		err := rows.Scan(&provider, &text)
		if err == nil {
			err = json.Unmarshal([]byte(text), &l)
		}
		if err != nil {
			return nil, r.failed(err)
		}
		limits[provider] = l
	}
	if err := rows.Err(); err != nil {
		return nil, r.failed(err)
	}
	return limits, nil
}

// Stats counts the rows of a report. Where the query brings no limits, they
// are those of Limits.
func (r *Reader) Stats(ctx context.Context, q paceline.StatsQuery) (*paceline.Stats, error) {
	if q.Limits == nil {
		var err error
		if q.Limits, err = r.Limits(ctx); err != nil {
			return nil, err
		}
	}
	rows := Query{Provider: q.Provider, Since: q.Since, Until: q.Until}
	if !q.Since.IsZero() {
		// Starts before the period tell of the refusals in it.
		back := time.Duration(0)
		for _, l := range q.Limits {
			back = max(back, l.Longest())
		}
		rows.Since = q.Since.Add(-back)
	}
	counted := slices.DeleteFunc(slices.Clone(r.columns), func(c column) bool { return !c.counted })
	var failed error
	stats := q.Report(func(yield func(paceline.Record) bool) {
		for row, err := range r.read(ctx, counted, rows, "TRUE") {
			if failed = err; err != nil || !yield(row.Record) {
				return
			}
		}
	})
	if failed != nil {
		return nil, r.failed(failed)
	}
	return stats, nil
}
