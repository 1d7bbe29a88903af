package terminal

import (
	"os"
	"os/signal"
)

// ctrlC is the key, where it is no signal.
const ctrlC = 3

// exitInterrupted is the exit code of a program that Ctrl-C ended.
const exitInterrupted = 130

// Interrupt takes a Ctrl-C, and reports false where it is the program's to
// handle: where no request waits, where nobody can be asked, and at the prompt,
// which is taken away. A program that handles Ctrl-C calls it first.
func (w *Waits) Interrupt() bool {
	w.once.Do(w.init)
	w.mu.Lock()
	defer w.mu.Unlock()
	shown := w.front()
	if shown == nil || w.stopping || w.console == nil || !w.console.here() {
		return false
	}
	if w.prompt == nil {
		w.ask(shown)
		return w.prompt != nil
	}
	w.stopping = true
	w.step()
	return false
}

// interrupt is what a Ctrl-C does that no program handles: it asks, begins to
// stop, and ends the program.
func (w *Waits) interrupt() {
	w.mu.Lock()
	again := w.stopping
	w.mu.Unlock()
	switch {
	case w.Interrupt():
	case again || w.Cancel == nil:
		w.exit(exitInterrupted)
	default:
		w.Cancel(ErrInterrupted)
	}
}

// listen takes the program's Ctrl-C while a request waits.
func (w *Waits) listen() {
	listens := w.signals != nil
	switch wants := len(w.open) > 0 && w.console != nil && w.Out == nil && !w.OwnInterrupts; {
	case wants && !listens && !signal.Ignored(os.Interrupt):
		w.signals = make(chan os.Signal, 3)
		signal.Notify(w.signals, os.Interrupt)
		go func(signals <-chan os.Signal) {
			for range signals {
				w.interrupt()
			}
		}(w.signals)
	case !wants && listens:
		signal.Stop(w.signals)
		close(w.signals)
		w.signals = nil
	}
}
