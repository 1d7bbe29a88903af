package ptytest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A Terminal is one at which a program runs.
type Terminal struct {
	t      testing.TB
	keys   *os.File
	cmd    *exec.Cmd
	ended  chan struct{}
	drawn  chan struct{} // closed when nothing is drawn any more
	mu     sync.Mutex
	screen strings.Builder
	read   int // of the screen, by Await
}

// Start runs a command at a terminal of its own, of 100 columns, as the process
// in front. Its standard output is the terminal, too, unless it has one.
func Start(t testing.TB, c *exec.Cmd) *Terminal {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	number, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	err = errors.Join(err, unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0),
		unix.IoctlSetWinsize(int(keys.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100}))
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	c.Stdin, c.Stderr = program, program
	if c.Stdout == nil {
		c.Stdout = program
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	term := &Terminal{t: t, keys: keys, cmd: c, ended: make(chan struct{}), drawn: make(chan struct{})}
	go func() {
		defer close(term.drawn)
		b := make([]byte, 4096)
		for {
			n, err := keys.Read(b)
			term.mu.Lock()
			term.screen.Write(b[:n])
			term.mu.Unlock()
			if err != nil {
				return // everybody at the other end has gone
			}
		}
	}()
	go func() {
		_ = c.Wait() // how it ended is in its state
		close(term.ended)
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		<-term.ended
		keys.Close()
		<-term.drawn
	})
	return term
}

// String is all that was drawn.
func (term *Terminal) String() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.screen.String()
}

// Await waits until something is drawn that was not there at the last Await,
// and returns everything that was drawn since then up to its end.
func (term *Terminal) Await(pattern string) string {
	term.t.Helper()
	re := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		rest := term.String()[term.read:]
		if at := re.FindStringIndex(rest); at != nil {
			term.read += at[1]
			return rest[:at[1]]
		}
		if time.Now().After(deadline) {
			term.t.Fatalf("%q is not drawn:\n%q", pattern, term.String())
		}
	}
}

// Press presses keys. Ctrl-C is "\x03".
func (term *Terminal) Press(keys string) {
	term.t.Helper()
	if _, err := io.WriteString(term.keys, keys); err != nil {
		term.t.Fatal(err)
	}
}

// Cooked reports whether the terminal echoes what is typed and makes signals of
// keys, as it does for a program that has not changed it.
func (term *Terminal) Cooked() bool {
	term.t.Helper()
	is, err := unix.IoctlGetTermios(int(term.keys.Fd()), unix.TCGETS)
	if err != nil {
		term.t.Fatal(err)
	}
	const all = unix.ECHO | unix.ICANON | unix.ISIG
	return is.Lflag&all == all
}

// Wait waits for the end of the program, and returns its exit code, -1 where a
// signal ended it.
func (term *Terminal) Wait() int {
	term.t.Helper()
	select {
	case <-term.ended:
	case <-time.After(20 * time.Second):
		term.t.Fatalf("it does not end:\n%q", term.String())
	}
	select { // what it drew last may not have been read yet
	case <-term.drawn:
	case <-time.After(time.Second): // a child of its own has the terminal
	}
	return term.cmd.ProcessState.ExitCode()
}
