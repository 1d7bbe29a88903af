package terminal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/policy"
)

// A screen shows what is drawn, as a terminal does, and notes when.
type screen struct {
	mu    sync.Mutex
	began time.Time
	lines []string // the cursor is at the end of the one at row, or at its beginning
	row   int
	home  bool
	drawn []time.Duration
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lines == nil {
		s.lines = []string{""}
	}
	s.drawn = append(s.drawn, time.Since(s.began))
	for text := string(b); text != ""; {
		var up int
		switch {
		case strings.HasPrefix(text, clearBelow):
			if !s.home {
				panic("cleared in the middle of a line")
			}
			s.lines = append(s.lines[:s.row], "")
			text = text[len(clearBelow):]
			continue
		case text[0] == '\r':
			s.home = true
			text = text[1:]
			continue
		case text[0] == '\n':
			if s.row++; s.row == len(s.lines) {
				s.lines = append(s.lines, "")
			}
			text = text[1:]
			continue
		case text[0] == 0x1b:
			if n, _ := fmt.Sscanf(text, "\x1b[%dA", &up); n != 1 || up > s.row {
				panic(fmt.Sprintf("%q", text))
			}
			s.row -= up
			text = text[strings.Index(text, "A")+1:]
			continue
		}
		end := strings.IndexAny(text, "\r\n\x1b")
		if end < 0 {
			end = len(text)
		}
		if s.home && s.lines[s.row] != "" {
			panic("drawn over " + s.lines[s.row])
		}
		s.lines[s.row] += text[:end]
		s.home = false
		text = text[end:]
	}
	return len(b), nil
}

// String is what is to be seen.
func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.TrimRight(strings.Join(s.lines, "\n"), "\n")
}

// A desk is a person at a terminal, in a bubble.
type desk struct {
	*Waits
	t      *testing.T
	screen *screen
	keys   chan rune
	cause  atomic.Pointer[error] // with which Cancel was called
	code   atomic.Int32          // the exit code
}

func newDesk(t *testing.T, waits *Waits) *desk {
	d := &desk{Waits: waits, t: t, screen: &screen{began: time.Now()}, keys: make(chan rune)}
	waits.Out, waits.Keys = d.screen, d.keys
	waits.Cancel = func(cause error) { d.cause.Store(&cause) }
	waits.exit = func(code int) { d.code.Store(int32(code)) }
	return d
}

// at goes on to an instant, and says what is to be seen then.
func (d *desk) at(instant time.Duration) string {
	time.Sleep(instant - time.Since(d.screen.began))
	synctest.Wait()
	return d.screen.String()
}

func (d *desk) press(key rune) {
	d.keys <- key
	synctest.Wait()
}

// sees fails where something else is to be seen.
func (d *desk) sees(instant time.Duration, want string) {
	d.t.Helper()
	if got := d.at(instant); got != want {
		d.t.Errorf("at %v:\n%s\nwant:\n%s", instant, got, want)
	}
}

// A request waits, as far as its person knows.
type request struct {
	paceline.Wait
	anyway atomic.Bool // it was told to go
	when   time.Duration
	began  time.Time
	goes   bool
}

func budgetWait() *request {
	r := &request{goes: true, began: time.Now()}
	r.Wait = paceline.Wait{
		ID: "a", Provider: "openai", Kind: paceline.WaitBudget, Since: time.Now(), Until: time.Now().Add(42 * time.Second), Why: "3 of 100 left",
		Budget: &policy.Shortage{Unit: "requests", Window: "minute", Remaining: 3, Limit: 100, Floor: 5, Anyway: true},
	}
	return r
}

func statedWait() *request {
	r := &request{began: time.Now()}
	r.Wait = paceline.Wait{
		ID: "b", Provider: "groq", Kind: paceline.WaitPause, Since: time.Now(), Until: time.Now().Add(30 * time.Second), Why: "rate_limited (told)",
	}
	return r
}

// tell has a desk hear of the request as it is now.
func (r *request) tell(w *Waits) {
	now := r.Wait
	w.Update(&now, func() bool {
		r.anyway.Store(true)
		r.when = time.Since(r.began)
		if r.goes {
			r.end(w)
		}
		return r.goes
	})
}

func (r *request) end(w *Waits) {
	over := r.Wait
	over.Over = true
	w.Update(&over, nil)
}

// what holds where nothing is set.
// silent, then a line, then a prompt.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, &Waits{})
		r := budgetWait()
		r.tell(d.Waits)
		d.sees(999*time.Millisecond, "")
		d.sees(time.Second, "openai: waiting for requests per minute: 1.0 s of about 42.0 s")
		d.sees(1099*time.Millisecond, "openai: waiting for requests per minute: 1.0 s of about 42.0 s")
		d.sees(1100*time.Millisecond, "openai: waiting for requests per minute: 1.1 s of about 42.0 s")
		d.sees(9999*time.Millisecond, "openai: waiting for requests per minute: 9.9 s of about 42.0 s")
		// the prompt names provider, unit, window, what is left and the
		// limit, and offers three things. R-23: the line has gone.
		got := d.at(10 * time.Second)
		for _, want := range []string{"openai", "requests per minute", "3 of 100 left", "continue waiting", "send anyway", "cancel"} {
			if !strings.Contains(got, want) {
				t.Errorf("the prompt is %q, without %q", got, want)
			}
		}
		if strings.Contains(got, "waiting for") {
			t.Errorf("the line is still there: %q", got)
		}
		for i, at := range d.screen.drawn[:90] {
			if want := time.Second + time.Duration(i)*100*time.Millisecond; at != want {
				t.Fatalf("drawn at %v, want %v", at, want)
			}
		}
		// Nothing moves until it is answered.
		if n := len(d.screen.drawn); d.at(time.Minute) != got || len(d.screen.drawn) != n {
			t.Error("the prompt was drawn again")
		}
		r.end(d.Waits)
		if d.screen.String() != "" {
			t.Errorf("left behind: %q", d.screen)
		}
	})
}

// show false leaves the line out, and nothing else.: the
// times are those that are set.
func TestSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, &Waits{Hidden: true})
		r := budgetWait()
		r.tell(d.Waits)
		d.sees(9999*time.Millisecond, "")
		if !strings.Contains(d.at(10*time.Second), "send anyway") {
			t.Error("no prompt")
		}
		r.end(d.Waits)
	})
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, &Waits{Delay: 2 * time.Second, Interval: time.Second, Timeout: 5 * time.Second})
		r := budgetWait()
		r.tell(d.Waits)
		d.at(5 * time.Second)
		if got, want := fmt.Sprint(d.screen.drawn), "[2s 3s 4s 5s]"; got != want {
			t.Errorf("drawn at %s, want %s", got, want)
		}
		r.end(d.Waits)
	})
	synctest.Test(t, func(t *testing.T) { // the prompt may come before the line
		d := newDesk(t, &Waits{Delay: -1, Timeout: -1})
		r := budgetWait()
		r.tell(d.Waits)
		if !strings.Contains(d.at(0), "send anyway") {
			t.Error("no prompt")
		}
		r.end(d.Waits)
	})
}

// Who polls how a request waits, as run does, has it drawn no more often; what
// becomes another wait is drawn at once.
func TestPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, &Waits{Interval: time.Second, Timeout: 4 * time.Second})
		r := budgetWait()
		poll := func(until time.Duration) {
			for time.Since(r.began) < until {
				r.tell(d.Waits)
				time.Sleep(70 * time.Millisecond)
			}
		}
		poll(2500 * time.Millisecond)
		r.Budget, r.Kind, r.Why = nil, paceline.WaitPause, "overloaded"
		poll(6100 * time.Millisecond)
		// The prompt at 4 s is drawn again with what it has waited.
		if got, want := fmt.Sprint(d.screen.drawn), "[1s 2s 2.52s 3.52s 4s 5.04s 6.09s]"; got != want {
			t.Errorf("drawn at %s, want %s", got, want)
		}
		r.end(d.Waits)
	})
}

// to continue waiting goes on with the line, for a fresh timeout.
func TestContinueWaiting(t *testing.T) {
	for _, key := range []rune{'w', '\r'} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t, &Waits{})
			r := budgetWait()
			r.tell(d.Waits)
			d.at(12 * time.Second)
			for _, k := range "xyz\x1b[C\x1b[1;2S\x1bOS\x1bcWS" {
				d.press(k) // none of them is an answer
			}
			if !strings.Contains(d.screen.String(), "send anyway") {
				t.Fatalf("%q", d.screen)
			}
			d.press(key)
			d.sees(12*time.Second, "openai: waiting for requests per minute: 12.0 s of about 42.0 s")
			d.sees(21999*time.Millisecond, "openai: waiting for requests per minute: 21.9 s of about 42.0 s")
			if !strings.Contains(d.at(22*time.Second), "send anyway") {
				t.Errorf("no second prompt: %q", d.screen)
			}
			r.end(d.Waits)
			if r.anyway.Load() || d.cause.Load() != nil {
				t.Error("it did not wait")
			}
		})
	}
}

// send anyway sends at once.
func TestSendAnyway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, &Waits{})
		r := budgetWait()
		r.tell(d.Waits)
		d.at(11 * time.Second)
		d.press('s')
		if !r.anyway.Load() || r.when != 11*time.Second {
			t.Errorf("sent: %v, after %v", r.anyway.Load(), r.when)
		}
		d.sees(time.Minute, "")
	})
	synctest.Test(t, func(t *testing.T) { // it had begun to wait for something else
		d := newDesk(t, &Waits{})
		r := budgetWait()
		r.goes = false
		r.tell(d.Waits)
		d.at(11 * time.Second)
		d.press('s')
		d.sees(12*time.Second, "openai: waiting for requests per minute: 12.0 s of about 42.0 s")
		r.end(d.Waits)
	})
}

// cancel ends it without sending.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, &Waits{})
		r := budgetWait()
		r.tell(d.Waits)
		d.at(11 * time.Second)
		d.press('c')
		if cause := d.cause.Load(); cause == nil || *cause != ErrCanceled || r.anyway.Load() {
			t.Errorf("cancelled: %v, sent: %v", cause, r.anyway.Load())
		}
		d.sees(13*time.Second, "") // while it is on its way to its end
		r.end(d.Waits)
		again := budgetWait()
		again.tell(d.Waits)
		d.sees(14*time.Second, "openai: waiting for requests per minute: 1.0 s of about 42.0 s")
		again.end(d.Waits)
	})
}

// A stated wait cannot be forced, and the prompt says why.
func TestStatedWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, &Waits{})
		r := statedWait()
		r.tell(d.Waits)
		d.sees(time.Second, "groq: waiting for rate_limited (told): 1.0 s of about 30.0 s")
		got := d.at(10 * time.Second)
		if strings.Contains(got, "send anyway") || !strings.Contains(got, "stated this wait") || !strings.Contains(got, "about 20.0 s to go") {
			t.Errorf("%q", got)
		}
		d.press('s')
		if r.anyway.Load() || d.screen.String() != got {
			t.Errorf("s did something: %q", d.screen)
		}
		// It becomes one for a budget while the prompt is open.
		b := budgetWait()
		b.ID, b.Since = r.ID, r.Since
		b.tell(d.Waits)
		if !strings.Contains(d.screen.String(), "send anyway") {
			t.Errorf("%q", d.screen)
		}
		d.press('s')
		if !b.anyway.Load() {
			t.Error("not sent")
		}
	})
}

// Ctrl-C during the wait is the prompt's, in the silent second, too,
// and ends nothing. R-25: the second begins to stop, the third ends the program.
func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, &Waits{})
		if d.Interrupt() {
			t.Error("taken, though nothing waits")
		}
		r := budgetWait()
		r.tell(d.Waits)
		d.at(500 * time.Millisecond)
		if !d.Interrupt() || !strings.Contains(d.screen.String(), "send anyway") || d.cause.Load() != nil {
			t.Errorf("%q, cancelled: %v", d.screen, d.cause.Load())
		}
		d.press('w')
		d.at(2 * time.Second)
		if !d.Interrupt() {
			t.Error("not taken")
		}
		if d.Interrupt() {
			t.Error("the second is the program's")
		}
		d.sees(3*time.Second, "")
		if d.Interrupt() {
			t.Error("the third, too")
		}
		r.end(d.Waits)
		if r.anyway.Load() {
			t.Error("sent")
		}
	})
	synctest.Test(t, func(t *testing.T) { // of a program that does not handle it
		d := newDesk(t, &Waits{})
		r := budgetWait()
		r.tell(d.Waits)
		d.at(3 * time.Second)
		d.interrupt()
		if !strings.Contains(d.screen.String(), "send anyway") {
			t.Errorf("%q", d.screen)
		}
		d.press(ctrlC) // as it comes from a terminal that is asked for keys
		if cause := d.cause.Load(); cause == nil || *cause != ErrInterrupted || d.code.Load() != 0 {
			t.Errorf("cause %v, exit %d", cause, d.code.Load())
		}
		d.interrupt()
		if d.code.Load() != 130 {
			t.Errorf("exit %d, want 130", d.code.Load())
		}
		r.end(d.Waits)
	})
}

// where nobody is there, a request waits for a budget up to the timeout
// and goes then. What a provider stated is not cut by that.: so do
// calls that nobody waits for, silently and without a prompt.
func TestNobodyThere(t *testing.T) {
	for _, silent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := &Waits{Silent: silent} // the standard input of a test is no terminal
			out := &screen{began: time.Now()}
			if silent {
				w.Out = out
			}
			budget, stated := budgetWait(), statedWait()
			budget.tell(w)
			stated.tell(w)
			time.Sleep(time.Hour)
			synctest.Wait()
			if budget.when != 10*time.Second || stated.anyway.Load() {
				t.Errorf("sent after %v; against what was stated: %v", budget.when, stated.anyway.Load())
			}
			if w.Interrupt() {
				t.Error("Ctrl-C is the program's")
			}
			// The time for a budget begins when it waits for one.
			late := budgetWait()
			late.ID, late.Since = stated.ID, stated.Since
			late.tell(w)
			time.Sleep(time.Hour)
			synctest.Wait()
			if late.when != 10*time.Second {
				t.Errorf("sent after %v", late.when)
			}
			if len(out.drawn) > 0 {
				t.Errorf("drawn: %q", out)
			}
		})
	}
}

// the wait ends by itself, whether a line or a prompt is shown.
func TestEndsByItself(t *testing.T) {
	for _, after := range []time.Duration{time.Millisecond, 5 * time.Second, 15 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t, &Waits{})
			r := budgetWait()
			r.tell(d.Waits)
			d.at(after)
			r.end(d.Waits)
			if got := d.screen.String(); got != "" { // before Update returns
				t.Errorf("left behind: %q", got)
			}
			d.sees(time.Minute, "")
		})
	}
}

// what the program prints stands by itself.
func TestPrint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, &Waits{})
		r := budgetWait()
		r.tell(d.Waits)
		d.at(2 * time.Second)
		d.Print(func() { fmt.Fprint(d.screen, "one\r\n") })
		d.sees(2*time.Second, "one\nopenai: waiting for requests per minute: 2.0 s of about 42.0 s")
		d.at(10 * time.Second)
		d.Print(func() { fmt.Fprint(d.screen, "two\r\n") })
		got := d.screen.String()
		if !strings.HasPrefix(got, "one\ntwo\nopenai: waited 10.0 s") {
			t.Errorf("%q", got)
		}
		r.end(d.Waits)
		d.sees(time.Minute, "one\ntwo")
	})
}

// Of several, the one that began first is shown; whoever is asked about one is
// not asked about the next at once.
func TestSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, &Waits{})
		first, second := budgetWait(), statedWait()
		first.tell(d.Waits)
		second.tell(d.Waits)
		d.sees(2*time.Second, "openai: waiting for requests per minute: 2.0 s of about 42.0 s (1 more wait)")
		d.at(10 * time.Second)
		d.press('s')
		d.sees(10*time.Second, "groq: waiting for rate_limited (told): 10.0 s of about 30.0 s")
		d.sees(19999*time.Millisecond, "groq: waiting for rate_limited (told): 19.9 s of about 30.0 s")
		if !strings.HasPrefix(d.at(20*time.Second), "groq: waited") {
			t.Errorf("%q", d.screen)
		}
		second.end(d.Waits)
	})
}

// A terminal that goes away is no terminal.
func TestTerminalGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, &Waits{})
		r := budgetWait()
		r.tell(d.Waits)
		d.at(12 * time.Second)
		close(d.keys)
		synctest.Wait()
		if r.when != 12*time.Second {
			t.Errorf("sent after %v", r.when)
		}
	})
}

// Without a way to cancel it is not offered, and Ctrl-C ends the program.
func TestNoCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, &Waits{})
		d.Cancel = nil
		r := budgetWait()
		r.tell(d.Waits)
		if got := d.at(10 * time.Second); strings.Contains(got, "cancel") {
			t.Errorf("%q", got)
		}
		d.press('c')
		d.press(ctrlC)
		if d.code.Load() != 130 {
			t.Errorf("exit %d", d.code.Load())
		}
		r.end(d.Waits)
	})
}

// A context is what is cancelled, usually.
func TestCancelsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		d := newDesk(t, &Waits{})
		d.Cancel = cancel
		r := budgetWait()
		r.tell(d.Waits)
		d.at(10 * time.Second)
		d.press('c')
		if err := context.Cause(ctx); !errors.Is(err, ErrCanceled) {
			t.Error(err)
		}
		r.end(d.Waits)
	})
}

// What comes from elsewhere moves no cursor, and a line is one line.
func TestText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, &Waits{})
		r := statedWait()
		r.Provider, r.Why = "gr\x1b[2Joq", strings.Repeat("\r\n\a", 100)
		r.tell(d.Waits)
		got := d.at(time.Second)
		if !strings.HasSuffix(got, "…: 1.0 s of about 30.0 s") { // the times are what changes
			t.Errorf("%q", got)
		}
		if len([]rune(got)) > 79 || strings.ContainsAny(got, "\r\n\a\x1b") {
			t.Errorf("%q", got)
		}
		for _, line := range strings.Split(d.at(10*time.Second), "\n") {
			if len([]rune(line)) > 79 {
				t.Errorf("%q", line)
			}
		}
		r.end(d.Waits)
	})
	now := time.Now()
	for _, c := range []struct {
		wait paceline.Wait
		want string
	}{
		{paceline.Wait{Kind: paceline.WaitTurn}, "openai: waiting for its turn: 3.0 s"},
		{paceline.Wait{Kind: paceline.WaitTurn, Why: "15 per minute"}, "openai: waiting for 15 per minute: 3.0 s"},
		{paceline.Wait{Kind: paceline.WaitQuota}, "openai: waiting for a spent quota: 3.0 s"},
		{paceline.Wait{Kind: paceline.WaitOperator}, "openai: waiting for the end of a pause: 3.0 s"},
		{paceline.Wait{Kind: paceline.WaitPause, Budget: &policy.Shortage{Unit: "input_tokens", Window: "unknown"}}, "openai: waiting for input tokens: 3.0 s"},
	} {
		c.wait.Provider, c.wait.Since = "openai", now.Add(-3*time.Second)
		if got := timer(&c.wait, now, 0, 79); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
		if q := question(&c.wait, now, true); strings.Contains(q[1], "anyway") || q[0] == "" {
			t.Errorf("%q", q)
		}
	}
}
