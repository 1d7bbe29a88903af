// Command paceline runs the proxy that keeps every program of a user inside the
// providers' rate limits, and is how people talk to it.
package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

func main() { os.Exit(atTerminal()) }

// atTerminal runs the command that the process was started with, and ends it
// when a signal asks for that. A second signal ends the process at once.
func atTerminal() int {
	ctx, cancel := context.WithCancelCause(context.Background())
	i := &interrupts{signals: make(chan os.Signal, 1)}
	signal.Notify(i.signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for s := range i.signals {
			if s == os.Interrupt && i.taken() {
				continue
			}
			signal.Stop(i.signals)
			cancel(interrupted{s})
			return
		}
	}()
	return run(context.WithValue(ctx, interruptsKey{}, i), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// interrupted is the cause of a context that a signal has ended.
type interrupted struct{ os.Signal }

func (i interrupted) Error() string { return i.String() }

// interrupts are the process's Ctrl-C, of which a command may take some before
// one ends it.
type interrupts struct {
	signals chan os.Signal

	mu   sync.Mutex
	take func() bool
}

type interruptsKey struct{}

// interruptsOf are those of a command, or such as never come.
func interruptsOf(ctx context.Context) *interrupts {
	if i, ok := ctx.Value(interruptsKey{}).(*interrupts); ok {
		return i
	}
	return &interrupts{signals: make(chan os.Signal, 1)}
}

// first has take see each Ctrl-C; where it returns false the command ends.
func (i *interrupts) first(take func() bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.take = take
}

func (i *interrupts) taken() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.take != nil && i.take()
}

// raise is a Ctrl-C that came as a key.
func (i *interrupts) raise() {
	select {
	case i.signals <- os.Interrupt:
	default: // one is on its way
	}
}
