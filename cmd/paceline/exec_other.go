//go:build !unix

package main

import "os"

var forwarded = []os.Signal{os.Interrupt}

// fromTerminal: a console interrupts both.
func fromTerminal(os.Signal) bool { return true }
