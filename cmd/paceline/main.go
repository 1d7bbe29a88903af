// Command paceline runs the proxy that keeps every program of a user inside the
// providers' rate limits, and is how people talk to it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(atTerminal()) }

// atTerminal runs the command that the process was started with, and ends it
// when a signal asks for that. A second signal ends the process at once.
func atTerminal() int {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		s := <-signals
		signal.Stop(signals)
		cancel(interrupted{s})
	}()
	return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// interrupted is the cause of a context that a signal has ended.
type interrupted struct{ os.Signal }

func (i interrupted) Error() string { return i.String() }
