//go:build unix

package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// foreground reports whether this program may read from its terminal: one that
// runs in the background is stopped when it tries.
func foreground(terminal *os.File) bool {
	group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
