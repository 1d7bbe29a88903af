package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

// A size is that of a terminal.
type size struct{ columns, rows int }

// screen reports whether w is a terminal that can move its cursor, and how
// large it is now.
func screen(w io.Writer) (at size, ok bool) {
	if r, ok := w.(*results); ok {
		w = r.w
	}
	f, isFile := w.(*os.File)
	if !isFile || os.Getenv("TERM") == "dumb" || !term.IsTerminal(int(f.Fd())) {
		return size{}, false
	}
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil || columns <= 0 || rows <= 0 {
		columns, rows = 80, 24
	}
	// The last column is left free: what reaches it wraps on some terminals.
	return size{columns - 1, rows}, true
}

// colored reports whether w may get colours.
func colored(w io.Writer) bool {
	_, ok := screen(w)
	return ok && os.Getenv("NO_COLOR") == ""
}

// typed reports whether r is a terminal that somebody types at.
func typed(r io.Reader) bool {
	f, isFile := r.(*os.File)
	return isFile && term.IsTerminal(int(f.Fd()))
}
