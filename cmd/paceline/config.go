package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/internal/config"
	"github.com/paceline-proxy/paceline/internal/spelling"
)

func newConfig() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Show the configuration, or what one may hold",
		Long: `Show the configuration that is in force, or a schema of what one may hold. What is
wrong with one, check says.`,
		Example: `  paceline config show
  paceline config schema > paceline.schema.json`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(c, args[0])
			}
			return c.Help()
		},
		Args: cobra.ArbitraryArgs,
	}
	c.AddCommand(newConfigShow(), newConfigSchema())
	return c
}

func newConfigShow() *cobra.Command {
	var asJSON bool
	var file string
	c := &cobra.Command{
		Use:   "show [PROVIDER]",
		Short: "Print the configuration with every default, secrets hidden",
		Long: `Print a configuration with every default filled in and secrets hidden; or the
entry of one provider, of those that are built in, too. Without --config it is
$PACELINE_CONFIG, or the file of the proxy that runs, or paceline.yaml in the home;
which one is said on standard error.`,
		Example: `  paceline config show
  paceline config show groq
  paceline config show --config paceline.yaml --json | jq .providers`,
		Args:              atMost(1, "one provider"),
		ValidArgsFunction: completeProviders,
		RunE: func(c *cobra.Command, args []string) error {
			f, err := findConfig(c.Context(), file)
			if err != nil {
				return err
			}
			if f.how != "" {
				fmt.Fprintf(c.ErrOrStderr(), "paceline: %v\n", f)
			}
			conf, err := config.Load(f.path)
			if _, none := errors.AsType[config.Unreadable](err); none {
				return err
			}
			if err != nil {
				return fmt.Errorf("the configuration has faults:\n%w", err)
			}
			asked, err := conf.Effective()
			if err != nil {
				return err
			}
			var shown interface {
				YAML() ([]byte, error)
				JSON() ([]byte, error)
			} = asked
			if len(args) > 0 {
				p, ok, err := conf.Provider(args[0])
				if err != nil {
					return err
				}
				if !ok {
					return unknownProvider(args[0], providerNames(conf))
				}
				shown = p
			}
			b, err := shown.YAML()
			if asJSON {
				b, err = shown.JSON()
			}
			if err != nil {
				return err
			}
			_, err = c.OutOrStdout().Write(b)
			return err
		},
	}
	c.Flags().StringVar(&file, "config", "", "read the configuration from `FILE`")
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return c
}

func newConfigSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print a JSON Schema of the configuration, for editors",
		Long: `Print a JSON Schema of the configuration. Editors that know it complete keys, show
what they are for, and mark what is wrong. Most take a first line such as
  # yaml-language-server: $schema=paceline.schema.json`,
		Example: `  paceline config schema > paceline.schema.json`,
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := c.OutOrStdout().Write(config.Schema())
			return err
		},
	}
}

// providerNames are those of a configuration and those built in.
func providerNames(c *config.Config) []string {
	names := make(map[string]bool)
	for _, p := range c.Providers {
		names[p.Name] = true
	}
	for _, p := range paceline.BuiltIn() {
		names[p.Name] = true
	}
	return sortedKeys(names)
}

func unknownProvider(name string, names []string) error {
	return usagef("there is no provider %q%s: there are %s", name, didYouMean(spelling.Nearest(name, names), ""), strings.Join(names, ", "))
}

// completeProviders completes the name of a provider.
func completeProviders(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	conf := config.Default()
	if f, err := findConfig(c.Context(), ""); err == nil {
		if read, err := config.Load(f.path); err == nil {
			conf = read
		}
	}
	return providerNames(conf), cobra.ShellCompDirectiveNoFileComp
}

func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
