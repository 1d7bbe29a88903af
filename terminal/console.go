package terminal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/muesli/cancelreader"
	"golang.org/x/term"
)

// A console is where a person sits.
type console struct {
	out   io.Writer
	here  func() bool // whether the program may use it now
	width func() int
	// open begins to hear the keys that are pressed, until leave is called.
	open func() (keys <-chan rune, leave func(), err error)
}

// given is a console that somebody else holds.
func given(out io.Writer, keys <-chan rune) *console {
	return &console{
		out:   out,
		here:  func() bool { return true },
		width: func() int { return 80 },
		open:  func() (<-chan rune, func(), error) { return keys, func() {}, nil },
	}
}

// own is the terminal of this program, nil where there is none for both reading
// and writing.
func own() *console {
	in, out := os.Stdin, os.Stderr
	if !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &console{
		out:  out,
		here: func() bool { return foreground(in) },
		width: func() int {
			if columns, _, err := term.GetSize(int(out.Fd())); err == nil && columns > 0 {
				return columns
			}
			return 80
		},
		open: func() (<-chan rune, func(), error) { return pressed(in) },
	}
}

// pressed hears single keys of a terminal.
func pressed(in *os.File) (<-chan rune, func(), error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, nil, fmt.Errorf("hearing keys: %w", err)
	}
	r, err := cancelreader.NewReader(in)
	if err != nil {
		return nil, nil, errors.Join(err, term.Restore(int(in.Fd()), before))
	}
	keys, left, ended := make(chan rune), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for b := bufio.NewReader(r); ; {
			key, _, err := b.ReadRune()
			if err != nil {
				if !errors.Is(err, cancelreader.ErrCanceled) {
					close(keys) // the terminal has gone
				}
				return
			}
			select {
			case keys <- key:
			case <-left:
				return
			}
		}
	}()
	return keys, func() {
		close(left)
		if r.Cancel() {
			<-ended
			_ = r.Close() // of what watched the terminal
		}
		_ = term.Restore(int(in.Fd()), before) // it may have gone
	}, nil
}

// A sequence is what keys beyond letters send: it begins with Escape, and has
// letters in it that nobody has pressed.
type sequence struct{ before rune }

// part reports whether a key is part of one.
func (s *sequence) part(key rune) bool {
	const escape = 0x1b
	switch {
	case key == escape:
		s.before = escape
	case s.before == 0:
		return false
	case s.before == escape && (key == '[' || key == 'O'):
		s.before = key
	case s.before != '[' || key >= 0x40 && key <= 0x7e:
		s.before = 0 // it is the last
	}
	return true
}

// A picture is what is drawn, in lines. The cursor is behind the last.
type picture []string

const clearBelow = "\x1b[J"

// draw replaces what is drawn.
func (w *Waits) draw(lines ...string) {
	width := w.console.width() - 1 // what reaches the last column wraps on some
	for i, line := range lines {
		if utf8.RuneCountInString(line) > width {
			lines[i] = string([]rune(line)[:max(0, width)])
		}
	}
	io.WriteString(w.console.out, w.picture.top(width)+strings.Join(lines, "\r\n"))
	w.picture = lines
}

// erase takes away what is drawn.
func (w *Waits) erase() {
	if w.picture == nil || w.console == nil {
		return
	}
	io.WriteString(w.console.out, w.picture.top(w.console.width()-1))
	w.picture = nil
}

// top moves the cursor to where the picture begins, and clears the rest. A
// terminal that has become narrower since has broken its lines.
func (p picture) top(width int) string {
	rows := -1
	for _, line := range p {
		rows += 1 + max(0, utf8.RuneCountInString(line)-1)/(max(0, width)+1)
	}
	up := ""
	if rows > 0 {
		up = fmt.Sprintf("\x1b[%dA", rows)
	}
	return up + "\r" + clearBelow
}
