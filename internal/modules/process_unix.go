//go:build unix

package modules

import (
	"os/exec"
	"syscall"
)

// terminate asks a process, and what it has started, to leave.
func terminate(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }

// kill ends them.
func kill(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
