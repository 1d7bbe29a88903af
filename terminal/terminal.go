// Package terminal shows a person at a terminal that a request waits, and asks
// what to do where that takes long.
//
//	ctx, cancel := context.WithCancelCause(context.Background())
//	waits := &terminal.Waits{Cancel: cancel}
//	client := &http.Client{Transport: &paceline.Transport{OnWait: waits.OnWait}}
//
// A wait is silent for a second. Then a line on standard error says who is
// waited for and for how long, and after ten seconds a prompt asks whether to
// go on waiting, to send the request all the same where only an observed budget
// holds it up, or to give it up. Where standard input or standard error is no
// terminal nobody is asked: a request that waits for an observed budget is sent
// after those ten seconds, and every other wait goes on for as long as the
// Transport lets it.
package terminal

import (
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/paceline-proxy/paceline"
)

// The causes with which requests are cancelled.
var (
	// ErrCanceled: the person chose to cancel.
	ErrCanceled = errors.New("canceled at the terminal while waiting")
	// ErrInterrupted: the person pressed Ctrl-C at the prompt.
	ErrInterrupted = errors.New("interrupted at the terminal while waiting")
)

// Waits are the requests of a program that wait, as a person sees them. The zero
// value uses the terminal of the program. The wait that began first is shown,
// and the prompt is about that one.
//
// Ctrl-C during a wait goes to the prompt. There it begins to stop the program:
// Cancel is called with [ErrInterrupted]. One more ends it with exit code 130. A
// program that handles Ctrl-C itself sets OwnInterrupts and calls Interrupt.
//
// Fields must not change once the first request waits.
type Waits struct {
	// Delay is how long a wait is silent. 0 is a second, negative is not at all.
	Delay time.Duration
	// Interval is how often the line is drawn again. 0 is 100 ms.
	Interval time.Duration
	// Timeout is after how long the prompt comes, from the beginning of the wait
	// and from each choice to go on with it; and without a terminal, after how
	// long a request is sent that waits for an observed budget. 0 is ten seconds,
	// negative is at once.
	Timeout time.Duration
	// Hidden leaves the line out. The prompt comes all the same.
	Hidden bool
	// Silent leaves out line and prompt, as where there is no terminal: for calls
	// that no person is waiting for, such as those that find a title.
	Silent bool
	// Cancel ends the program's requests: [context.CancelCauseFunc] fits. The
	// cause is ErrCanceled or ErrInterrupted. nil: cancelling is not offered, and
	// Ctrl-C at the prompt ends the program.
	Cancel func(cause error)
	// OwnInterrupts is set by a program that handles Ctrl-C itself.
	OwnInterrupts bool
	// Out and Keys replace the terminal: where to draw, and the keys that are
	// pressed, until it is closed. Ctrl-C is then handed to Interrupt, or comes as
	// the key 3.
	Out  io.Writer
	Keys <-chan rune

	once sync.Once
	exit func(code int)

	mu       sync.Mutex
	console  *console // nil: nobody is there
	open     []*wait  // in the order in which they began
	picture  picture
	subject  subject   // of the picture
	drawn    time.Time // when the picture was
	prompt   *prompt
	alarm    *time.Timer
	stopping bool // the person has cancelled, or interrupted the prompt
	signals  chan os.Signal
}

// A wait is one request that waits.
type wait struct {
	*paceline.Wait
	anyway func() bool
	asked  time.Time // when its timeout began
	sent   bool      // it has been told to go
}

// forced reports whether it may be sent all the same.
func (w *wait) forced() bool { return mayForce(w.Wait) }

func mayForce(w *paceline.Wait) bool { return w.Budget != nil && w.Budget.Anyway }

// A prompt is a question on the terminal.
type prompt struct {
	about *wait
	ended chan struct{}
	leave func() // gives the terminal back
}

// OnWait takes a wait of this process: it is the Transport's OnWait.
func (w *Waits) OnWait(of *paceline.Wait) { w.Update(of, of.SendAnyway) }

// Update takes a wait, of another process too: one that begins, becomes
// another, or is over, which its ID tells. anyway has it sent in spite of an
// observed budget and reports whether it is; it may take its time. What was
// drawn of a wait that is over is erased when Update returns.
func (w *Waits) Update(of *paceline.Wait, anyway func() bool) {
	w.once.Do(w.init)
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.open, func(o *wait) bool { return o.ID == of.ID })
	switch {
	case of.Over && i >= 0:
		if w.prompt != nil && w.prompt.about == w.open[i] {
			w.unask()
		}
		w.open = slices.Delete(w.open, i, i+1)
	case of.Over:
	case i < 0:
		w.open = append(w.open, &wait{Wait: of, anyway: anyway, asked: of.Since})
	default:
		o := w.open[i]
		if w.console == nil && mayForce(of) && !o.forced() {
			o.asked = time.Now() // it has not waited for the budget until now
		}
		o.Wait, o.anyway = of, anyway
		if now := time.Now(); w.prompt != nil && w.prompt.about == o && w.due(o, now) {
			w.draw(question(o.Wait, now, w.Cancel != nil)...)
		}
	}
	w.step()
}

func (w *Waits) init() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.exit == nil {
		w.exit = os.Exit
	}
	switch {
	case w.Silent:
	case w.Out != nil:
		w.console = given(w.Out, w.Keys)
	default:
		w.console = own()
	}
}

// step does what is due, and sets the alarm for what is due next. w.mu is held,
// here and below.
func (w *Waits) step() {
	if w.alarm != nil {
		w.alarm.Stop()
	}
	w.listen()
	now := time.Now()
	var next time.Time
	switch shown := w.front(); {
	case shown == nil || w.stopping:
		w.unask()
		w.erase()
		w.stopping = w.stopping && len(w.open) > 0
	case w.console == nil || !w.console.here():
		w.unask()
		w.erase()
		next = w.force(now)
	case w.prompt != nil: // it stays until it is answered
	default:
		next = w.show(shown, now)
	}
	if !next.IsZero() {
		w.alarm = time.AfterFunc(next.Sub(now), func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.step()
		})
	}
}

// front is the wait to show, nil for none.
func (w *Waits) front() *wait {
	if i := slices.IndexFunc(w.open, func(o *wait) bool { return !o.sent }); i >= 0 {
		return w.open[i]
	}
	return nil
}

// show draws the line or the prompt, and returns when to look again.
func (w *Waits) show(shown *wait, now time.Time) time.Time {
	ask := shown.asked.Add(orElse(w.Timeout, 10*time.Second))
	line := shown.Since.Add(orElse(w.Delay, time.Second))
	switch {
	case !now.Before(ask):
		w.ask(shown)
		return time.Time{}
	case w.Hidden:
		return ask
	case now.Before(line):
		w.erase() // another's
		return sooner(line, ask)
	}
	if w.due(shown, now) {
		w.draw(timer(shown.Wait, now, len(w.open)-1, w.console.width()-1))
	}
	return sooner(w.drawn.Add(w.interval()), ask)
}

// A subject is what a picture is about, beside the time that passes.
type subject struct {
	id, what string
	anyway   bool
	more     int
}

// due reports whether a wait is to be drawn now: who asks often how it stands
// has it drawn no more often than once in an interval, unless it has become
// another.
func (w *Waits) due(of *wait, now time.Time) bool {
	about := subject{of.ID, string(of.Kind), of.forced(), len(w.open) - 1}
	if of.Budget != nil {
		about.what = unit(of.Budget.Unit, of.Budget.Window)
	}
	if w.picture != nil && w.subject == about && now.Before(w.drawn.Add(w.interval())) {
		return false
	}
	w.subject, w.drawn = about, now
	return true
}

func (w *Waits) interval() time.Duration { return orElse(w.Interval, 100*time.Millisecond) }

// force has those sent that have waited for an observed budget for as long as
// one waits where nobody can be asked, and returns when to look again.
func (w *Waits) force(now time.Time) (next time.Time) {
	if w.console != nil {
		next = now.Add(time.Second) // the program may come to the foreground
	}
	for _, o := range w.open {
		if !o.forced() || o.sent {
			continue
		}
		if due := o.asked.Add(orElse(w.Timeout, 10*time.Second)); now.Before(due) {
			next = sooner(next, due)
		} else {
			w.release(o)
		}
	}
	return next
}

// release has a wait end. Whatever that takes, nobody waits for it here.
func (w *Waits) release(o *wait) {
	o.sent = true
	go func() {
		if o.anyway() {
			return
		}
		// It waits for something else by now.
		w.mu.Lock()
		defer w.mu.Unlock()
		o.sent, o.asked = false, time.Now()
		w.step()
	}()
}

// ask puts the question.
func (w *Waits) ask(about *wait) {
	keys, leave, err := w.console.open()
	if err != nil {
		w.console = nil // nobody can answer
		w.step()
		return
	}
	w.prompt = &prompt{about, make(chan struct{}), leave}
	w.drawn = time.Now()
	w.draw(question(about.Wait, w.drawn, w.Cancel != nil)...)
	go w.read(w.prompt, keys)
}

// unask takes the question away.
func (w *Waits) unask() {
	if w.prompt == nil {
		return
	}
	close(w.prompt.ended)
	w.erase()
	w.prompt.leave()
	w.prompt = nil
}

// read hears the answer to a prompt.
func (w *Waits) read(p *prompt, keys <-chan rune) {
	var s sequence
	for {
		select {
		case <-p.ended:
			return
		case k, ok := <-keys:
			if ok && s.part(k) {
				continue
			}
			if !w.answer(p, k, ok) {
				return
			}
		}
	}
}

// answer does what a key says, and reports whether the question is still there.
func (w *Waits) answer(p *prompt, key rune, there bool) bool {
	w.mu.Lock()
	if w.prompt != p {
		w.mu.Unlock()
		return false
	}
	forced := p.about.forced()
	var then func()
	switch {
	case !there:
		w.console = nil
	case key == ctrlC:
		then = w.interrupt
	case key == 'w' || key == '\r' || key == '\n':
		for _, o := range w.open {
			o.asked = time.Now()
		}
	case key == 's' && forced:
		for _, o := range w.open {
			o.asked = time.Now() // nobody is asked about one after the other
		}
		w.release(p.about)
	case key == 'c' && w.Cancel != nil:
		w.stopping = true
		then = func() { w.Cancel(ErrCanceled) }
	default:
		w.mu.Unlock()
		return true
	}
	if key != ctrlC {
		w.unask()
		w.step()
	}
	w.mu.Unlock()
	if then != nil {
		then()
	}
	return false
}

// Print calls f, which may write lines to the terminal, while nothing of a wait
// is drawn there.
func (w *Waits) Print(f func()) {
	w.once.Do(w.init)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unask()
	w.erase()
	f()
	w.step()
}

func orElse(d, usual time.Duration) time.Duration {
	if d == 0 {
		return usual
	}
	return max(0, d)
}

// sooner is the earlier of two instants, of which zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
