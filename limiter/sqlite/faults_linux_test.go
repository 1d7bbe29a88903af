package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/sqlite"
)

// needsRoot skips what only root can set up; where CI is set it must be run.
func needsRoot(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("this needs root: %v", err)
	}
	t.Skipf("this needs root: %v", err)
}

// asNobody calls f as a user who owns nothing.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // which ends with this goroutine
		const same, nobody = ^uintptr(0), 65534
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, same, nobody, same); errno != 0 {
			done <- errno
			return
		}
		f()
		done <- nil
	}()
	needsRoot(t, <-done)
}

func TestPermissions(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "limits.db")
	l := open(t, path)
	granted(t, l, once("a"))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	try := func() (err error) {
		asNobody(t, func() {
			var l *sqlite.Limiter
			if l, err = sqlite.Open(context.Background(), path, sqlite.Options{}); err == nil {
				err = errors.Join(errors.New("it opens"), l.Close())
			}
		})
		return err
	}
	chmod := func(path string, mode os.FileMode) {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	chmod(filepath.Dir(dir), 0o755)
	says(t, try(), path, "let this user read and write it") // 0600 of root's
	chmod(path, 0o444)
	says(t, try(), path, "let this user", "write it")
	chmod(dir, 0o777) // now there can be a WAL
	says(t, try(), path, "cannot be written", "let this user write it")
	chmod(path, 0o666)
	for _, beside := range []string{path + "-wal", path + "-shm"} { // made with the mode there was
		if err := os.Remove(beside); err != nil {
			t.Fatal(err)
		}
	}
	if err := try(); err == nil || err.Error() != "it opens" {
		t.Error(err)
	}
	chmod(dir, 0o755)
	path = filepath.Join(dir, "new.db")
	says(t, try(), path, "let this user write "+dir)
}

// On a full disk nothing is granted that is not counted, and once there is room
// it goes on.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	needsRoot(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "limits.db")
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 512<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := sqlite.Open(context.Background(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := func(i int) limiter.Request {
		return limiter.Request{Limits: []limiter.Limit{
			{Key: "all", Calls: 1 << 20, Per: time.Hour},
			{Key: fmt.Sprintf("one %d with a long name: %0200d", i, i), Calls: 1, Per: time.Hour},
		}}
	}
	n := 0
	for ; ; n++ {
		if n == 20_000 {
			t.Fatal("the disk does not fill")
		}
		d, err := l.Acquire(context.Background(), r(n))
		if err != nil {
			says(t, err, path, "full", "make room")
			break
		}
		if !d.Granted {
			t.Fatal("refused")
		}
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		refused(t, l, r(i))
	}
	v, err := l.Peek(context.Background(), "c", []limiter.Limit{{Key: "all", Calls: 1, Per: time.Hour}})
	if err != nil || v.Usage[0].Used != n {
		t.Errorf("%d granted, %+v counted: %v", n, v.Usage, err)
	}
	granted(t, l, r(n))
	sound(t, path)
}
