// Package history is the request log: one row for every attempt, cache hit and
// request refused before sending, in a SQLite file of the home, and the
// statistics over it. No prompt, answer or credential is in it.
//
// [Open] is for the one who writes: [Log.Add] takes a row without waiting and
// never fails a request. [OpenReader] is for everybody else, beside a running
// writer or without one.
package history

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"time"

	"github.com/paceline-proxy/paceline"
)

// Options say how much a log keeps. The zero value is the default.
type Options struct {
	// KeepDays is for how many days a row is kept. 0 is 31.
	KeepDays int
	// MaxMB bounds the file, in MiB: the oldest rows go first. 0 is 1024.
	MaxMB int
	// Logger is told when rows are lost and when they no longer are, and when
	// a damaged file was set aside. nil is silence.
	Logger *slog.Logger
}

// A Log writes rows. A nil Log takes them and keeps none.
type Log struct{}

// Open opens the log at path to write to, and makes it where there is none.
func Open(path string, o Options) (*Log, error) { return nil, errors.New("not yet") }

// Add takes a row. It never waits.
func (l *Log) Add(r paceline.Record) {}

// Declare stores the limits that providers declare, for the statistics.
func (l *Log) Declare(providers []paceline.Provider) {}

// Lost is how many rows were lost since Open.
func (l *Log) Lost() int64 { return 0 }

// Close writes what was taken and closes the file.
func (l *Log) Close() error { return nil }

// A Query says which rows to read.
type Query struct {
	// Provider is the entry whose rows to read. Empty: all of them.
	Provider string
	// The period, from Since up to but without Until; zero is without an end.
	// A row belongs to the instant it was sent.
	Since, Until time.Time
	// Last is how many rows to read at most, the latest of them. 0: all.
	Last int
}

// A Reader reads a log.
type Reader struct{}

// OpenReader opens the log at path to read.
func OpenReader(path string) (*Reader, error) { return nil, errors.New("not yet") }

// Records reads rows in the order in which they were sent.
func (r *Reader) Records(ctx context.Context, q Query) iter.Seq2[paceline.Record, error] {
	return func(func(paceline.Record, error) bool) {}
}

// Follow reads rows in the order in which they were written, and goes on with
// those to come until ctx ends.
func (r *Reader) Follow(ctx context.Context, q Query) iter.Seq2[paceline.Record, error] {
	return func(func(paceline.Record, error) bool) {}
}

// Stats counts the rows of a report.
func (r *Reader) Stats(ctx context.Context, q paceline.StatsQuery) (*paceline.Stats, error) {
	return nil, errors.New("not yet")
}

// Close closes the file.
func (r *Reader) Close() error { return nil }
