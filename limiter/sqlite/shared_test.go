package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
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

// CC-26, CC-22, L-45, L-80: who opens one file shares counts, places and
// throttles.
func TestHostsShare(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	one, other := open(t, path), open(t, path)
	granted(t, one, once("a"))
	d := refused(t, other, once("a"))
	if e := refused(t, one, once("a")); !e.RetryAt.Equal(d.RetryAt) {
		t.Errorf("room at %v here and at %v there", e.RetryAt, d.RetryAt)
	}
	place := limiter.Request{Limits: []limiter.Limit{{Key: "p", Concurrent: 1}}, Hold: time.Hour}
	d = granted(t, one, place)
	refused(t, other, place)
	if err := other.Release(context.Background(), d.Permit); err != nil {
		t.Fatal(err)
	}
	granted(t, one, place)
	if err := one.Throttle(context.Background(), "caller", time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if d := refused(t, other, limiter.Request{Key: "caller"}); d.Refused[0].Cause != limiter.Throttle {
		t.Errorf("refused by %v", d.Refused)
	}
	if err := other.Open(context.Background(), "caller"); err != nil {
		t.Fatal(err)
	}
	granted(t, one, limiter.Request{Key: "caller"})
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
	// Each update sees the one before, whoever made it.
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			l := []limiter.Blobs{one, other}[i%2]
			for range 25 {
				if err := l.Update(ctx, "n", func(old []byte) []byte { return append(old, 'x') }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got, err := one.Get(ctx, "n"); err != nil || string(got) != strings.Repeat("x", 200) {
		t.Errorf("%d updates of 200: %v", len(got), err)
	}
	// A function that fails leaves everything as it was, and the file unlocked.
	func() {
		defer func() { recover() }()
		one.Update(ctx, "n", func([]byte) []byte { panic("no") })
	}()
	if got, err := other.Get(ctx, "n"); err != nil || len(got) != 200 {
		t.Errorf("%d bytes: %v", len(got), err)
	}
	granted(t, one, once("a"))
}

// A batch is answered as its requests would be, one after the other; once a
// caller is refused, the rest of its requests share that answer.
func TestBatch(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "limits.db"))
	ctx := context.Background()
	by := func(caller string, cost int) limiter.Request {
		return limiter.Request{Key: caller, Cost: cost, Hold: time.Hour, Limits: []limiter.Limit{
			{Key: "a", Calls: 10, Per: time.Hour}, {Key: "p", Concurrent: 5},
		}}
	}
	ds, err := l.AcquireBatch(ctx, []limiter.Request{by("x", 4), by("x", 4), by("x", 4), by("y", 2), by("x", 1), by("y", 1)})
	if err != nil {
		t.Fatal(err)
	}
	permits := map[string]bool{}
	for i, want := range []bool{true, true, false, true, false, false} {
		if ds[i].Granted != want {
			t.Errorf("request %d: granted %t: %+v", i, ds[i].Granted, ds[i].Refused)
		}
		if want {
			permits[ds[i].Permit] = true
		}
	}
	if fmt.Sprint(ds[4]) != fmt.Sprint(ds[2]) {
		t.Errorf("refused with %v, want the answer before, %v", ds[4], ds[2])
	}
	if len(permits) != 3 || permits[""] {
		t.Errorf("permits %v", permits)
	}
	v, err := l.Peek(ctx, "x", by("x", 1).Limits)
	if err != nil || v.Usage[0].Used != 10 || v.Usage[1].Held != 3 {
		t.Errorf("%+v, %v", v.Usage, err)
	}
	for p := range permits {
		if err := l.Release(ctx, p); err != nil {
			t.Error(err)
		}
	}
	if v, err = l.Peek(ctx, "x", by("x", 1).Limits); err != nil || v.Usage[1].Held != 0 {
		t.Errorf("%+v, %v", v.Usage, err)
	}
	// One that makes no sense fails all of them, and nothing is counted.
	if ds, err := l.AcquireBatch(ctx, []limiter.Request{once("b"), {Cost: -1}}); !errors.Is(err, limiter.ErrInvalid) || ds != nil {
		t.Errorf("%v, %v", ds, err)
	}
	granted(t, l, once("b"))
	if ds, err := l.AcquireBatch(ctx, nil); err != nil || len(ds) != 0 {
		t.Errorf("%v, %v", ds, err)
	}
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
	var most int
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
		} else if n > 2*most {
			t.Fatalf("%d pages after round %d, %d after round 20", n, round, most)
		}
		for range 10 {
			refused(t, l, lasting)
		}
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
