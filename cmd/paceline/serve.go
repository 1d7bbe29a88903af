package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/paceline-proxy/paceline/internal/config"
	"github.com/paceline-proxy/paceline/internal/daemon"
	"github.com/paceline-proxy/paceline/internal/home"
)

// serveFlags are what serve is told.
type serveFlags struct {
	listen      []string
	port        int
	config      string
	mode        oneOf
	replace     bool
	detach      bool
	autostarted bool
}

// drainHelp says what a proxy that ends does to those who wait.
const drainHelp = `Requests that wait are answered 503 with Retry-After: 1 and x-should-retry: true.
SDKs repeat them, and they keep their places in line; a client that does not repeat
sees the 503.`

func newServe() *cobra.Command {
	f := serveFlags{mode: oneOf{words: []string{"enforce", "observe", "off"}}}
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the proxy that every program's requests go through",
		Long: `Run the proxy of this user: it keeps all requests that go through it, from any
program and in any language, inside the rate limits of each API key. Requests
wait for their turn instead of failing.

It needs no configuration: known providers work with the client's own key. Point
a program at it with OPENAI_BASE_URL or ANTHROPIC_BASE_URL, or run it with
paceline exec.

There is one proxy for each home.
` + homeHelp() + `

SIGHUP or paceline reload reads the configuration again. SIGTERM, Ctrl-C or
paceline stop ends it: answers under way are passed on, and a second signal ends
it at once.
` + drainHelp + `

Exit codes, beside those of paceline:
  3    another proxy has this home; the message names its pid and port`,
		Example: `  paceline serve
  paceline serve --port 9000
  paceline serve --config paceline.yaml --replace
  paceline serve --mode observe           see what it would do`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	flags := c.Flags()
	flags.StringSliceVar(&f.listen, "listen", nil, "serve at `ADDR`: HOST:PORT or unix:PATH, more than once; localhost is both loopbacks (default localhost:8790)")
	flags.IntVar(&f.port, "port", 0, "serve at localhost:`N`; 0 is a free port")
	flags.StringVar(&f.config, "config", "", "read the configuration from `FILE` (default $PACELINE_CONFIG, or paceline.yaml in the home)")
	flags.Var(&f.mode, "mode", "hold limits, only record what they would have done, or do nothing")
	flags.BoolVar(&f.replace, "replace", false, "take the place of the proxy that runs, with its address and configuration file unless others are given")
	flags.BoolVar(&f.detach, "detach", false, "serve in the background, with the log in the home")
	flags.BoolVar(&f.autostarted, "autostarted", false, "leave when nobody uses it")
	_ = flags.MarkHidden("autostarted") // it is there
	return c
}

func (f *serveFlags) run(c *cobra.Command) error {
	addrs, err := f.addresses(c)
	if err != nil {
		return err
	}
	h, err := home.Find()
	if err != nil {
		return err
	}
	if f.replace && cmp.Or(f.config, os.Getenv("PACELINE_CONFIG")) == "" {
		if s, live := h.Live(c.Context()); live && s.Config != h.Config() {
			f.config = s.Config
		}
	}
	if f.detach {
		return f.startDetached(c, h, addrs)
	}
	// Who reads the log may leave: that ends a process that does not listen.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	log := c.ErrOrStderr()
	err = daemon.Run(c.Context(), daemon.Options{
		Home:        h,
		ConfigFile:  f.config,
		Listen:      addrs,
		Mode:        config.Mode(f.mode.word),
		Replace:     f.replace,
		Autostarted: f.autostarted,
		Version:     thisBuild().Version,
		Logger:      slog.New(slog.NewTextHandler(log, nil)),
		Ready: func(s home.Server) {
			fmt.Fprintf(log, "serving at %s; to use it: paceline exec -- CMD, or OPENAI_BASE_URL=%s/v1\n", where(s), s.URL())
		},
	})
	if err == nil {
		return coded{code: exitOK} // whatever signal told it to stop
	}
	return err
}

// addresses are those the command line or the environment asks for.
func (f *serveFlags) addresses(c *cobra.Command) ([]string, error) {
	switch {
	case c.Flags().Changed("listen") && c.Flags().Changed("port"):
		return nil, usagef("--listen and --port are two ways to say one thing: give one of them")
	case c.Flags().Changed("listen"):
		return f.listen, nil
	case c.Flags().Changed("port"):
		if f.port < 0 || f.port > 65535 {
			return nil, usagef("--port is %d: give a number from 0 to 65535", f.port)
		}
		return []string{"localhost:" + strconv.Itoa(f.port)}, nil
	}
	if v := os.Getenv("PACELINE_PORT"); v != "" {
		if n, err := strconv.Atoi(v); err != nil || n < 1 || n > 65535 {
			return nil, usagef("PACELINE_PORT is %q: give a number from 1 to 65535", v)
		}
		return []string{"localhost:" + v}, nil
	}
	return nil, nil
}

// startDetached starts the same proxy in the background.
func (f *serveFlags) startDetached(c *cobra.Command, h home.Home, addrs []string) error {
	if s, live := h.Live(c.Context()); live && !f.replace {
		return h.TakenBy(s)
	}
	s, err := daemon.Start(c.Context(), h, f.args(addrs)...)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "serving at %s (pid %d); its log is %s\n", where(s), s.PID, h.ServeLog())
	return err
}

// args are the command line that serves in the foreground.
func (f *serveFlags) args(addrs []string) []string {
	args := []string{"serve"}
	for _, a := range addrs {
		args = append(args, "--listen", a)
	}
	// The background has a directory of its own.
	if path := cmp.Or(f.config, os.Getenv("PACELINE_CONFIG")); path != "" {
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
		args = append(args, "--config", path)
	}
	if f.mode.word != "" {
		args = append(args, "--mode", f.mode.word)
	}
	if f.replace {
		args = append(args, "--replace")
	}
	if f.autostarted {
		args = append(args, "--autostarted")
	}
	return args
}

// where a server is, for people.
func where(s home.Server) string {
	if s.Port == 0 {
		return s.Host
	}
	return s.URL()
}

// ensure returns where the proxy of the home is reached, and starts one if
// none runs. What PACELINE_URL or PACELINE_PORT name is not started.
func ensure(ctx context.Context, h home.Home) (at home.Endpoint, started bool, err error) {
	at, err = h.Client().Endpoint()
	if err == nil && !at.Recorded() {
		return at, false, h.Client().Call(ctx, "GET", "/health", nil, nil)
	}
	if at.From != "" && err != nil {
		return at, false, err
	}
	s, live := h.Live(ctx)
	if !live {
		f := serveFlags{autostarted: true}
		if s, err = daemon.Start(ctx, h, f.args(nil)...); err != nil {
			return home.Endpoint{}, false, err
		}
	}
	at, err = h.ClientOf(s).Endpoint()
	return at, !live, err
}
