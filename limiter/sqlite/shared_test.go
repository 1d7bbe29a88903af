package sqlite_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// sound wants a file that SQLite finds nothing wrong with.
func sound(t *testing.T, path string) {
	t.Helper()
	var verdict string
	if err := database(t, path).QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("%s: %v", verdict, err)
	}
}

// Keys may hold any bytes, and are told apart by all of them.
func TestKeysOfAnyBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	l := open(t, path)
	keys := []string{"", "\x00", "a", "a\x00", "a\x00b", "\xff", "\xff\xfe", "\u00e9", "e\u0301", "a ", "A"}
	for _, key := range keys {
		granted(t, l, once(key))
		if err := l.Throttle(context.Background(), key, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if err := l.Update(context.Background(), key, func(old []byte) []byte {
			if old != nil {
				t.Errorf("%q has %q", key, old)
			}
			return []byte("of " + key)
		}); err != nil {
			t.Fatal(err)
		}
	}
	other := open(t, path)
	for _, key := range keys {
		refused(t, other, once(key))
		refused(t, other, limiter.Request{Key: key})
		if got, err := other.Get(context.Background(), key); err != nil || string(got) != "of "+key {
			t.Errorf("%q has %q: %v", key, got, err)
		}
	}
}

func TestBlobs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	one, other := open(t, path), open(t, path)
	ctx := context.Background()
	if got, err := one.Get(ctx, "k"); got != nil || err != nil {
		t.Errorf("%q, %v of nothing", got, err)
	}
	for _, want := range [][]byte{{}, []byte("x"), bytes.Repeat([]byte{0}, 100_000), {}} {
		if err := one.Update(ctx, "k", func([]byte) []byte { return want }); err != nil {
			t.Fatal(err)
		}
		if got, err := other.Get(ctx, "k"); got == nil || !bytes.Equal(got, want) || err != nil {
			t.Errorf("%d bytes, want %d: %v", len(got), len(want), err)
		}
	}
	if err := one.Update(ctx, "k", func([]byte) []byte { return nil }); err != nil {
		t.Fatal(err)
	}
	if got, err := other.Get(ctx, "k"); got != nil || err != nil {
		t.Errorf("%q, %v of what was removed", got, err)
	}
	// A function that fails leaves everything as it was, and the file unlocked.
	func() {
		defer func() { recover() }()
		one.Update(ctx, "k", func([]byte) []byte { panic("no") })
	}()
	if got, err := other.Get(ctx, "k"); got != nil || err != nil {
		t.Errorf("%q, %v after a panic", got, err)
	}
	granted(t, one, once("a"))
}

// What counts nothing any more is forgotten while others are asked for, and the
// file does not grow.
func TestNothingStaysForEver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	l := open(t, path)
	ctx := context.Background()
	lasting := limiter.Request{Limits: []limiter.Limit{{Key: "lasting", Calls: 1, Per: time.Hour}}}
	granted(t, l, lasting)
	place := limiter.Request{Limits: []limiter.Limit{{Key: "lasting place", Concurrent: 1}}, Hold: time.Hour}
	granted(t, l, place)
	pages := database(t, path)
	crowd := make([]limiter.Request, 2000)
	for i := range crowd {
		crowd[i].Limits = []limiter.Limit{{Key: fmt.Sprintf("one of a crowd, with a name of some length: %d", i), Calls: 1, Per: time.Millisecond}}
	}
	if _, err := l.AcquireBatch(ctx, crowd); err != nil {
		t.Fatal(err)
	}
	var crowded, most int
	if err := pages.QueryRow("SELECT page_count FROM pragma_page_count").Scan(&crowded); err != nil {
		t.Fatal(err)
	}
	for round := range 40 {
		rs := make([]limiter.Request, 20)
		for i := range rs {
			key := fmt.Sprintf("bucket %d of round %d", i, round)
			rs[i] = limiter.Request{Key: key, Hold: time.Microsecond, Limits: []limiter.Limit{
				{Key: key, Calls: 1, Per: time.Microsecond, Cost: 1}, {Key: key + "p", Concurrent: 1},
			}}
		}
		if _, err := l.AcquireBatch(ctx, rs); err != nil {
			t.Fatal(err)
		}
		if err := l.Throttle(ctx, rs[0].Key, time.Now().Add(time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		var n int
		if err := pages.QueryRow("SELECT page_count FROM pragma_page_count").Scan(&n); err != nil {
			t.Fatal(err)
		}
		if round <= 20 {
			most = n
		} else if n > most+most/4 {
			t.Fatalf("%d pages after round %d, %d after round 20", n, round, most)
		}
		for range 10 {
			refused(t, l, lasting)
		}
	}
	if most > crowded*2/3 {
		t.Errorf("%d pages, after %d for a crowd", most, crowded)
	}
	for _, table := range []string{"buckets", "throttles"} {
		var n int
		if err := database(t, path).QueryRow("SELECT count(*) FROM " + table).Scan(&n); err != nil || n > 500 {
			t.Errorf("%d rows in %s: %v", n, table, err)
		}
	}
	refused(t, l, lasting)
	refused(t, l, place)
	sound(t, path)
}
