package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/paceline-proxy/paceline/internal/daemon"
	"github.com/paceline-proxy/paceline/internal/home"
	"github.com/paceline-proxy/paceline/internal/proxy"
)

// callerFlags are what exec and env are told of the caller.
type callerFlags struct {
	name     clientName
	priority oneOf
}

func (f *callerFlags) define(c *cobra.Command) {
	f.priority.words = []string{"interactive", "normal", "background"}
	c.Flags().Var(&f.name, "as", "call the client `NAME`: it has its own turn, and its own row in the statistics")
	c.Flags().Var(&f.priority, "priority", "whose turn comes first")
}

// caller is who the flags say it is.
func (f *callerFlags) caller() caller {
	return caller{name: string(f.name), priority: f.priority.word}
}

// A clientName is a flag that takes what a base URL can say.
type clientName string

func (n *clientName) String() string { return string(*n) }

// Set takes a name.
func (n *clientName) Set(s string) error {
	if !proxy.Sayable(s) {
		return errors.New("give a name of 1 to 200 bytes, without control characters")
	}
	*n = clientName(s)
	return nil
}

// Type is what help calls it.
func (n *clientName) Type() string { return "name" }

func newExec() *cobra.Command {
	var f callerFlags
	var require, explain, asJSON bool
	c := &cobra.Command{
		Use:   "exec [flags] -- CMD [ARG...]",
		Short: "Run a command whose requests go through the proxy",
		Long: `Run a command whose requests go through the proxy, and start the proxy if none
runs. Base URLs are set in its environment, and what more a known command needs;
what you have set yourself stays as it is. Its input and output, its signals and
its exit code are its own.

When it has ended and none of its requests came through, that is said. A proxy that
was started for a command leaves when no command runs and nobody has used it for 15
minutes (idleExitMs); paceline serve stays.

Exit codes, beside that of the command:
  4    with --require: none of its requests came through
  126  the command cannot be run; 127 there is no such command`,
		Example: `  paceline exec -- claude
  paceline exec --as night --priority background -- python evaluate.py
  paceline exec --explain codex`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("exec needs a command: paceline exec -- CMD [ARG...]")
			}
			h, err := home.Find()
			if err != nil {
				return err
			}
			if explain {
				return explainExec(c, h, f, args[0], asJSON)
			}
			return execute(c, h, f, args, require)
		},
	}
	f.define(c)
	c.Flags().BoolVar(&require, "require", false, "fail with exit code 4 if no request came through")
	c.Flags().BoolVar(&explain, "explain", false, "print what would be set for CMD, and run nothing")
	c.Flags().BoolVar(&asJSON, "json", false, "print --explain as JSON")
	c.Flags().SetInterspersed(false) // what follows the command belongs to it
	return c
}

// explainExec prints what is known of a command. It starts no proxy.
func explainExec(c *cobra.Command, h home.Home, f callerFlags, command string, asJSON bool) error {
	base := "http://localhost:8790"
	if at, err := h.Client().Endpoint(); err == nil {
		base = at.URL
	}
	p := planFor(toolOf(command), f.caller().base(base), os.Getenv)
	if asJSON {
		return json.NewEncoder(c.OutOrStdout()).Encode(p)
	}
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, v := range p.Set {
		fmt.Fprintf(w, "sets\t%s\t%s\n", v.Name, v.Value)
	}
	for _, v := range p.Kept {
		fmt.Fprintf(w, "keeps\t%s\t%s\n", v.Name, v.Value)
	}
	if len(p.Args) > 0 {
		fmt.Fprintf(w, "runs\t%s\t%s\n", command, strings.Join(p.Args, " "))
	}
	if p.Note != "" {
		fmt.Fprintf(w, "note\t%s\t%s\n", command, p.Note)
	}
	return w.Flush()
}

// execute runs a command, and returns its exit code as an error.
func execute(c *cobra.Command, h home.Home, f callerFlags, args []string, require bool) error {
	program, err := exec.LookPath(args[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		if errors.Is(err, fs.ErrPermission) {
			return coded{126, err}
		}
		return coded{127, err}
	}
	if err := h.Make(); err != nil {
		return err
	}
	// A proxy that was started for commands does not leave meanwhile.
	held, err := h.HoldExec()
	if err != nil {
		return err
	}
	defer held.Close()
	at, _, err := ensure(c.Context(), h)
	if err != nil {
		return err
	}
	token, err := tokenFor(h, at)
	if err != nil {
		return err
	}
	who := f.caller()
	// What an exec inside another catches, both have caught.
	outer := home.MarkOf(os.Getenv(envMarker))
	who.mark, who.token = cmp.Or(outer, home.NewMark()), token
	t := toolOf(args[0])
	p := planFor(t, who.base(at.URL), os.Getenv)
	// Everybody can read a command line.
	who.token = ""
	p.Args = planFor(t, who.base(at.URL), os.Getenv).Args

	child := exec.Command(program, append(p.Args, args[1:]...)...)
	child.Args[0] = args[0]
	child.Stdin, child.Stdout, child.Stderr = c.InOrStdin(), raw(c.OutOrStdout()), c.ErrOrStderr()
	child.Env = os.Environ()
	for _, v := range p.Set {
		child.Env = append(child.Env, v.Name+"="+v.Value)
	}
	already := 0
	if outer != "" {
		already, _ = caught(c.Context(), h, outer) // none, at a proxy that does not know it
	}
	alive, cancel := context.WithCancel(context.WithoutCancel(c.Context()))
	defer cancel()
	go keepAlive(alive, h)
	code, err := runChild(child)
	if err != nil {
		return coded{126, err}
	}
	if n, err := caught(alive, h, who.mark); err == nil && n <= already {
		fmt.Fprintf(c.ErrOrStderr(), "paceline: no request of %s came through: %s\n", t.Name, p.why(t.Name))
		if require {
			return coded{code: exitNothingCaught}
		}
	}
	return coded{code: code}
}

// why says what may have kept a command's requests from coming.
func (p plan) why(name string) string {
	switch {
	case len(p.Kept) > 0:
		return fmt.Sprintf("%s was set already, to %s; unset it, or add paceline there", p.Kept[0].Name, p.Kept[0].Value)
	case p.Note != "":
		return p.Note
	}
	return fmt.Sprintf("it had none to send, or it does not read OPENAI_BASE_URL and the like; paceline exec --explain %s lists what is set", name)
}

// tokenFor is what a base URL has to show, empty where the proxy knows this
// user by itself: it sees whose socket it is.
func tokenFor(h home.Home, at home.Endpoint) (string, error) {
	if knowsPeers || !at.Recorded() {
		return "", nil
	}
	return h.Token()
}

// raw is what results are written to, so that a command has the terminal
// itself.
func raw(w io.Writer) io.Writer {
	if r, ok := w.(*results); ok {
		return r.w
	}
	return w
}

// runChild runs a command to its end. Signals meant for us are for it.
func runChild(child *exec.Cmd) (code int, err error) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded...)
	defer signal.Stop(signals)
	if err := child.Start(); err != nil {
		return 0, err
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case s := <-signals:
				if !fromTerminal(s) {
					_ = child.Process.Signal(s) // it may just have ended
				}
			case <-ended:
				return
			}
		}
	}()
	err = child.Wait()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if err != nil && !ok {
		return 0, err
	}
	if ok {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return exitSignal + int(status.Signal()), nil
		}
		return exit.ExitCode(), nil
	}
	return 0, nil
}

// keepAlive starts a proxy that was started for commands again, at its port,
// when it has died. Of several commands that do, one starts it.
func keepAlive(ctx context.Context, h home.Home) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if s, err := h.Recorded(); err == nil && s.Autostarted && s.Dead() {
			f := serveFlags{config: s.Config, autostarted: true}
			// If it fails, the next tick tries again.
			_, _ = daemon.Start(ctx, h, f.args(s.Listen)...)
		}
	}
}

// caught is how many requests with a mark have come.
func caught(ctx context.Context, h home.Home, mark string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var n home.Caught
	err := h.Client().Call(ctx, http.MethodGet, home.CaughtPath+mark, nil, &n)
	return n.Requests, err
}
