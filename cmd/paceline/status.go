package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/internal/daemon"
	"github.com/paceline-proxy/paceline/internal/home"
)

// A status is what GET /stats answers.
type status daemon.Status

func newStatus() *cobra.Command {
	var asJSON, line bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show what the proxy is doing now, and what each line waits for",
		Long: `Show each line of requests: how many wait and how many are under way, and what
binds it now: clients (nothing waits), a declared limit, a factor on it after
refusals, a learned rate, places, spacing after a refusal, a pause or its probe.

With --line it is one short line for a prompt or a status bar; where no proxy
runs that is nothing, and no failure.`,
		Example: `  paceline status
  paceline status --json | jq '.callers[] | {provider, binding}'
  PS1='$(paceline status --line) \$ '`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if asJSON && line {
				return usagef("--json and --line are two ways to print one thing: give one of them")
			}
			if line {
				return printLine(c.Context(), c.OutOrStdout())
			}
			h, err := home.Find()
			if err != nil {
				return err
			}
			var raw []byte
			if err := h.Client().Status(c.Context(), &raw); err != nil {
				return err
			}
			s, err := readStatus(raw)
			if err != nil {
				return err
			}
			if asJSON {
				_, err = c.OutOrStdout().Write(append(bytes.TrimSpace(raw), '\n'))
				return err
			}
			return s.print(c.OutOrStdout(), time.Now())
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print GET /stats as it is")
	c.Flags().BoolVar(&line, "line", false, "print one short line, or nothing where no proxy runs")
	return c
}

func readStatus(raw []byte) (s status, err error) {
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, fmt.Errorf("what answered is no paceline, or another version of it: %w", err)
	}
	return s, nil
}

// askStatus asks the proxy of the home.
func askStatus(ctx context.Context) (s status, err error) {
	h, err := home.Find()
	if err != nil {
		return s, err
	}
	return s, h.Client().Status(ctx, &s)
}

// lineTimeout bounds how long a prompt waits for its status.
const lineTimeout = time.Second

// printLine prints how many requests wait and run, and the first thing that
// holds some up.
func printLine(ctx context.Context, w io.Writer) error {
	within, cancel := context.WithTimeout(ctx, lineTimeout)
	defer cancel()
	s, err := askStatus(within)
	if _, none := errors.AsType[*home.NotRunning](err); none || err != nil && within.Err() != nil && ctx.Err() == nil {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, s.line())
	return err
}

// active is how many requests are under way.
func (s status) active() (n int) {
	for _, c := range s.Callers {
		n += c.Active
	}
	return n
}

func (s status) line() string {
	var waiting int
	var most paceline.CallerStatus
	for _, c := range s.Callers {
		waiting += waits(c)
		if waits(c) > waits(most) || most.Binding.What != paceline.BindsPause && c.Binding.What == paceline.BindsPause {
			most = c
		}
	}
	says := fmt.Sprintf("%d active, %d waiting", s.active(), waiting)
	if waits(most) > 0 || most.Binding.What == paceline.BindsPause {
		says += fmt.Sprintf("; %s: %s", callerName(most), clean(most.Binding.Says))
	}
	return says
}

func waits(c paceline.CallerStatus) int {
	return c.Waiting.Interactive + c.Waiting.Normal + c.Waiting.Background
}

// callerName is what people call a caller key: its credential, which names
// its provider too, else its provider and account; and its scope.
func callerName(c paceline.CallerStatus) string {
	name := c.Provider
	switch {
	case strings.HasPrefix(c.Credential, c.Provider):
		name = c.Credential
	case c.Credential != "":
		name += "/" + c.Credential
	case c.Account != "":
		name += "/" + c.Account
	}
	if c.Scope != "" {
		name += " " + c.Scope
	}
	return clean(name)
}

// clean takes control characters out of what may have come from elsewhere.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}

func (s status) print(to io.Writer, now time.Time) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "paceline %s, up %v, mode %s, limiter %s %s\n", clean(s.Version), now.Sub(s.StartedAt).Round(time.Second), s.allModes(), clean(s.Limiter.URL), clean(s.Limiter.State))
	for _, warning := range s.Limiter.Warnings {
		fmt.Fprintf(w, "limiter: %s\n", clean(warning))
	}
	if len(s.Callers) == 0 {
		fmt.Fprintln(w, "nothing was sent lately")
		return w.Flush()
	}
	fmt.Fprintln(w, "\nLINE\tWAITING\tACTIVE\tHELD\tLAST 60 S\tBOUND BY")
	for _, c := range s.Callers {
		bound := clean(c.Binding.What)
		if c.Binding.Says != "" {
			bound += ": " + clean(c.Binding.Says)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\n", s.nameOf(c), waiting(c.Waiting), c.Active, c.Held, c.Sent60s, bound)
	}
	return w.Flush()
}

// allModes is the mode, and those of providers that have another.
func (s status) allModes() string {
	says := clean(s.Mode)
	var other []string
	for _, name := range sortedKeys(s.Modes) {
		other = append(other, clean(name+" "+s.Modes[name]))
	}
	if len(other) > 0 {
		says += " (" + strings.Join(other, ", ") + ")"
	}
	return says
}

// nameOf is what people call a line, with its mode where that is its own.
func (s status) nameOf(c paceline.CallerStatus) string {
	if mode := s.Modes[c.Provider]; mode != "" {
		return callerName(c) + " (mode " + clean(mode) + ")"
	}
	return callerName(c)
}

// waiting is how many wait, and who they are where they are not all alike.
func waiting(w paceline.Waiting) string {
	total := w.Interactive + w.Normal + w.Background
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{w.Interactive, "interactive"}, {w.Normal, "normal"}, {w.Background, "background"}} {
		if p.n > 0 && p.n < total || p.n > 0 && p.what != "normal" {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if len(parts) == 0 {
		return fmt.Sprint(total)
	}
	return strings.Join(parts, ", ")
}
