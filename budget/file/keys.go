package file

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// Keys lists the caller keys of which something is stored. Files that nobody
// can read are left out.
func (s *Store) Keys() (keys []string, err error) {
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".json") {
			continue
		}
		var c content
		raw, err := os.ReadFile(filepath.Join(s.dir, f.Name()))
		if err == nil && len(raw) <= largest && json.Unmarshal(raw, &c) == nil && c.Version == version && name(c.Key) == f.Name() {
			keys = append(keys, c.Key)
		}
	}
	return keys, nil
}
