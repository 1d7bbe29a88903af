package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/paceline-proxy/paceline/internal/demo"
)

// watch shows a demo until it has ended: in place on a terminal it fits in,
// else by a line every few seconds.
func watch(w io.Writer, r *demo.Running) {
	if watchLive(w, r) {
		return
	}
	every := time.NewTicker(5 * time.Second)
	defer every.Stop()
	for {
		select {
		case <-r.Done():
			return
		case <-every.C:
			width := demo.Width
			if at, ok := screen(w); ok {
				width = at.columns
			}
			fmt.Fprintln(w, demo.Progress(r.Result(), width))
		}
	}
}

// watchLive redraws the demo over itself, and takes it away at its end: the
// report says all of it. Where it does not fit, or no longer, watchLive takes
// it away and returns false.
func watchLive(w io.Writer, r *demo.Running) bool {
	var p picture
	every := time.NewTicker(200 * time.Millisecond)
	defer every.Stop()
	for {
		at, ok := screen(w)
		if !ok {
			return false
		}
		view, fits := demo.View(r.Result(), at.columns, at.rows, colored(w))
		if !fits {
			p.remove(w, at)
			return false
		}
		p.draw(w, at, view)
		select {
		case <-r.Done():
			p.remove(w, at)
			return true
		case <-every.C:
		}
	}
}

// A picture is text on a terminal that later text replaces. The cursor is in
// the line below it, and hidden.
type picture struct{ text string }

const (
	hideCursor, showCursor = "\x1b[?25l", "\x1b[?25h"
	clearLine, clearBelow  = "\x1b[K", "\x1b[J"
)

func (p *picture) draw(w io.Writer, at size, text string) {
	io.WriteString(w, hideCursor+p.top(at)+strings.ReplaceAll(text, "\n", clearLine+"\n")+clearBelow)
	p.text = text
}

func (p *picture) remove(w io.Writer, at size) {
	if p.text != "" {
		io.WriteString(w, p.top(at)+clearBelow+showCursor)
	}
	p.text = ""
}

var paint = regexp.MustCompile("\x1b\\[[0-9]*m")

// top moves the cursor to where the picture begins. A terminal that has become
// narrower since has broken its lines.
func (p *picture) top(at size) string {
	rows := 0
	for line := range strings.Lines(paint.ReplaceAllString(p.text, "")) {
		rows += 1 + max(0, len(line)-2)/(at.columns+1)
	}
	if rows == 0 {
		return "\r"
	}
	return fmt.Sprintf("\x1b[%dA\r", rows)
}
