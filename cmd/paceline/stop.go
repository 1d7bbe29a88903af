package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/paceline-proxy/paceline/internal/daemon"
	"github.com/paceline-proxy/paceline/internal/home"
)

func newStop() *cobra.Command {
	return &cobra.Command{
		Use:   "stop",
		Short: "End the proxy; answers under way are passed on",
		Long: `End the proxy of this home, and return when it is gone; or, where it still passes
on answers, when another could start. It does that for up to drain.maxMs, and sends
nothing any more.
` + drainHelp,
		Example: `  paceline stop`,
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := home.Find()
			if err != nil {
				return err
			}
			s, live := h.Live(c.Context())
			if !live {
				return &home.NotRunning{}
			}
			var before status // what it was doing is worth no error
			_ = h.ClientOf(s).Status(c.Context(), &before)
			if err := stop(c.Context(), h, s); err != nil {
				return err
			}
			gone, err := ends(c.Context(), s)
			if err != nil {
				return err
			}
			if gone {
				_, err = fmt.Fprintf(c.OutOrStdout(), "stopped (%v)\n", s)
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "stopping (%v): it sends nothing any more, and still passes on answers (%s under way when it was told)\n", s, counted(before.active(), "answer"))
			return err
		},
	}
}

// stop ends a proxy and returns when it has let go of the home.
func stop(ctx context.Context, h home.Home, s home.Server) error {
	if err := daemon.End(ctx, h, s); err != nil {
		return err
	}
	for {
		if now, err := h.Recorded(); err != nil || now.PID != s.PID || now.Dead() {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// endsWithin is how long a proxy that has let go of the home and has nothing
// left to pass on may take to end: clients learn meanwhile that their
// connections do.
const endsWithin = 4 * time.Second

// ends waits for the end of a proxy's process, for as long as it takes where
// nothing is under way, and reports whether it has come.
func ends(ctx context.Context, s home.Server) (bool, error) {
	for deadline := time.Now().Add(endsWithin); !s.Dead(); {
		if time.Now().After(deadline) {
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return true, nil
}

func newRestart() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "restart",
		Short: "Start the proxy anew, at the same address, without losing a request",
		Long: `Start a new proxy in the background that takes the place of the one that runs, at
the same port and with the same configuration file. If none runs, one is started.
Answers under way are passed on by the old one.
` + drainHelp,
		Example: `  paceline restart
  paceline restart --config new.yaml`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := home.Find()
			if err != nil {
				return err
			}
			var addrs []string
			if s, live := h.Live(c.Context()); live {
				addrs = s.Listen
				f.autostarted = s.Autostarted
				if f.config == "" {
					f.config = s.Config
				}
			}
			f.replace = true
			return f.startDetached(c, h, addrs)
		},
	}
	c.Flags().StringVar(&f.config, "config", "", "read the configuration from `FILE` (default: the one it has)")
	return c
}

func newReload() *cobra.Command {
	return &cobra.Command{
		Use:   "reload",
		Short: "Have the proxy read its configuration again",
		Long: `Have the running proxy read its configuration again. No request is dropped; those
that wait take the new limits when they ask next. Where anything is wrong with
it, all of it is said and the old one stays. It is the same as SIGHUP.

Some keys take effect only when a proxy is started (paceline restart, and for
listen paceline stop and paceline serve); which of them have changed is said.`,
		Example: `  paceline reload`,
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := home.Find()
			if err != nil {
				return err
			}
			err = h.Client().Control(c.Context(), "reload", nil, nil)
			if r, ok := errors.AsType[*home.Refusal](err); ok {
				return fmt.Errorf("the old configuration stays:\n%s", r.Message)
			}
			if err != nil {
				return err
			}
			says := "the configuration was read again"
			if s, err := askStatus(c.Context()); err == nil && len(s.NextStart) > 0 {
				says += "; at the next start take effect: " + strings.Join(s.NextStart, ", ")
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), says)
			return err
		},
	}
}
