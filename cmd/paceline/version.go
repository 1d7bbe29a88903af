package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// A build says what this binary is.
type build struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	b := build{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		b.Version = info.Main.Version
	}
	return b
}

func (b build) String() string {
	return fmt.Sprintf("paceline %s (%s, %s)", b.Version, b.Go, b.Platform)
}

func newVersion() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print which paceline this is",
		Long: `Print the version of this binary, the Go it was built with and the platform it
was built for. A build from a working copy without a version is "devel".`,
		Example: `  paceline version
  paceline version --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			b := thisBuild()
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(b)
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), b)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return c
}
