//go:build unix && !linux

package modules

import "syscall"

// alone is a process in a group of its own, which Ctrl-C at a terminal does not
// reach. Where this process is killed, it stays.
func alone() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
