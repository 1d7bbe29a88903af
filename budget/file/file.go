// Package file keeps what is known of each caller key in files, for every
// process on the machine that opens the same directory.
//
// Whatever is wrong with a file is an error, which a [budget.Book] takes for
// "nothing known", and which the next write mends where it can: a file that
// cannot be read is set aside, one of a newer version is left alone.
package file

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/paceline-proxy/paceline/budget"
)

// ErrNewer is wrapped by the error for a file that a newer version of paceline
// wrote. It is neither read nor replaced.
var ErrNewer = errors.New("written by a newer version of paceline")

// errCorrupt is wrapped by the error for a file that says nothing. The next
// write replaces it.
var errCorrupt = errors.New("cannot be read")

const (
	version = 1
	largest = 1 << 20 // no state is larger, by far

	// How often a lock that another process holds is tried again.
	tryEvery = 2 * time.Millisecond
	// A file that is this old has been seen to its end: one written twice
	// within a tick of the file system's clock may look unchanged.
	settled = time.Second

	mostCached = 4096
)

// A Store is a directory with one file for each caller key. Its files and the
// directory are the user's alone.
type Store struct {
	dir  string
	turn chan struct{} // this process's, to take the lock
	lock *flock.Flock

	mu     sync.Mutex
	cached map[string]cached
}

// cached is what a file held when it looked so.
type cached struct {
	info os.FileInfo
	raw  []byte
	err  error
}

var _ budget.Store = (*Store)(nil)

// Open returns the store in dir, which is made where there is none.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("opening the store of readings: %w", err)
	}
	return &Store{
		dir:    dir,
		turn:   make(chan struct{}, 1),
		lock:   flock.New(filepath.Join(dir, ".lock"), flock.SetPermissions(0o600)),
		cached: map[string]cached{},
	}, nil
}

// content is what is in a file.
type content struct {
	Version int             `json:"version"`
	Key     string          `json:"key"`
	State   json.RawMessage `json:"state,omitempty"`
	Bytes   []byte          `json:"bytes,omitempty"` // where it is not JSON
}

// Get returns what is stored, nil where nothing is. The bytes must not be
// changed. A file that has not changed is not read again.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	path := s.path(key)
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	c, ok := s.cached[key]
	s.mu.Unlock()
	if ok && os.SameFile(c.info, info) && c.info.Size() == info.Size() && c.info.ModTime().Equal(info.ModTime()) {
		return c.raw, c.err
	}
	c = cached{info: info}
	c.raw, c.err = s.read(path, key)
	if time.Since(info.ModTime()) > settled {
		s.mu.Lock()
		if len(s.cached) >= mostCached {
			clear(s.cached)
		}
		s.cached[strings.Clone(key)] = c
		s.mu.Unlock()
	}
	return c.raw, c.err
}

// read is what a file holds of a key, nil where there is none.
func (s *Store) read(path, key string) ([]byte, error) {
	c, err := load(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case c.Key != key:
		return nil, fmt.Errorf("%s: %w: it says it is of %q", path, errCorrupt, c.Key)
	case c.Bytes != nil:
		return c.Bytes, nil
	}
	return c.State, nil
}

// load reads a file, whatever key it is of.
func load(path string) (c content, err error) {
	f, err := os.Open(path)
	if err != nil {
		return c, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, largest+1))
	if err != nil {
		return c, err
	}
	err = json.Unmarshal(raw, &c)
	switch {
	case len(raw) > largest:
		return c, fmt.Errorf("%s: %w: it is too large", path, errCorrupt)
	case c.Version > version:
		return c, fmt.Errorf("%s: %w", path, ErrNewer)
	case err != nil:
		return c, fmt.Errorf("%s: %w: %w", path, errCorrupt, err)
	case c.Version != version:
		return c, fmt.Errorf("%s: %w: it is of version %d", path, errCorrupt, c.Version)
	}
	return c, nil
}

// Update replaces what is stored by f of it, under a lock that other processes
// respect. Readers see the old file or the new one, whole. Where f returns nil
// nothing is stored any more.
//
// Nobody waits for the disk: a power cut may lose the last writes, and what is
// kept here is learned again.
func (s *Store) Update(ctx context.Context, key string, f func(old []byte) []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.turn }()
	if _, err := s.lock.TryLockContext(ctx, tryEvery); err != nil {
		return fmt.Errorf("waiting for the lock of %s: %w", s.dir, err)
	}
	defer s.lock.Unlock()

	path := s.path(key)
	old, err := s.read(path, key)
	switch {
	case errors.Is(err, errCorrupt):
		// Kept for whoever wants to know, one of a file.
		if err := os.Rename(path, path+".damaged"); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	state := f(old)
	switch {
	case state == nil:
		if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	case old != nil && bytes.Equal(old, state):
		return nil
	}
	c := content{Version: version, Key: key, State: state}
	if !json.Valid(state) {
		c.State, c.Bytes = nil, state
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return replace(path, filepath.Join(s.dir, ".new"), raw)
}

// replace writes a file beside and puts it in place. The lock is held, so one
// name beside is enough, and a crash leaves no more than that.
func replace(path, beside string, raw []byte) error {
	err := os.WriteFile(beside, raw, 0o600)
	if err == nil {
		err = os.Rename(beside, path)
	}
	if err != nil {
		os.Remove(beside)
	}
	return err
}

func (s *Store) path(key string) string { return filepath.Join(s.dir, name(key)) }

// Names longer than this are cut and end with a sum. File systems take 255.
const longestName = 200

// name is the file of a caller key: provider-account.json, or
// provider-account-scope.json. No two keys share one, whatever is in them, also
// where upper and lower case are one; none leaves the directory.
func name(key string) string {
	parts := strings.Split(key, "/")
	var n string
	if len(parts) == 3 {
		// The first two hyphens are ours, so that a scope may have its own.
		n = escape(parts[0], "") + "-" + escape(parts[1], "")
		if parts[2] != "" {
			n += "-" + escape(parts[2], "-")
		}
	} else {
		n = escape(key, "")
	}
	if len(n) > longestName {
		n = fmt.Sprintf("%s=%x", n[:longestName/2], sha256.Sum256([]byte(key)))
	}
	return n + ".json"
}

// escape writes what is neither a lower-case letter nor a digit, nor one of a
// few marks, as % and two digits.
func escape(s, also string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '_', c == '~', c == '.' && i > 0, strings.IndexByte(also, c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	return b.String()
}
