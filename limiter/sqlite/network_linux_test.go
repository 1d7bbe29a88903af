package sqlite

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A file that other machines could open is warned of.
func TestNetworkFileSystem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	l := newComputer().open(t, path)
	if w := l.Warnings(); w != nil {
		t.Errorf("%v of a local disk", w)
	}
	var here unix.Statfs_t
	if err := unix.Statfs(path, &here); err != nil {
		t.Fatal(err)
	}
	networks[uint32(here.Type)] = "a net"
	defer delete(networks, uint32(here.Type))
	if w := l.Warnings(); len(w) != 1 || !strings.Contains(w[0], path) || !strings.Contains(w[0], "a net") {
		t.Errorf("%q", w)
	}
}
