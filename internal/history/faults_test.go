package history_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/internal/history"
)

// A said is a logger that can be asked what it was told.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) logger() *slog.Logger { return slog.New(slog.NewTextHandler(s, nil)) }

// count is how often it was told something that contains words.
func (s *said) count(words string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.text.String(), words)
}

// until waits for what the log does in the background.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// count is how many rows a log holds.
func count(t *testing.T, path string) int { return len(records(t, path, history.Query{})) }

// database opens the file as anybody can.
func database(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	return db
}

func do(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.Exec(statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func TestMissingLog(t *testing.T) {
	path := t.TempDir() + "/log.db"
	_, err := history.OpenReader(path)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "no requests logged yet") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("reading made it")
	}
	// A writer may have been killed before it made a table.
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := history.OpenReader(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// What can be read is nobody else's business, nor is what SQLite writes beside
// it.
func TestFilesAreTheOwners(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "log ?#%20.db")
	l := newLog(t, path, history.Options{})
	l.Add(sent(0, 200))
	until(t, "a row", func() bool {
		r, err := history.OpenReader(path)
		if err != nil {
			return false
		}
		defer r.Close()
		for range r.Records(context.Background(), history.Query{}) {
			return true
		}
		return false
	})
	files, err := filepath.Glob(filepath.Dir(path) + "/*")
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	for _, f := range append(files, filepath.Dir(path)) {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %v, %v", f, info.Mode(), err)
		}
	}
}

// A log that cannot be written costs no request anything, and goes on by
// itself; both are said once.
func TestLockedLogGoesOn(t *testing.T) {
	var said said
	path := t.TempDir() + "/log.db"
	l := newLog(t, path, history.Options{Logger: said.logger()})
	l.Add(sent(0, 200))
	until(t, "a row", func() bool { return fileSize(path) > 0 && count(t, path) == 1 })
	other := database(t, path)
	do(t, other, "BEGIN IMMEDIATE")
	l.Add(sent(1, 200))
	until(t, "a warning", func() bool { return said.count("cannot be written") == 1 })
	began := time.Now()
	for i := range 3 * 8192 {
		l.Add(sent(float64(i), 200))
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("Add waited: %v for all", took)
	}
	lost := l.Lost()
	if lost == 0 {
		t.Error("more than fits in memory, and nothing is lost")
	}
	do(t, other, "ROLLBACK")
	until(t, "the end of it", func() bool { return said.count("is written again") == 1 })
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if n, want := count(t, path), 2+3*8192-int(lost); n != want || l.Lost() != lost {
		t.Errorf("%d rows and %d lost, want %d and %d", n, l.Lost(), want, lost)
	}
	if n := said.count("cannot be written"); n != 1 {
		t.Errorf("warned %d times", n)
	}
	if n := said.count(fmt.Sprint("rows_lost=", lost)); n != 1 {
		t.Errorf("the loss is not said: %s", said.text.String())
	}
}

func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// Where the directory cannot be made now, the log begins when it can.
func TestLogBeginsLater(t *testing.T) {
	var said said
	dir := t.TempDir() + "/home"
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := newLog(t, dir+"/log.db", history.Options{Logger: said.logger()})
	l.Add(sent(0, 200))
	if said.count("cannot be written") != 1 {
		t.Error("it is not said")
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	until(t, "the log", func() bool { return said.count("is written again") == 1 })
	if err := l.Close(); err != nil || count(t, dir+"/log.db") != 1 || l.Lost() != 0 {
		t.Error(err, l.Lost())
	}
}

// A file that was deleted or replaced under the writer is begun anew.
func TestDeletedLogBeginsAnew(t *testing.T) {
	path := logOf(t)
	l := newLog(t, path, history.Options{})
	for _, beside := range []string{"", "-wal", "-shm"} {
		_ = os.Remove(path + beside)
	}
	l.Add(sent(0, 200))
	if err := l.Close(); err != nil || count(t, path) != 1 {
		t.Error(err)
	}
}

// A damaged database is set aside, whether it is damaged when it is opened or
// later.
func TestDamagedLogIsSetAside(t *testing.T) {
	noise := bytes.Repeat([]byte("no database "), 4096)
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, path string)
	}{
		{"another file", func(t *testing.T, path string) { write(t, path, noise) }},
		{"the schema", func(t *testing.T, path string) { overwrite(t, path, 100, noise[:3000]) }},
		{"the last rows", func(t *testing.T, path string) {
			overwrite(t, path, 4096, bytes.Repeat(noise, 8)[:fileSize(path)-4096])
		}},
		{"cut", func(t *testing.T, path string) {
			if err := os.Truncate(path, 4096+100); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := logOf(t, make([]paceline.Record, 5000)...)
			c.damage(t, path)
			if r, err := history.OpenReader(path); err == nil {
				for _, err = range r.Records(context.Background(), history.Query{}) {
				}
				if r.Close(); err == nil || !strings.Contains(err.Error(), "is damaged") {
					t.Errorf("reading it: %v", err)
				}
			} else if !strings.Contains(err.Error(), "is damaged") {
				t.Errorf("opening it to read: %v", err)
			}
			var said said
			l := newLog(t, path, history.Options{Logger: said.logger()})
			l.Add(sent(0, 200))
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if n := count(t, path); n != 1 {
				t.Errorf("%d rows in the new log", n)
			}
			aside, _ := filepath.Glob(path + ".damaged-*")
			if len(aside) == 0 || said.count("set aside") != 1 || fileSize(aside[0]) == 0 {
				t.Errorf("set aside as %q; said: %s", aside, said.text.String())
			}
		})
	}
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func overwrite(t *testing.T, path string, at int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

// What a newer paceline has written is not touched.
func TestNewerLogIsLeftAlone(t *testing.T) {
	path := logOf(t, sent(0, 200))
	db := database(t, path)
	do(t, db, "PRAGMA user_version = 99")
	db.Close()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	l, err := history.Open(path, history.Options{})
	if err == nil || !strings.Contains(err.Error(), "newer paceline") {
		t.Errorf("got %v", err)
	}
	l.Add(sent(1, 200)) // a nil Log
	l.Declare(nil)
	if l.Lost() != 0 || l.Close() != nil {
		t.Error("a nil Log fails")
	}
	if _, err := history.OpenReader(path); err == nil || !strings.Contains(err.Error(), "newer paceline") {
		t.Errorf("got %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Error("the file has changed")
	}
}

// A log from before there was some column is read as it is, and gets the
// column when it is written.
func TestOlderLog(t *testing.T) {
	path := logOf(t, sent(0, 200, func(r *paceline.Record) { r.Tier = "small" }))
	db := database(t, path)
	do(t, db, "ALTER TABLE attempts DROP COLUMN tier")
	db.Close()
	if rows := records(t, path, history.Query{}); len(rows) != 1 || rows[0].Tier != "" || rows[0].Model != "m" {
		t.Errorf("%+v", rows)
	}
	l := newLog(t, path, history.Options{KeepDays: 1 << 20})
	l.Add(sent(1, 200, func(r *paceline.Record) { r.Tier = "large" }))
	l.Close()
	if rows := records(t, path, history.Query{}); len(rows) != 2 || rows[1].Tier != "large" {
		t.Errorf("%+v", rows)
	}
}

// Two processes may write one log, as when one takes over from the other.
func TestTwoWriters(t *testing.T) {
	path := t.TempDir() + "/log.db"
	var writers [2]*history.Log
	for i := range writers {
		writers[i] = newLog(t, path, history.Options{})
	}
	var all sync.WaitGroup
	for _, l := range writers {
		all.Go(func() {
			for i := range 2000 {
				l.Add(sent(float64(i), 200))
			}
			l.Close()
		})
	}
	all.Wait()
	if n := count(t, path); n != 4000 {
		t.Errorf("%d rows, want 4000", n)
	}
	sound(t, path)
}

// sound finds out whether a database is.
func sound(t *testing.T, path string) {
	t.Helper()
	var said string
	if err := database(t, path).QueryRow("PRAGMA integrity_check").Scan(&said); err != nil || said != "ok" {
		t.Errorf("the database: %s, %v", said, err)
	}
}

// Killed at any instant, what was written reads.
func TestKilledWriter(t *testing.T) {
	if path := os.Getenv("PACELINE_TEST_LOG"); path != "" {
		writeForever(path)
	}
	path := t.TempDir() + "/log.db"
	most := 0
	for i := range 8 {
		c := exec.Command(os.Args[0], "-test.run=^TestKilledWriter$")
		c.Env = append(os.Environ(), "PACELINE_TEST_LOG="+path)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		// Some are killed while they open it, some after many rows.
		wait := time.Duration(i*i) * 7 * time.Millisecond
		until(t, "its first row", func() bool { return wait > 0 || rowsOf(path) > most })
		time.Sleep(wait)
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		c.Wait()
		if n := rowsOf(path); n < most {
			t.Fatalf("%d rows after kill %d, were %d", n, i, most)
		} else {
			most = n
		}
	}
	if most == 0 {
		t.Error("nothing was written")
	}
	sound(t, path)
}

// rowsOf is how many rows can be read now, 0 where there is no log yet.
func rowsOf(path string) (n int) {
	r, err := history.OpenReader(path)
	if err != nil {
		return 0
	}
	defer r.Close()
	for _, err := range r.Records(context.Background(), history.Query{}) {
		if err != nil {
			return -1
		}
		n++
	}
	return n
}

func writeForever(path string) {
	l, err := history.Open(path, history.Options{})
	if err != nil {
		panic(err)
	}
	for i := 0; ; i++ {
		l.Add(sent(float64(i), 200))
		time.Sleep(100 * time.Microsecond)
	}
}
