package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/internal/config"
	"github.com/paceline-proxy/paceline/internal/home"
	"github.com/paceline-proxy/paceline/internal/proxy"
)

func newCheck() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Say what is wrong with a configuration, and what would be in force",
		Long: `Read a configuration as serve would, and say everything that is wrong with it,
each with file, line and what to write; else what would be in force for each
provider, and where its requests would go. Nothing is sent, and no proxy needs
to run. Without FILE it is $PACELINE_CONFIG, or the file of the proxy that runs,
or paceline.yaml in the home.
` + homeHelp() + `

Exit codes, beside those of paceline:
  1    the file cannot be read
  2    it has faults`,
		Example: `  paceline check
  paceline check paceline.yaml
  paceline check --json | jq .faults`,
		Args: atMost(1, "one file"),
		RunE: func(c *cobra.Command, args []string) error {
			f, err := findConfig(c.Context(), strings.Join(args, ""))
			if err != nil {
				return err
			}
			return check(c.OutOrStdout(), f, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return c
}

// A found is which configuration is meant.
type found struct {
	path string // empty: there is none
	how  string // why it is this one, where nobody has said so
}

// findConfig says which file is meant: the one that was given, else
// $PACELINE_CONFIG, else that of the proxy that runs, else that of the home.
func findConfig(ctx context.Context, given string) (found, error) {
	h, err := home.Find()
	if err != nil && given == "" {
		return found{}, err
	}
	path, ok := config.Find(given, h.Dir)
	switch {
	case given != "":
		return found{path: path}, nil
	case os.Getenv("PACELINE_CONFIG") != "":
		return found{path, "$PACELINE_CONFIG"}, nil
	}
	if s, live := h.Live(ctx); live && s.Config != "" {
		return found{s.Config, fmt.Sprintf("of the proxy that runs, pid %d", s.PID)}, nil
	}
	if !ok {
		return found{how: fmt.Sprintf("$PACELINE_CONFIG is not set, and there is no %s", h.Config())}, nil
	}
	return found{path, "in the home"}, nil
}

func (f found) String() string {
	switch {
	case f.path == "":
		return fmt.Sprintf("no configuration file (%s): the defaults hold", f.how)
	case f.how == "":
		return f.path
	}
	return fmt.Sprintf("%s (%s)", f.path, f.how)
}

// homeHelp says in a command's help where the home is.
func homeHelp() string {
	if dir, err := home.Usual(); err == nil {
		return "The home is $PACELINE_HOME, else " + dir + "."
	}
	return "The home is $PACELINE_HOME."
}

// atMost allows so many arguments.
func atMost(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > n {
			return usagef("%s takes %s at most: %q is too much; see %s --help", c.Name(), what, args[n], c.CommandPath())
		}
		return nil
	}
}

// A checked is what check says of a configuration.
type checked struct {
	file      found
	File      string            `json:"file,omitempty"`
	OK        bool              `json:"ok"`
	Faults    config.Faults     `json:"faults"`
	Warnings  config.Faults     `json:"warnings"`
	Listen    []string          `json:"listen,omitempty"`
	Mode      config.Mode       `json:"mode,omitempty"`
	Providers []checkedProvider `json:"providers,omitempty"`
}

// A checkedProvider is what would be in force for one.
type checkedProvider struct {
	Name    string `json:"name"`
	BaseURL string `json:"base_url"`
	// Path is what a client would ask for, SendsTo where that would go.
	Path    string         `json:"path"`
	SendsTo string         `json:"sends_to"`
	Dialect string         `json:"dialect"`
	Scope   paceline.Scope `json:"scope"`
	Mode    config.Mode    `json:"mode"`
	// Limits are a line for people; config show has them as data.
	Limits string `json:"limits"`
	// Keys counts the configured ones; without, the client's own goes through.
	Keys   int            `json:"keys"`
	Models []checkedModel `json:"models,omitempty"`
}

type checkedModel struct {
	Name   string `json:"name"`
	Limits string `json:"limits"`
}

func check(w io.Writer, f found, asJSON bool) error {
	c, err := config.Load(f.path)
	out := checked{file: f, File: f.path, OK: err == nil, Faults: config.Faults{}, Warnings: config.Faults{}}
	if err != nil {
		var ok bool
		if out.Faults, ok = errors.AsType[config.Faults](err); !ok {
			return err
		}
	} else if err := out.describe(c); err != nil {
		return err
	}
	if asJSON {
		err = json.NewEncoder(w).Encode(out)
	} else {
		err = out.print(w)
	}
	if err != nil {
		return err
	}
	if !out.OK {
		return coded{code: exitUsage}
	}
	return nil
}

// describe takes what would be in force.
func (out *checked) describe(c *config.Config) error {
	c, err := c.Effective()
	if err != nil {
		return err
	}
	out.Listen, out.Mode, out.Warnings = c.Listen, c.Mode, append(out.Warnings, c.Warnings...)
	for _, p := range c.Providers {
		const chat, messages = "/v1/chat/completions", "/v1/messages"
		path := chat
		if d, _ := dialect.ByName(p.Dialect); d != nil && d.API == dialect.AnthropicAPI {
			path = messages
		}
		to, err := proxy.SendsTo(p.BaseURL, path)
		if err != nil {
			return err
		}
		d := checkedProvider{
			Name: p.Name, BaseURL: p.BaseURL, Path: "/" + p.Name + path, SendsTo: to, Dialect: p.Dialect, Scope: p.Scope,
			Mode: p.Mode, Limits: config.Describe(p.Limits), Keys: len(p.Credentials),
		}
		for _, name := range sortedKeys(p.Models) {
			d.Models = append(d.Models, checkedModel{name, config.Describe(p.Models[name])})
		}
		out.Providers = append(out.Providers, d)
	}
	return nil
}

func (out *checked) print(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, f := range out.Faults {
		fmt.Fprintln(w, f)
	}
	for _, f := range out.Warnings {
		fmt.Fprintf(w, "warning: %v\n", f)
	}
	switch {
	case !out.OK:
		fmt.Fprintf(w, "%s: %s\n", out.file, counted(len(out.Faults), "fault"))
		return w.Flush()
	case out.File == "":
		fmt.Fprintln(w, out.file)
	default:
		fmt.Fprintf(w, "%s: no faults\n", out.file)
	}
	fmt.Fprintf(w, "serves at %s, mode %s\n", strings.Join(out.Listen, ", "), out.Mode)
	for i, p := range out.Providers {
		if i == 0 {
			fmt.Fprintln(w, "\nPROVIDER\tLIMITS\tKEY\tMODE\tSENDS")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s to %s\n", p.Name, cmp.Or(p.Limits, "what it tells, or learned"), keys(p.Keys), p.Mode, p.Path, p.SendsTo)
		for _, m := range p.Models {
			fmt.Fprintf(w, "  %s\t%s\t\t\tbeside those of %s\n", m.Name, cmp.Or(m.Limits, "none of its own"), p.Name)
		}
	}
	return w.Flush()
}

func keys(n int) string {
	if n == 0 {
		return "the client's"
	}
	return counted(n, "configured key")
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
