//go:build unix

package memory

import (
	"io"
	"os"
	"syscall"
)

// lock takes a lock that ends with the process.
func lock(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != syscall.EINTR {
			break
		}
	}
	if err == syscall.EWOULDBLOCK {
		err = ErrInUse
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
