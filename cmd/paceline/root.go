package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/paceline-proxy/paceline/internal/home"
)

// The exit codes of every command.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	// Another proxy has the home.
	exitTaken = 3
	// exec --require caught nothing.
	exitNothingCaught = 4
	// A signal ends a command with this plus its number.
	exitSignal = 128
)

// coded is an error with an exit code of its own, or an exit code alone.
type coded struct {
	code int
	err  error
}

func (e coded) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e coded) Unwrap() error { return e.err }

// run is the whole program: it carries out args and returns its exit code.
// Results are written to stdout and everything else to stderr.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	results := &results{w: stdout}
	root := newRoot(results)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetErr(stderr)
	command, err := root.ExecuteContextC(ctx)
	if results.err != nil {
		return results.lost(stderr)
	}
	if own, ok := errors.AsType[coded](err); ok {
		if own.err != nil {
			fmt.Fprintf(stderr, "paceline: %v\n", own.err)
		}
		return own.code
	}
	if stopped, ok := errors.AsType[interrupted](context.Cause(ctx)); ok && (err == nil || errors.Is(err, context.Canceled)) {
		return exitSignal + number(stopped.Signal)
	}
	if err == nil {
		return exitOK
	}
	err = asUsage(command, err)
	fmt.Fprintf(stderr, "paceline: %v\n", err)
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[*home.Taken](err); ok {
		return exitTaken
	}
	return exitFailed
}

func number(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return int(n)
	}
	return int(syscall.SIGINT)
}

// newRoot is the command with all of its own. Results go to out, which has to
// be known by now: cobra's completion remembers it.
func newRoot(out io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "paceline",
		Short: "Keep every program inside the rate limits of the keys they share",
		Long: `Paceline is a proxy for model providers on this machine. Programs that share an
API key send their requests through it (serve), wait their turn there instead of
being refused, and use the whole allowance. Nothing is changed in them but a base
URL, and exec sets that too.

It is also a Go library, github.com/paceline-proxy/paceline, and a stand-in
provider to try clients on (stub); demo shows what pacing does.

What it keeps, and its configuration paceline.yaml, is in the home.
` + homeHelp() + `

Results are written to standard output, everything else to standard error.

Exit codes:
  0    it worked
  1    it failed; results that cannot be written are a failure
  2    wrong usage: an unknown command, flag or value
  3    another proxy has this home (serve)
  130  interrupted (Ctrl-C); 143 terminated. What was measured so far is printed`,
		Example: `  paceline serve                         run the proxy
  paceline exec -- claude                run a command through it
  eval "$(paceline env)"                 send this shell's programs through it
  paceline run --model gpt-5-mini "Hi."  ask one question through it
  paceline doctor                        find out what is wrong
  paceline demo                          see what pacing does, in 45 seconds
  paceline stub --limit 15 --per 1m      a provider to try things on`,
		// What is printed about errors is one line; see usage.go.
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetOut(out)
	root.Version = thisBuild().String()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages ", ".FlagUsagesWrapped 100 "))
	root.SetFlagErrorFunc(asUsage)
	root.AddCommand(
		newServe(), newStop(), newRestart(), newReload(), newExec(), newEnv(), newRun(), newDoctor(),
		newStatus(), newLimits(), newWait(), newPause(), newResume(), newClear(), newMode(), newCheck(), newConfig(),
		newStats(), newLog(), newExplain(), newLimiter(), newConnect(),
		newDemo(), newStub(), newVersion(),
	)
	root.SetHelpCommand(newHelp())
	checkCompletion(root)
	for _, c := range root.Commands() {
		completeWords(c)
	}
	return root
}

// checkCompletion has cobra's completion command fail for a shell it does not
// know, where it would print its help.
func checkCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Args = cobra.ArbitraryArgs
		c.Example = "  paceline completion bash > /etc/bash_completion.d/paceline\n  source <(paceline completion zsh)"
		c.RunE = func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(c, args[0])
			}
			return c.Help()
		}
	}
}

// newHelp is cobra's help, but that it fails for what there is no help for.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Say what a command is for",
		Long:  "Say what a command is for, and what its flags do. It is the same as COMMAND --help.",
		Example: `  paceline help
  paceline help stub`,
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			at, _, err := c.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []cobra.Completion
			for _, sub := range at.Commands() {
				if sub.IsAvailableCommand() {
					names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			at, rest, err := c.Root().Find(args)
			switch {
			case err != nil:
				return unknownCommand(c.Root(), args[0])
			case len(rest) > 0:
				return unknownCommand(at, rest[0])
			}
			at.InitDefaultHelpFlag()
			at.InitDefaultVersionFlag()
			return at.Help()
		},
	}
}
