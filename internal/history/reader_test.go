package history_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/internal/history"
)

// ids are those of records.
func ids(rows []paceline.Record) string {
	var words []string
	for _, r := range rows {
		words = append(words, r.ID)
	}
	return strings.Join(words, " ")
}

func named(s float64, id string, status int, change ...func(*paceline.Record)) paceline.Record {
	return sent(s, status, append(change, func(r *paceline.Record) { r.ID = id })...)
}

func TestQueries(t *testing.T) {
	path := logOf(t,
		named(5, "c", 200), named(1, "a", 429), named(5, "d", 200),
		named(3, "b", 200, func(r *paceline.Record) { r.Provider = "q" }),
		named(9, "e", 503, func(r *paceline.Record) { r.Class = dialect.Overloaded }),
	)
	at := func(s float64) time.Time { return sent(s, 0).Sent }
	for _, c := range []struct {
		query history.Query
		want  string
	}{
		{history.Query{}, "a b c d e"},
		{history.Query{Provider: "q"}, "b"},
		{history.Query{Provider: "none"}, ""},
		{history.Query{Since: at(3), Until: at(9)}, "b c d"},
		{history.Query{Last: 2}, "d e"},
		{history.Query{Last: 3, Provider: "p", Until: at(9)}, "a c d"},
		{history.Query{Last: 99, Since: at(3)}, "b c d e"},
		{history.Query{Status: 429}, "a"},
		{history.Query{Class: dialect.Overloaded}, "e"},
	} {
		if got := ids(records(t, path, c.query)); got != c.want {
			t.Errorf("%+v: %s, want %s", c.query, got, c.want)
		}
	}
}

// Rows are read in pages, and all of them, those of one instant too.
func TestPages(t *testing.T) {
	var rows []paceline.Record
	for i := range 3500 {
		rows = append(rows, named(float64(i/1500), fmt.Sprint(i), 200))
	}
	path := logOf(t, rows...)
	if got := ids(records(t, path, history.Query{})); got != ids(rows) {
		t.Error("other rows, or in another order")
	}
	if got := ids(records(t, path, history.Query{Last: 2600})); got != ids(rows[900:]) {
		t.Error("other last rows")
	}
	for range newReader(t, path).Records(context.Background(), history.Query{}) {
		break // and nothing is left open: Close, at the end, would wait
	}
}

// Follow reads what is there and then what is written, and a log that was
// begun anew from its beginning.
func TestFollow(t *testing.T) {
	path := logOf(t, named(9, "a", 200), named(1, "b", 200), named(5, "q", 200, func(r *paceline.Record) { r.Provider = "q" }), named(5, "c", 200))
	l := newLog(t, path, history.Options{KeepDays: 1 << 20})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var got []string
	for r, err := range newReader(t, path).Follow(ctx, history.Query{Provider: "p", Last: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		switch got = append(got, r.ID); r.ID {
		case "c": // later by writing, earlier by sending
			l.Add(named(0, "q2", 200, func(r *paceline.Record) { r.Provider = "q" }))
			l.Add(named(0, "d", 200))
		case "d":
			l.Close()
			other := logOf(t, named(2, "e", 200))
			for _, file := range []string{path + "-wal", path} { // as a damaged one is
				if err := os.Rename(file, file+".aside"); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Rename(other, path); err != nil {
				t.Fatal(err)
			}
		case "e":
			cancel()
		}
	}
	if want := []string{"b", "c", "d", "e"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// With nothing to begin with, Follow waits for what comes.
func TestFollowFromNothing(t *testing.T) {
	path := logOf(t, named(0, "a", 200))
	l := newLog(t, path, history.Options{KeepDays: 1 << 20})
	l.Add(named(1, "b", 429))
	for r, err := range newReader(t, path).Follow(t.Context(), history.Query{Status: 429}) {
		if err != nil || r.ID != "b" {
			t.Error(r.ID, err)
		}
		break
	}
}

// A log in a directory where nothing can be written is read, cleanly closed
// or not.
func TestReadOnlyHome(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("nothing is read-only to root")
	}
	path := logOf(t, named(0, "a", 200))
	dir := filepath.Dir(path)
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o700)
	if got := ids(records(t, path, history.Query{})); got != "a" {
		t.Errorf("got %q", got)
	}
}

// FuzzFile damages a file anywhere. Whatever that does, nothing fails but with
// an error, and rows can be logged and read afterwards.
func FuzzFile(f *testing.F) {
	path := logOf(f, make([]paceline.Record, 300)...)
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint32(0), []byte("SQLite"))
	f.Add(uint32(18), []byte{9, 9})
	f.Add(uint32(60), []byte{0, 0, 0, 0})
	f.Add(uint32(4096), []byte{2, 0, 0, 0, 255, 255, 0})
	f.Add(uint32(9000), []byte("\x00\xff\x10"))
	f.Fuzz(func(t *testing.T, at uint32, b []byte) {
		path := t.TempDir() + "/log.db"
		damaged := slices.Clone(whole)
		copy(damaged[int(at)%len(damaged):], b)
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		rowsOf(path)
		l, err := history.Open(path, history.Options{KeepDays: 1 << 20})
		if err != nil {
			if !strings.Contains(err.Error(), "newer paceline") {
				t.Fatal(err)
			}
			return
		}
		l.Add(named(1e6, "new", 200))
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := history.OpenReader(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for r, err := range r.Records(context.Background(), history.Query{Last: 1}) {
			if err != nil || r.ID != "new" {
				t.Fatalf("%q is the last row, %v", r.ID, err)
			}
		}
	})
}
