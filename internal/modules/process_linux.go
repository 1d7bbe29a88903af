package modules

import "syscall"

// alone is a process in a group of its own, which Ctrl-C at a terminal does not
// reach, and which the kernel ends with this one.
func alone() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
