//go:build !unix

package modules

import (
	"os/exec"
	"syscall"
)

func alone() *syscall.SysProcAttr { return nil }

// terminate ends a process: there is no way to ask.
func terminate(c *exec.Cmd) { kill(c) }

func kill(c *exec.Cmd) { _ = c.Process.Kill() }
