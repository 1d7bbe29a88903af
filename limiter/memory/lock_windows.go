package memory

import (
	"errors"
	"io"
	"os"
	"syscall"
)

const sharingViolation = syscall.Errno(32)

// lock takes a lock that ends with the process: a file opened for nobody else.
func lock(path string) (io.Closer, error) {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	h, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, 0, nil,
		syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	switch {
	case errors.Is(err, sharingViolation):
		return nil, ErrInUse
	case err != nil:
		return nil, err
	}
	return os.NewFile(uintptr(h), path), nil
}
