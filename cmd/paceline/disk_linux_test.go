package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

func mountSmall(dir string, size int) error {
	return syscall.Mount("paceline-test", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size))
}

func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }

// refusedConnection reports whether a client found nobody, or lost a
// connection before its answer began: what clients repeat by themselves.
func refusedConnection(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || strings.Contains(err.Error(), "EOF")
}
