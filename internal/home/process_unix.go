//go:build unix

package home

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Exists reports whether a process of this machine has the id. It may belong
// to somebody else. One that has ended, and whose parent has not asked how, is
// none.
func Exists(pid int) bool {
	err := syscall.Kill(pid, 0)
	return (err == nil || errors.Is(err, syscall.EPERM)) && !ended(pid)
}

// ended reports whether only the entry of a process is left, where the system
// shows that.
func ended(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// PID (NAME) STATE: a name may hold brackets.
	state := b[bytes.LastIndexByte(b, ')')+1:]
	return bytes.HasPrefix(state, []byte(" Z"))
}
