package history

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline"
)

// unhurried opens a log that is written by nobody but the test.
func unhurried(t *testing.T, o Options) *Log {
	t.Helper()
	l := &Log{options: o, file: file{path: t.TempDir() + "/log.db", logger: o.Logger}, wake: make(chan struct{}, 1), stop: make(chan struct{})}
	if err := l.file.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.file.close)
	return l
}

// add writes rows sent at an instant, each with an error of so many bytes.
func (l *Log) add(t *testing.T, rows int, at time.Time, bytes int) {
	t.Helper()
	for i := range rows {
		l.Add(paceline.Record{ID: fmt.Sprint(i), Sent: at.Add(time.Duration(i) * time.Millisecond), Error: strings.Repeat("e", bytes)})
		if i%1000 == 0 {
			l.flush()
		}
	}
	l.flush()
	if l.failure != nil || l.lost > 0 {
		t.Fatal(l.failure, l.lost)
	}
}

func (l *Log) rows(t *testing.T) (all []paceline.Record) {
	t.Helper()
	r, err := OpenReader(l.file.path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for record, err := range r.Records(context.Background(), Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, record)
	}
	return all
}

// Rows go when they are older than KeepDays.
func TestOldRowsGo(t *testing.T) {
	l := unhurried(t, Options{KeepDays: 31, MaxMB: 1024})
	now := time.Now()
	l.add(t, 1200, now.AddDate(0, 0, -31).Add(-time.Hour), 1)
	l.add(t, 700, now.AddDate(0, 0, -31).Add(time.Hour), 1)
	steps := 0
	for more := true; more; steps++ {
		var err error
		if more, err = l.file.prune(now.AddDate(0, 0, -31), 1<<30); err != nil {
			t.Fatal(err)
		}
	}
	if rows := l.rows(t); len(rows) != 700 || rows[0].Sent.Before(now.AddDate(0, 0, -31)) {
		t.Errorf("%d rows are left, want 700", len(rows))
	}
	if steps != 1200/pruneRows+2 {
		t.Errorf("%d steps: one is too large or too small", steps)
	}
}

// Where the file is too large, its oldest rows go and it becomes smaller;
// meanwhile rows are written.
func TestTheFileIsBounded(t *testing.T) {
	l := unhurried(t, Options{KeepDays: 31, MaxMB: 1})
	now := time.Now()
	l.add(t, 2500, now.Add(-time.Hour), 1000)
	l.Add(paceline.Record{ID: "new", Sent: now})
	l.prune()
	if l.failure != nil {
		t.Fatal(l.failure)
	}
	l.file.close() // so that all of it is in the file
	info, err := os.Stat(l.file.path)
	if err != nil || info.Size() > 1<<20 {
		t.Errorf("the file has %d bytes, %v", info.Size(), err)
	}
	rows := l.rows(t)
	if n := len(rows); n < 500 || n > 1000 || rows[n-1].ID != "new" || rows[n-2].ID != "2499" {
		t.Errorf("%d rows are left, the last %s", n, rows[n-1].ID)
	}
}

// A file whose free pages cannot be given up, as one that another program has
// written anew, is not tried for ever.
func TestAFileThatDoesNotShrink(t *testing.T) {
	l := unhurried(t, Options{})
	now := time.Now()
	l.add(t, 2500, now, 1000)
	for _, s := range []string{"PRAGMA journal_mode = delete", "PRAGMA auto_vacuum = none", "VACUUM", "PRAGMA journal_mode = wal"} {
		if _, err := l.file.db.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	for more, steps := true, 0; more; steps++ {
		var err error
		if more, err = l.file.prune(now.AddDate(0, 0, -31), 1<<20); err != nil {
			t.Fatal(err)
		}
		if steps == 100 {
			t.Fatal("it goes on for ever")
		}
	}
}

// A full disk loses nothing that fits in memory until there is room.
func TestFullDisk(t *testing.T) {
	l := unhurried(t, Options{Logger: slog.New(slog.DiscardHandler)})
	if _, err := l.file.db.Exec("PRAGMA max_page_count = 10"); err != nil {
		t.Fatal(err)
	}
	for range 2000 {
		l.Add(paceline.Record{ID: "some sixteen bytes"})
	}
	if l.flush(); l.failure == nil || !strings.Contains(l.failure.Error(), "full") {
		t.Fatal("it is not full:", l.failure)
	}
	l.Add(paceline.Record{ID: "meanwhile"})
	l.flush() // the file is opened again, and has its usual bounds
	if rows := l.rows(t); l.failure != nil || l.lost != 0 || len(rows) != 2001 {
		t.Errorf("%d rows, %d lost, %v", len(rows), l.lost, l.failure)
	}
}

// Values of any kind in the file are no reason to fail.
func FuzzColumns(f *testing.F) {
	f.Add(int64(511), "text", 0.5)
	f.Add(int64(-1), "\x00\xff", -1.0)
	f.Fuzz(func(t *testing.T, n int64, text string, x float64) {
		for _, c := range columns {
			for _, v := range []any{n, text, x, []byte(text), true} {
				var r paceline.Record
				if c.set(&r, v); c.name == "flags" {
					c.set(&r, n)
				}
				for _, c := range columns {
					c.value(&r)
				}
			}
		}
	})
}
