//go:build unix

package daemon

import "syscall"

// detached is a process in a session of its own: no terminal ends it.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
