package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
)

// results is standard output. It remembers the first error of writing to it,
// because not everybody who writes there looks: help and usage do not.
type results struct {
	w   io.Writer
	err error
}

func (r *results) Write(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.w.Write(p)
	r.err = err
	return n, err
}

// lost says that results could not be written, and returns the exit code. A
// reader that has seen enough, as head has, is told nothing: the code is that
// of the signal that ends most programs then.
func (r *results) lost(stderr io.Writer) int {
	if errors.Is(r.err, syscall.EPIPE) {
		return exitSignal + int(syscall.SIGPIPE)
	}
	err := r.err
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	fmt.Fprintf(stderr, "paceline: cannot write to standard output: %v\n", err)
	return exitFailed
}
