//go:build unix

package home

import (
	"errors"
	"syscall"
)

// Exists reports whether a process of this machine has the id. It may belong
// to somebody else.
func Exists(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
