//go:build !unix

package home

import "os"

// Exists reports whether a process of this machine has the id.
func Exists(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	p.Release()
	return true
}
