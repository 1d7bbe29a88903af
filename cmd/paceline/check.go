package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/paceline-proxy/paceline"
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
to run. Without FILE it is the one that serve would read: $PACELINE_CONFIG, or
paceline.yaml in the home.

Exit codes, beside those of paceline:
  1    the file cannot be read
  2    it has faults`,
		Example: `  paceline check
  paceline check paceline.yaml
  paceline check --json | jq .faults`,
		Args: atMost(1, "one file"),
		RunE: func(c *cobra.Command, args []string) error {
			path, err := configFile(strings.Join(args, ""))
			if err != nil {
				return err
			}
			return check(c.OutOrStdout(), path, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return c
}

// configFile is the file that serve would read, empty where there is none.
func configFile(given string) (string, error) {
	h, err := home.Find()
	if err != nil && given == "" {
		return "", err
	}
	path, ok := config.Find(given, h.Dir)
	if !ok {
		return "", nil
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("the configuration cannot be read: %w", err)
	}
	return path, nil
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

func check(w io.Writer, path string, asJSON bool) error {
	c, err := config.Load(path)
	out := checked{File: path, OK: err == nil, Faults: config.Faults{}, Warnings: config.Faults{}}
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
		if p.Dialect == "anthropic" {
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
		fmt.Fprintf(w, "%s: %s\n", out.File, counted(len(out.Faults), "fault"))
		return w.Flush()
	case out.File == "":
		fmt.Fprintln(w, "no configuration file: the defaults hold")
	default:
		fmt.Fprintf(w, "%s: no faults\n", out.File)
	}
	fmt.Fprintf(w, "serves at %s, mode %s\n", strings.Join(out.Listen, ", "), out.Mode)
	for i, p := range out.Providers {
		if i == 0 {
			fmt.Fprintln(w, "\nPROVIDER\tLIMITS\tKEY\tMODE\tSENDS")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s to %s\n", p.Name, orWords(p.Limits, "what it tells, or learned"), keys(p.Keys), p.Mode, p.Path, p.SendsTo)
		for _, m := range p.Models {
			fmt.Fprintf(w, "  %s\t%s\t\t\t\n", m.Name, orWords(m.Limits, "none of its own"))
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

func orWords(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
