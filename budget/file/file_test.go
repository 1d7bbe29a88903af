package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/paceline-proxy/paceline/budget"
)

const key = "openai/1a2b3c4d/"

func open(t *testing.T) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "rate-limits"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s *Store, key, state string) {
	t.Helper()
	if err := s.Update(t.Context(), key, func([]byte) []byte { return []byte(state) }); err != nil {
		t.Fatal(err)
	}
}

// get wants what is stored.
func get(t *testing.T, s *Store, key, want string) {
	t.Helper()
	raw, err := s.Get(t.Context(), key)
	if err != nil || string(raw) != want {
		t.Errorf("%q: stored %q, %v, want %q", key, raw, err, want)
	}
}

// what is stored comes back, by any store of the directory, whatever the
// key and the bytes are.
func TestStore(t *testing.T) {
	s := open(t)
	get(t, s, key, "")
	other, err := Open(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range []string{`{"a":1}`, `{"a":2}`, "not JSON \x00\xff", `{}`, ""} {
		put(t, s, key, state)
		get(t, s, key, state)
		get(t, other, key, state)
	}
	if err := other.Update(t.Context(), key, func([]byte) []byte { return nil }); err != nil {
		t.Fatal(err)
	}
	get(t, s, key, "")
}

// a file is named by provider, id and scope. R-58: an id may be the name
// of a profile.
func TestNames(t *testing.T) {
	for key, want := range map[string]string{
		"openai/1a2b3c4d/":                "openai-1a2b3c4d.json",
		"openai/work/":                    "openai-work.json",
		"openai/1a2b3c4d/gpt-4o-mini":     "openai-1a2b3c4d-gpt-4o-mini.json",
		"openai/1a2b3c4d/~other":          "openai-1a2b3c4d-~other.json",
		"open-router/org-X/a":             "open%2drouter-org%2d%58-a.json",
		"../../etc/passwd":                "%2e.%2f..%2fetc%2fpasswd.json",
		"..//x":                           "%2e.--x.json",
		"":                                ".json",
		"a/" + strings.Repeat("b", 5000):  "",
		"a//" + strings.Repeat("日", 5000): "",
	} {
		got := name(key)
		if filepath.Base(got) != got || len(got) > 220 || want != "" && got != want {
			t.Errorf("%q is kept in %q, want %q", key, got, want)
		}
	}
}

// Two keys never share a file, not even where case does not count.
func FuzzNames(f *testing.F) {
	for _, pair := range [][2]string{
		{"a/b/", "a/b"}, {"a-b/c/", "a/b-c/"}, {"a/b-c/d", "a/b/c-d"}, {"A/b/", "a/b/"}, {"a%2fb", "a/b"},
		{"é", "É"}, {"a//", "a"}, {"/", "//"}, {strings.Repeat("x", 300), strings.Repeat("x", 301)}, {"a\x00", "a"},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := name(a), name(b)
		if a != b && strings.EqualFold(x, y) {
			t.Errorf("%q and %q share %q", a, b, x)
		}
		if filepath.Base(x) != x || !filepath.IsLocal(x) || x == ".lock" || x == ".new" || len(x) > 255 {
			t.Errorf("%q is kept in %q", a, x)
		}
	})
}

// what cannot be read is an error and mended by the next write;
// what is newer is left alone.
func TestBadFiles(t *testing.T) {
	for what, tt := range map[string]struct {
		content string
		newer   bool
	}{
		"nothing":        {"", false},
		"zeros":          {strings.Repeat("\x00", 100), false},
		"half a file":    {`{"version":1,"key":"openai/1a2b`, false},
		"a list":         {`[1]`, false},
		"another key":    {`{"version":1,"key":"x","state":{}}`, false},
		"no version":     {`{"key":"openai/1a2b3c4d/","state":{}}`, false},
		"too much":       {`{"version":1,"key":"` + strings.Repeat("x", largest) + `"}`, false},
		"newer":          {`{"version":2,"key":"openai/1a2b3c4d/","state":{}}`, true},
		"newer, strange": {`{"version":2,"key":["openai"]}`, true},
	} {
		t.Run(what, func(t *testing.T) {
			s := open(t)
			path := s.path(key)
			if err := os.WriteFile(path, []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if raw, err := s.Get(t.Context(), key); err == nil || raw != nil || errors.Is(err, ErrNewer) != tt.newer {
				t.Errorf("read as %q, %v", raw, err)
			}
			called := 0
			err := s.Update(t.Context(), key, func(old []byte) []byte {
				called++
				if old != nil {
					t.Errorf("given %q", old)
				}
				return []byte(`{"n":1}`)
			})
			if tt.newer {
				raw, _ := os.ReadFile(path)
				if !errors.Is(err, ErrNewer) || called > 0 || string(raw) != tt.content {
					t.Errorf("replaced: %v", err)
				}
				return
			}
			if err != nil || called != 1 {
				t.Fatal(called, err)
			}
			get(t, s, key, `{"n":1}`)
			if kept, err := os.ReadFile(path + ".damaged"); err != nil || string(kept) != tt.content {
				t.Errorf("not kept: %v", err)
			}
		})
	}
}

// a directory that is gone is nothing known, and made again; one that
// cannot be written to is an error that loses nothing.
func TestBadDirectory(t *testing.T) {
	s := open(t)
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	get(t, s, key, "")
	put(t, s, key, `1`)
	get(t, s, key, `1`)

	if err := os.Mkdir(filepath.Join(s.dir, ".new"), 0o700); err != nil { // whoever runs the test
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), key, func([]byte) []byte { return []byte(`2`) }); err == nil {
		t.Error("written where nothing can be")
	}
	get(t, s, key, `1`)

	in := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(in, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(in, "dir")); err == nil {
		t.Error("opened in a file")
	}
}

// what is stored is its user's own, on this machine.
func TestPermissions(t *testing.T) {
	s := open(t)
	put(t, s, key, `1`)
	for path, want := range map[string]os.FileMode{s.dir: 0o700, s.path(key): 0o600, filepath.Join(s.dir, ".lock"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// a lock that another process holds stops a write only as long as
// the context says, and no read.
func TestLockHeld(t *testing.T) {
	s := open(t)
	put(t, s, key, `1`)
	held := flock.New(filepath.Join(s.dir, ".lock"))
	if err := held.Lock(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := s.Update(ctx, key, func([]byte) []byte { t.Error("called"); return nil })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	get(t, s, key, `1`)
	if err := held.Unlock(); err != nil {
		t.Fatal(err)
	}
	put(t, s, key, `2`)
	get(t, s, key, `2`)
	for _, err := range []error{
		s.Update(ctx, key, func([]byte) []byte { t.Error("called"); return nil }),
		func() error { _, err := s.Get(ctx, key); return err }(),
	} {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("too late: %v", err)
		}
	}
}

// A file that has not changed is not read again; one that has is, also where
// it is as long as before.
func TestCache(t *testing.T) {
	s := open(t)
	put(t, s, key, `1`)
	path := s.path(key)
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, long, long); err != nil {
		t.Fatal(err)
	}
	get(t, s, key, `1`)
	first, _ := s.Get(t.Context(), key)
	second, _ := s.Get(t.Context(), key)
	if &first[0] != &second[0] {
		t.Error("read again")
	}
	for n := range 50 {
		put(t, s, key, strconv.Itoa(n%10))
		get(t, s, key, strconv.Itoa(n%10))
	}
}

const childOf = "PACELINE_TEST_STORE"

// TestMain is also the other processes of TestProcesses.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childOf); dir != "" {
		if err := count(dir, 150); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// count adds n, one by one, to what is counted in a store.
func count(dir string, n int) error {
	s, err := Open(dir)
	if err != nil {
		return err
	}
	for range n {
		var seen int
		err := s.Update(context.Background(), key, func(old []byte) []byte {
			if old != nil {
				if err := json.Unmarshal(old, &seen); err != nil {
					panic(err)
				}
			}
			return []byte(strconv.Itoa(seen + 1))
		})
		if err != nil {
			return err
		}
		raw, err := s.Get(context.Background(), key)
		if err != nil {
			return err
		}
		if now, err := strconv.Atoi(string(raw)); err != nil || now <= seen {
			return fmt.Errorf("wrote %d, read %q, %v", seen+1, raw, err)
		}
	}
	return nil
}

// several processes, each with its own store, lose no write and
// see no half of one.
func TestProcesses(t *testing.T) {
	s := open(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childOf+"="+s.dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			if err := count(s.dir, 150); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	get(t, s, key, "900")
}

// a state comes back as it was stored.
func TestState(t *testing.T) {
	s := open(t)
	now := time.Now()
	a := (&budget.Book{Store: s}).Caller(key, now)
	a.Use(now, func(st *budget.State, _ *budget.Starts) bool {
		return st.Pause.Extend(now.Add(time.Hour), budget.RateLimit, budget.Told)
	})
	b := (&budget.Book{Store: s}).Caller(key, now)
	b.Use(now, func(*budget.State, *budget.Starts) bool { return false })
	if got := b.PausedUntil(); !got.Equal(now.Add(time.Hour)) {
		t.Errorf("paused until %v", got)
	}
}
