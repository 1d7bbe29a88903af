package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/paceline-proxy/paceline/internal/home"
)

func newEnv() *cobra.Command {
	var f callerFlags
	var asJSON bool
	shell := oneOf{word: "sh", words: []string{"sh", "fish", "powershell"}}
	c := &cobra.Command{
		Use:   "env",
		Short: "Print the variables that send a shell's programs through the proxy",
		Long: `Print the lines that have every program started from this shell send its requests
through the running proxy. What you have set yourself stays as it is and is named
on standard error; what env has set before it sets anew, as it does when the proxy
has come to another port.

No proxy is started. One that exec has started leaves when nobody has used it for
15 minutes (idleExitMs), and the programs of this shell find nobody then: run
paceline serve, which stays.`,
		Example: `  eval "$(paceline env)"
  paceline env --shell fish | source
  paceline env --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := home.Find()
			if err != nil {
				return err
			}
			if err := h.Client().Call(c.Context(), "GET", "/health", nil, nil); err != nil {
				return err
			}
			at, err := h.Client().Endpoint()
			if err != nil {
				return err
			}
			token, err := tokenFor(h, at)
			if err != nil {
				return err
			}
			who := f.caller()
			who.token = token
			p := planFor(tool{}, who.base(at.URL), os.Getenv)
			for _, v := range p.Kept {
				fmt.Fprintf(c.ErrOrStderr(), "paceline: %s is %s and stays so; unset it to go through the proxy\n", v.Name, v.Value)
			}
			if asJSON {
				set := make(map[string]string)
				for _, v := range p.Set {
					set[v.Name] = v.Value
				}
				return json.NewEncoder(c.OutOrStdout()).Encode(set)
			}
			return printEnv(c.OutOrStdout(), shell.word, p.Set)
		},
	}
	f.define(c)
	c.Flags().Var(&shell, "shell", "whose language to write")
	c.Flags().BoolVar(&asJSON, "json", false, "print them as one JSON object")
	return c
}

// printEnv writes assignments that a shell can read.
func printEnv(w io.Writer, shell string, set []variable) error {
	for _, v := range set {
		var err error
		switch shell {
		case "fish":
			quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(v.Value)
			_, err = fmt.Fprintf(w, "set -gx %s '%s'\n", v.Name, quoted)
		case "powershell":
			_, err = fmt.Fprintf(w, "$env:%s = '%s'\n", v.Name, strings.ReplaceAll(v.Value, "'", "''"))
		default:
			_, err = fmt.Fprintf(w, "export %s='%s'\n", v.Name, strings.ReplaceAll(v.Value, "'", `'\''`))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
