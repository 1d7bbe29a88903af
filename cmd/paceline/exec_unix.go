//go:build unix

package main

import (
	"os"
	"syscall"

	"golang.org/x/term"
)

// forwarded are the signals that a command gets from us.
var forwarded = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2}

// fromTerminal reports whether the command has had a signal already: a
// terminal sends it to both.
func fromTerminal(s os.Signal) bool {
	return (s == syscall.SIGINT || s == syscall.SIGQUIT) && term.IsTerminal(int(os.Stdin.Fd()))
}
