package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts run the real program: the test binary under another name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"paceline": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata"})
}

// Help fits a terminal of 100 columns.
func TestHelpFits(t *testing.T) {
	var out strings.Builder
	var all func(*cobra.Command)
	all = func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		out.Reset()
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			// Where the home is may be a long path.
			if utf8.RuneCountInString(line) > 101 && !strings.Contains(line, "$PACELINE_HOME") {
				t.Errorf("%s --help: %s", c.CommandPath(), line)
			}
		}
		for _, sub := range c.Commands() {
			if sub.Name() != "completion" { // its shells are cobra's
				all(sub)
			}
		}
	}
	all(newRoot(&out))
}
