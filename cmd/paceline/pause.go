package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/internal/home"
	"github.com/paceline-proxy/paceline/internal/spelling"
)

// An order is the body of POST /control/….
type order struct {
	Provider string `json:"provider,omitempty"`
	ForMs    int64  `json:"for_ms,omitempty"`
	Why      string `json:"why,omitempty"`
	What     string `json:"what,omitempty"`
	Mode     string `json:"mode,omitempty"`
	ID       string `json:"id,omitempty"`
}

// give has the proxy of the home do something.
func give(c *cobra.Command, name string, o order) error {
	h, err := home.Find()
	if err != nil {
		return err
	}
	return h.Client().Control(c.Context(), name, o, nil)
}

// oneProvider wants the name of a provider as only argument.
func oneProvider(c *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return usagef("%s needs the name of a provider: %s openai", c.CommandPath(), c.CommandPath())
	case 1:
		return nil
	}
	return usagef("%s takes one provider: %q is too much; see %s --help", c.Name(), args[1], c.CommandPath())
}

func newPause() *cobra.Command {
	var length time.Duration
	var why string
	c := &cobra.Command{
		Use:   "pause PROVIDER",
		Short: "Send nothing to a provider for a while",
		Long: `Have the running proxy send nothing more to a provider. What was sent goes on;
requests wait for the end of the pause as they do for one that the provider asks
for. It outlives the proxy. resume ends it.`,
		Example: `  paceline pause openai --for 10m
  paceline pause groq --why "the invoice is being looked at"`,
		Args:              oneProvider,
		ValidArgsFunction: completeProviders,
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("for") && length < time.Millisecond {
				return usagef("--for is %v: give a longer time, such as 10m", length)
			}
			if err := give(c, "pause", order{Provider: args[0], ForMs: length.Milliseconds(), Why: why}); err != nil {
				return err
			}
			until := ""
			if length > 0 {
				until = fmt.Sprintf(" for %v", length)
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "%s is paused%s; paceline resume %s ends it\n", args[0], until, args[0])
			return err
		},
	}
	c.Flags().DurationVar(&length, "for", 0, "end it by itself after `TIME`, such as 10m (default: when it is resumed)")
	c.Flags().StringVar(&why, "why", "", "what status says of it")
	return c
}

func newResume() *cobra.Command {
	return &cobra.Command{
		Use:   "resume PROVIDER",
		Short: "End every pause of a provider",
		Long: `Have the running proxy end every pause of a provider: one made by pause, one that
the provider asked for, and one made after refusals. One request then finds out
whether it is over.`,
		Example:           `  paceline resume openai`,
		Args:              oneProvider,
		ValidArgsFunction: completeProviders,
		RunE: func(c *cobra.Command, args []string) error {
			if err := give(c, "resume", order{Provider: args[0]}); err != nil {
				return err
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "%s is resumed\n", args[0])
			return err
		},
	}
}

func newClear() *cobra.Command {
	what := map[paceline.Cleared]*bool{}
	c := &cobra.Command{
		Use:   "clear --learned|--budget|--all PROVIDER",
		Short: "Forget what was learned of a provider, or what it told",
		Long: `Have the running proxy forget what it knows of a provider beside its configuration:
what was learned from refusals (factor, rate, spacing, places), what the provider
told is left, or both. Pauses stay; resume ends them.`,
		Example: `  paceline clear --learned openai   after the provider raised its limits
  paceline clear --budget openai    after the key was used up elsewhere
  paceline clear --all openai       to begin anew`,
		Args:              oneProvider,
		ValidArgsFunction: completeProviders,
		RunE: func(c *cobra.Command, args []string) error {
			var chosen []paceline.Cleared
			for name, on := range what {
				if *on {
					chosen = append(chosen, name)
				}
			}
			if len(chosen) != 1 {
				return usagef("clear needs to know what: give one of --learned, --budget, --all")
			}
			if err := give(c, "clear", order{Provider: args[0], What: string(chosen[0])}); err != nil {
				return err
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "%s: forgotten (%s)\n", args[0], chosen[0])
			return err
		},
	}
	for name, usage := range map[paceline.Cleared]string{
		paceline.ClearLearned: "forget what refusals taught",
		paceline.ClearBudget:  "forget what the provider told is left",
		paceline.ClearAll:     "forget both",
	} {
		what[name] = c.Flags().Bool(string(name), false, usage)
	}
	return c
}

// modes are the words of mode.
var modes = []string{string(paceline.Enforce), string(paceline.Observe), string(paceline.Off)}

func newMode() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "mode [enforce|observe|off] [PROVIDER]",
		Short: "Show or set whether limits hold, are only recorded, or nothing",
		Long: `Show the mode of the running proxy, and of the providers that have another; or set
it until the next start, for all providers or for one. What the configuration says
holds again then.

  enforce  requests wait for their turn
  observe  they are sent at once, and recorded with what they would have waited,
           and why
  off      they are sent at once, and only recorded`,
		Example: `  paceline mode
  paceline mode observe
  paceline mode off groq`,
		Args: atMost(2, "a mode and a provider"),
		ValidArgsFunction: func(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return modes, cobra.ShellCompDirectiveNoFileComp
			}
			return completeProviders(c, args[1:], typed)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return showMode(c, asJSON)
			}
			if asJSON {
				return usagef("--json is for showing the mode: leave it out")
			}
			if !slices.Contains(modes, args[0]) {
				return usagef("mode %q is not known%s: it is enforce, observe or off", args[0], didYouMean(spelling.Nearest(args[0], modes), ""))
			}
			o, whose := order{Mode: args[0]}, "every provider"
			if len(args) == 2 {
				o.Provider, whose = args[1], args[1]
			}
			if err := give(c, "mode", o); err != nil {
				return err
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "mode %s for %s, until the next start\n", args[0], whose)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the mode as JSON")
	return c
}

func showMode(c *cobra.Command, asJSON bool) error {
	s, err := askStatus(c.Context())
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(c.OutOrStdout()).Encode(struct {
			Mode  string            `json:"mode"`
			Modes map[string]string `json:"modes,omitempty"`
		}{s.Mode, s.Modes})
	}
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, clean(s.Mode))
	for _, name := range sortedKeys(s.Modes) {
		fmt.Fprintf(w, "%s\t%s\n", clean(name), clean(s.Modes[name]))
	}
	return w.Flush()
}
