package file

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Keys lists the caller keys of which something is stored. Files that nobody
// can read are left out.
func (s *Store) Keys() (keys []string, err error) {
	err = s.each(func(key string, err error) {
		if err == nil {
			keys = append(keys, key)
		}
	})
	return keys, err
}

// Faults are what is wrong with the store: files that cannot be read, are damaged
// or newer than this program, and a directory that cannot be written to. Requests
// are sent all the same, without what was stored there.
func (s *Store) Faults() (faults []error) {
	err := s.each(func(_ string, err error) {
		if err != nil {
			faults = append(faults, err)
		}
	})
	if err != nil {
		return []error{err}
	}
	probe, err := os.CreateTemp(s.dir, ".probe-*")
	if err != nil {
		return append(faults, err)
	}
	_ = probe.Close()
	_ = os.Remove(probe.Name())
	return faults
}

// each shows f the caller key of every file of the store, or why it has none.
func (s *Store) each(f func(key string, err error)) error {
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, at := range files {
		if !strings.HasSuffix(at.Name(), ".json") {
			continue
		}
		path := filepath.Join(s.dir, at.Name())
		c, err := load(path)
		if err == nil && name(c.Key) != at.Name() {
			err = fmt.Errorf("%s: %w: it says it is of %q", path, errCorrupt, c.Key)
		}
		f(c.Key, err)
	}
	return nil
}
