package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/sqlite"
)

// once is a request for the only call of a bucket.
func once(bucket string) limiter.Request {
	return limiter.Request{Key: "caller", Limits: []limiter.Limit{{Key: bucket, Calls: 1, Per: time.Hour}}}
}

// granted asks for a call that must be granted.
func granted(t *testing.T, l limiter.Limiter, r limiter.Request) limiter.Decision {
	t.Helper()
	d, err := l.Acquire(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if !d.Granted {
		t.Fatalf("refused: %+v", d.Refused)
	}
	return d
}

// refused asks for a call that must be refused.
func refused(t *testing.T, l limiter.Limiter, r limiter.Request) limiter.Decision {
	t.Helper()
	d, err := l.Acquire(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if d.Granted {
		t.Fatal("granted")
	}
	return d
}

// database is the file as another program sees it.
func database(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

func do(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// says wants an error that names the backend and the file, and has some words.
func says(t *testing.T, err error, path string, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, w := range append(words, "sqlite limiter "+path+": ") {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	if errors.Is(err, limiter.ErrInvalid) {
		t.Errorf("%q blames the request", err)
	}
}

func TestPathsThatAreNoFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	foreign := filepath.Join(dir, "foreign.db")
	do(t, database(t, foreign), "CREATE TABLE precious (x)", "INSERT INTO precious VALUES (1)")
	newer := filepath.Join(dir, "newer.db")
	open(t, newer)
	do(t, database(t, newer), "PRAGMA user_version = 99")
	for _, test := range []struct {
		path string
		says []string
	}{
		{filepath.Join(dir, "tpyo", "limits.db"), []string{"there is no directory " + filepath.Join(dir, "tpyo")}},
		{dir, []string{"it is a directory", "name a file"}},
		{os.DevNull, []string{"no regular file"}},
		{write("text", strings.Repeat("not a database ", 1000)), []string{"no database"}},
		{write("short", "x"), []string{"no database"}},
		{filepath.Join(write("plain", ""), "limits.db"), []string{"not a directory"}},
		{foreign, []string{"another program"}},
		{newer, []string{"newer paceline", "format 99"}},
	} {
		l, err := sqlite.Open(context.Background(), test.path, sqlite.Options{})
		if err == nil {
			l.Close()
		}
		says(t, err, test.path, test.says...)
	}
	// An empty file is as good as none, and what is another's stays as it was.
	open(t, write("empty", ""))
	var n int
	if err := database(t, foreign).QueryRow("SELECT count(*) FROM sqlite_schema").Scan(&n); err != nil || n != 1 {
		t.Errorf("%d tables: %v", n, err)
	}
}

// Nobody else may read what keys are called.
func TestFileIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	granted(t, open(t, path), once("a"))
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) != 3 {
		t.Fatalf("%v: %v", files, err)
	}
	for _, f := range files {
		if is, err := os.Stat(f); err != nil || is.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f, is.Mode(), err)
		}
	}
}

// A file that another program has locked is waited for, as long as the options
// and the context say. Then nothing is lost.
func TestLockedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	ctx := context.Background()
	const wait = 100 * time.Millisecond
	l, err := sqlite.Open(ctx, path, sqlite.Options{Wait: wait})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := granted(t, l, limiter.Request{Limits: []limiter.Limit{{Key: "p", Concurrent: 1}, {Key: "a", Calls: 2, Per: time.Hour}}, Hold: time.Hour})
	other := database(t, path)
	do(t, other, "BEGIN IMMEDIATE")

	start := time.Now()
	_, err = l.Acquire(ctx, once("a"))
	says(t, err, path, "locked", "end it")
	if took := time.Since(start); took < wait {
		t.Errorf("waited %v, want %v", took, wait)
	}
	for what, call := range map[string]func(context.Context) error{
		"acquire": func(ctx context.Context) error { _, err := l.Acquire(ctx, once("a")); return err },
		"batch": func(ctx context.Context) error {
			_, err := l.AcquireBatch(ctx, []limiter.Request{once("a")})
			return err
		},
		"release":  func(ctx context.Context) error { return l.Release(ctx, d.Permit) },
		"throttle": func(ctx context.Context) error { return l.Throttle(ctx, "caller", time.Now().Add(time.Hour)) },
	} {
		short, cancel := context.WithTimeout(ctx, wait/10)
		if err := call(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", what, err)
		}
		cancel()
	}
	// Who only looks waits for nobody who writes.
	if v, err := l.Peek(ctx, "caller", []limiter.Limit{{Key: "a", Calls: 1, Per: time.Hour}, {Key: "p", Concurrent: 1}}); err != nil ||
		v.Usage[0].Used != 1 || v.Usage[1].Held != 1 || !v.Throttled.IsZero() {
		t.Errorf("%+v, %v", v, err)
	}
	_, err = sqlite.Open(ctx, path, sqlite.Options{Wait: wait})
	says(t, err, path, "locked")
	do(t, other, "ROLLBACK")

	// The lock is given back while somebody waits.
	patient, last := open(t, path), limiter.Request{Limits: []limiter.Limit{{Key: "a", Calls: 2, Per: time.Hour}}}
	do(t, other, "BEGIN IMMEDIATE")
	time.AfterFunc(wait/4, func() { other.Exec("ROLLBACK") })
	granted(t, patient, last)
	refused(t, l, last)
}

// After Close every call is an error that says so, and closing again is none.
func TestClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	l := open(t, path)
	granted(t, l, once("a"))
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	ctx := context.Background()
	limits := []limiter.Limit{{Key: "a", Calls: 1, Per: time.Hour}}
	for what, call := range map[string]func() error{
		"acquire":       func() error { _, err := l.Acquire(ctx, once("a")); return err },
		"batch":         func() error { _, err := l.AcquireBatch(ctx, []limiter.Request{once("a")}); return err },
		"empty batch":   func() error { _, err := l.AcquireBatch(ctx, nil); return err },
		"release":       func() error { return l.Release(ctx, "1.1") },
		"any release":   func() error { return l.Release(ctx, "no permit") },
		"settle":        func() error { return l.Settle(ctx, "no permit", nil) },
		"renew":         func() error { return l.Renew(ctx, nil, time.Second) },
		"throttle":      func() error { return l.Throttle(ctx, "c", time.Now().Add(time.Hour)) },
		"past throttle": func() error { return l.Throttle(ctx, "c", time.Time{}) },
		"open":          func() error { return l.Open(ctx, "c") },
		"peek":          func() error { _, err := l.Peek(ctx, "c", limits); return err },
		"seed":          func() error { return l.Seed(ctx, limits, time.Now()) },
		"get":           func() error { _, err := l.Get(ctx, "k"); return err },
		"update":        func() error { return l.Update(ctx, "k", func(b []byte) []byte { return b }) },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), path+": it was closed") {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused(t, open(t, path), once("a")) // CC-28
}

// A context that has ended is no reason to count anything.
func TestContextThatHasEnded(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "limits.db"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := l.Acquire(ctx, once("a")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "other.db"), sqlite.Options{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	granted(t, l, once("a"))
}

// What is damaged is said of the bucket it concerns, and others go on.
func TestDamagedRow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	l := open(t, path)
	granted(t, l, once("a"))
	granted(t, l, once("b"))
	do(t, database(t, path), "UPDATE buckets SET state = x'00112233445566778899' WHERE key = 'a'")
	_, err := l.Acquire(context.Background(), once("a"))
	says(t, err, path, `bucket "a"`, "damaged", "DELETE FROM buckets WHERE id = 1")
	refused(t, l, once("b"))
	do(t, database(t, path), "DELETE FROM buckets WHERE id = 1")
	granted(t, l, once("a"))
	do(t, database(t, path), "DELETE FROM clock")
	_, err = l.Acquire(context.Background(), once("a"))
	says(t, err, path, "clock", "damaged")
}

// Damage to the file is an error while it lasts.
func TestDamagedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	l := open(t, path)
	granted(t, l, once("a"))
	if err := l.Close(); err != nil { // all of it is in the one file
		t.Fatal(err)
	}
	sound, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bad := append([]byte(nil), sound...)
	for i := 200; i < len(bad); i++ {
		bad[i] = 0xff
	}
	if err := os.WriteFile(path, bad, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = sqlite.Open(context.Background(), path, sqlite.Options{})
	says(t, err, path, "damaged", "move it away")
	if err := os.WriteFile(path, sound, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, open(t, path), once("a"))
}

// Who removes the file begins with empty windows, and all share the new one. Those
// beside it may be forgotten.
func TestRemovedFile(t *testing.T) {
	for _, beside := range [][]string{{"", "-wal", "-shm"}, {""}, {"", "-wal"}} {
		path := filepath.Join(t.TempDir(), "limits.db")
		l := open(t, path)
		granted(t, l, once("a"))
		for _, f := range beside {
			if err := os.Remove(path + f); err != nil {
				t.Fatal(err)
			}
		}
		granted(t, open(t, path), once("a"))
		refused(t, l, once("a"))
		granted(t, l, once("b"))
		refused(t, open(t, path), once("b"))
		sound(t, path)
	}
}

// Where the directory is gone, calls fail until it is back.
func TestRemovedDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "limits.db")
	l := open(t, path)
	granted(t, l, once("a"))
	if err := os.Rename(dir, dir+".gone"); err != nil {
		t.Fatal(err)
	}
	_, err := l.Acquire(context.Background(), once("a"))
	says(t, err, path, "no directory")
	if err := os.Rename(dir+".gone", dir); err != nil {
		t.Fatal(err)
	}
	refused(t, l, once("a"))
}
