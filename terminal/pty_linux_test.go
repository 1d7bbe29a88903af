package terminal

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/internal/ptytest"
	"github.com/paceline-proxy/paceline/policy"
)

// TestMain is a program that waits, where a test runs it as one.
func TestMain(m *testing.M) {
	if os.Getenv("TERMINAL_TEST") == "" {
		os.Exit(m.Run())
	}
	waits := &Waits{Delay: -1, Timeout: time.Hour}
	over := make(chan struct{})
	waits.Cancel = func(cause error) {
		fmt.Println(cause)
		if os.Getenv("TERMINAL_TEST") == "hangs" {
			select {}
		}
		close(over)
	}
	w := paceline.Wait{ID: "a", Provider: "openai", Since: time.Now(), Kind: paceline.WaitBudget,
		Budget: &policy.Shortage{Unit: "requests", Window: "minute", Limit: 10, Anyway: true}}
	waits.Update(&w, func() bool { close(over); return true })
	<-over
	gone := w
	gone.Over = true
	waits.Update(&gone, nil)
	fmt.Println("over")
	if os.Getenv("TERMINAL_TEST") == "goes on" {
		time.Sleep(time.Hour)
	}
}

func program(t *testing.T, how string) *ptytest.Terminal {
	c := exec.Command(os.Args[0])
	c.Env = []string{"TERMINAL_TEST=" + how, "TERM=xterm"}
	return ptytest.Start(t, c)
}

// The terminal is as it was after each way out, and keys answer without Enter.
func TestKeys(t *testing.T) {
	for key, want := range map[string]string{"s": "over", "c": ErrCanceled.Error(), "\x03": ErrInterrupted.Error()} {
		p := program(t, "ends")
		p.Await("openai: waiting for requests per minute: 0.3 s")
		if !p.Cooked() {
			t.Error("the line takes the keyboard")
		}
		p.Press("\x03")
		p.Await(`\[w\] continue waiting  \[s\] send anyway  \[c\] cancel `)
		if p.Cooked() {
			t.Error("keys want Enter")
		}
		p.Press(key)
		p.Await("\x1b\\[2A\r\x1b\\[J" + want) // the prompt has gone before
		if code := p.Wait(); code != 0 {
			t.Errorf("exit %d", code)
		}
		if !p.Cooked() {
			t.Errorf("after %q the terminal is not as it was", key)
		}
	}
}

// the first Ctrl-C asks, the second begins to stop, the third exits
// with 130.
func TestThreeInterrupts(t *testing.T) {
	p := program(t, "hangs")
	p.Await("0.1 s")
	p.Press("\x03")
	p.Await("cancel ")
	p.Press("\x03")
	p.Await(ErrInterrupted.Error())
	if !p.Cooked() {
		t.Error("the terminal is not as it was")
	}
	p.Press("\x03")
	if code := p.Wait(); code != 130 {
		t.Errorf("exit %d, want 130", code)
	}
}

// once nothing waits Ctrl-C is the program's own again.
func TestInterruptAfterwards(t *testing.T) {
	p := program(t, "goes on")
	p.Await("0.1 s")
	p.Press("\x03")
	p.Await("cancel ")
	p.Press("s")
	p.Await("over")
	p.Press("\x03")
	if code := p.Wait(); code != -1 {
		t.Errorf("exit %d, want the end by a signal", code)
	}
}
