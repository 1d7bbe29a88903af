package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

// terminal reports whether w is a terminal that can move its cursor, and how
// many columns it has.
func terminal(w io.Writer) (columns int, ok bool) {
	if r, ok := w.(*results); ok {
		w = r.w
	}
	f, isFile := w.(*os.File)
	if !isFile || os.Getenv("TERM") == "dumb" || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil || columns <= 0 {
		columns = 80
	}
	// The last column is left free: what reaches it wraps on some terminals.
	return columns - 1, true
}

// colored reports whether w may get colours.
func colored(w io.Writer) bool {
	_, ok := terminal(w)
	return ok && os.Getenv("NO_COLOR") == ""
}
