// Package history is the request log: one row for every attempt, cache hit and
// request refused before sending, in a SQLite file, and the statistics over
// it. No prompt, answer or credential is in it.
//
// [Open] is for the one who writes: [Log.Add] takes a row without waiting and
// never fails a request. [OpenReader] is for everybody else, beside a running
// writer or without one.
package history

import (
	"cmp"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/paceline-proxy/paceline"
)

// Options say how much a log keeps. The zero value is the default.
type Options struct {
	// KeepDays is for how many days a row is kept. 0 is 31.
	KeepDays int
	// MaxMB is about how large the file may become, in MiB: the oldest rows go
	// first. 0 is 1024.
	MaxMB int
	// Logger is told when the log cannot be written and when it can again, and
	// when a damaged file was set aside. nil is silence.
	Logger *slog.Logger
}

const (
	// mostWaiting is how many rows wait in memory, beside as many that are
	// being written.
	mostWaiting = 8192
	// linger is how long a row waits for others to share its transaction.
	linger = 100 * time.Millisecond
	// retryAfter is how soon a log that could not be written is tried again.
	retryAfter = time.Second
	// pruneEvery is how often old rows are looked for.
	pruneEvery = time.Minute
)

// A Log writes rows in the background. While it cannot, it keeps the first
// that fit in memory and tries again every second. A nil Log keeps nothing.
type Log struct {
	options Options

	mu      sync.Mutex
	waiting []paceline.Record
	limits  map[string]paceline.Limits // declared, not taken yet
	lost    int64
	closed  bool

	wake    chan struct{} // something waits
	stop    chan struct{}
	stopped chan struct{}

	// Of the goroutine that writes:
	file    file
	writing []paceline.Record
	storing map[string]paceline.Limits
	failure error // why the log cannot be written, nil while it can
}

// Open opens the log at path to write to, and makes it where there is none. A
// damaged one is renamed, which is said, and a new one begun. What may pass,
// such as a full disk, is no error: the Log tries again by itself. An error
// means that there can be no log, as where a newer paceline has written it;
// the nil Log that comes with it can be used.
func Open(path string, o Options) (*Log, error) {
	o.KeepDays = cmp.Or(o.KeepDays, 31)
	o.MaxMB = cmp.Or(o.MaxMB, 1024)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Log{
		options: o,
		file:    file{path: path, logger: o.Logger},
		wake:    make(chan struct{}, 1),
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
	}
	err := l.file.open()
	if errors.Is(err, errNewer) {
		return nil, err
	}
	l.report(err)
	go l.run()
	return l, nil
}

// Add takes a row. It never waits: a row for which there is no room is lost.
func (l *Log) Add(r paceline.Record) {
	if l == nil {
		return
	}
	l.mu.Lock()
	if l.closed || len(l.waiting) >= mostWaiting {
		l.lost++
	} else {
		l.waiting = append(l.waiting, r)
	}
	l.mu.Unlock()
	l.awake()
}

// Declare stores what the entries of the configuration allow, for statistics
// that are made while no proxy runs. It never waits.
func (l *Log) Declare(providers []paceline.Provider) {
	if l == nil {
		return
	}
	limits := make(map[string]paceline.Limits)
	for _, p := range providers {
		limits[p.Name] = p.Limits
	}
	l.mu.Lock()
	l.limits = limits
	l.mu.Unlock()
	l.awake()
}

func (l *Log) awake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Lost is how many rows were lost since Open.
func (l *Log) Lost() int64 {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// Close writes what was taken and closes the file. Rows that come later are
// lost.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	l.mu.Unlock()
	if first {
		close(l.stop)
	}
	<-l.stopped
	return l.failure
}

// run is the goroutine that writes, until Close.
func (l *Log) run() {
	defer close(l.stopped)
	prune := time.NewTicker(pruneEvery)
	defer prune.Stop()
	for {
		var again <-chan time.Time
		wake := l.wake
		if l.failure != nil {
			again, wake = time.After(retryAfter), nil // not for every row
		}
		select {
		case <-wake:
			l.linger()
			l.flush()
		case <-again:
			l.flush()
		case <-prune.C:
			l.prune()
		case <-l.stop:
			l.flush()
			l.lose(len(l.writing))
			l.file.close()
			return
		}
	}
}

// linger waits for rows that can share a transaction.
func (l *Log) linger() {
	select {
	case <-time.After(linger):
	case <-l.stop:
	}
}

// flush writes everything that waits. What cannot be written is kept.
func (l *Log) flush() {
	for l.take() || l.failure != nil {
		err := l.file.write(l.writing, l.storing)
		l.report(err)
		if err != nil {
			return
		}
		clear(l.writing) // lets go of its texts
		l.writing, l.storing = l.writing[:0], nil
	}
}

// take makes what waits that which is being written, unless there is such yet.
func (l *Log) take() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.writing) == 0 {
		l.writing, l.waiting = l.waiting, l.writing
	}
	if l.limits != nil {
		l.storing, l.limits = l.limits, nil
	}
	return len(l.writing) > 0 || l.storing != nil
}

func (l *Log) lose(rows int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost += int64(rows + len(l.waiting))
	l.waiting = nil
}

// report says once that the log cannot be written, and once that it can again.
func (l *Log) report(err error) {
	switch {
	case err != nil && l.failure == nil:
		l.options.Logger.Warn("the request log cannot be written; requests go on, and their rows are lost once memory for them is full",
			"path", l.file.path, "error", err)
	case err == nil && l.failure != nil:
		l.options.Logger.Info("the request log is written again", "path", l.file.path, "rows_lost", l.Lost())
	}
	l.failure = err
}

// prune removes what is too old or too much, in small steps between which rows
// are written.
func (l *Log) prune() {
	for l.failure == nil {
		more, err := l.file.prune(time.Now().AddDate(0, 0, -l.options.KeepDays), int64(l.options.MaxMB)<<20)
		l.report(err)
		if !more {
			return
		}
		select {
		case <-l.stop:
			return
		case <-l.wake:
			l.flush()
		default:
		}
	}
}
