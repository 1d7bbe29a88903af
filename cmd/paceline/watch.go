package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/paceline-proxy/paceline/internal/demo"
)

// watch shows a demo until it has ended: in place on a terminal, else by a
// line every few seconds.
func watch(w io.Writer, r *demo.Running) {
	if columns, ok := terminal(w); ok {
		watchLive(w, r, columns)
		return
	}
	every := time.NewTicker(5 * time.Second)
	defer every.Stop()
	for {
		select {
		case <-r.Done():
			return
		case <-every.C:
			fmt.Fprintln(w, demo.Progress(r.Result()))
		}
	}
}

// watchLive redraws the demo over itself, and takes it away at its end: the
// report says all of it.
func watchLive(w io.Writer, r *demo.Running, columns int) {
	const (
		hideCursor, showCursor = "\x1b[?25l", "\x1b[?25h"
		clearLine, clearBelow  = "\x1b[K", "\x1b[J"
	)
	io.WriteString(w, hideCursor)
	drawn := 0
	up := func() string {
		if drawn == 0 {
			return "\r"
		}
		return fmt.Sprintf("\x1b[%dA\r", drawn)
	}
	every := time.NewTicker(200 * time.Millisecond)
	defer every.Stop()
	for {
		view := demo.View(r.Result(), columns, colored(w))
		io.WriteString(w, up()+strings.ReplaceAll(view, "\n", clearLine+"\n")+clearBelow)
		drawn = strings.Count(view, "\n")
		select {
		case <-r.Done():
			io.WriteString(w, up()+clearBelow+showCursor)
			return
		case <-every.C:
		}
	}
}
