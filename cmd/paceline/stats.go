package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/internal/history"
	"github.com/paceline-proxy/paceline/internal/home"
	"github.com/paceline-proxy/paceline/internal/spelling"
)

func newStats() *cobra.Command {
	var q paceline.StatsQuery
	var asJSON, ofProxy bool
	since := period{24 * time.Hour, "24h"}
	c := &cobra.Command{
		Use:   "stats",
		Short: "Count what was sent, refused and waited for",
		Long: `Count the requests in the log of this home: a row for each model, one for each
hour or day, and the total. No proxy needs to run.

  sent      attempts sent upstream, repeats included: ok + 429 + err + tmout
  ok        answered
  429       refused for a rate
  429<lim   those of them that came while our sending was within every
            configured rate: somebody else used the key, or the limits are
            lower than configured
  err       anything else that went wrong, clients that left included
  retry     attempts after the first of their request
  tmout     cut by a duration cap
  cache     answered from the cache, saved: made unnecessary by batching
  q avg s   how long a sent attempt stood in our line on average, in seconds
  peak/min  the most sent within any 60 s, avg/min: for each minute in which
            anything was sent

An attempt belongs to the minute in which it was sent, however long it took.
Columns without anything in them are left out where the terminal is narrow.`,
		Example: `  paceline stats
  paceline stats --provider openai --since 7d
  paceline stats --since 2h --json | jq .total.r429
  paceline stats --proxy`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := home.Find()
			if err != nil {
				return err
			}
			if ofProxy {
				for _, other := range []string{"provider", "since", "by", "json"} {
					if c.Flags().Changed(other) {
						return usagef("--proxy prints what the proxy says as it is: leave --%s out", other)
					}
				}
				return printProxyStats(c, h)
			}
			q.Until = time.Now()
			q.Since, q.Zone = q.Until.Add(-since.Duration), time.Local
			r, err := openLog(h)
			if err != nil {
				return err
			}
			defer r.Close()
			s, err := r.Stats(c.Context(), q)
			if err != nil {
				return err
			}
			if len(s.Models) == 0 {
				sayNothing(c, r, q.Provider, &since)
			}
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(s)
			}
			return printStats(c.OutOrStdout(), s, q)
		},
	}
	f := c.Flags()
	f.StringVar(&q.Provider, "provider", "", "count the requests to the provider `NAME` (default: all)")
	f.Var(&since, "since", "count the last `PERIOD`: a number of m, h, d or w")
	f.Var(&q.By, "by", "a row for each of these (default: hour, beyond two days day)")
	f.BoolVar(&asJSON, "json", false, "print it as JSON")
	f.BoolVar(&ofProxy, "proxy", false, "print the running proxy's /stats as it is, and nothing from the log")
	completeLogged(c)
	return c
}

// A period is a flag that says how far back to look.
type period struct {
	time.Duration
	text string
}

// Set takes a period such as 24h or 7d.
func (p *period) Set(text string) error {
	if text == "" {
		return errors.New("give a whole number of m, h, d or w, such as 24h")
	}
	d, err := paceline.ParseStatsPeriod(text)
	if err == nil {
		*p = period{d, text}
	}
	return err
}

func (p *period) String() string { return p.text }

// Type names the value in a command's help.
func (p *period) Type() string { return "period" }

// openLog opens the log of a home to read.
func openLog(h home.Home) (*history.Reader, error) {
	r, err := history.OpenReader(h.Log())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no requests logged yet: there is no %s. Send one through the proxy (paceline exec -- CMD), or set PACELINE_HOME if the proxy has another home", h.Log())
	}
	return r, err
}

// sayNothing says that there are no rows, which a mistyped name may be why of.
func sayNothing(c *cobra.Command, r *history.Reader, provider string, since *period) {
	what := ""
	if provider != "" {
		what = fmt.Sprintf(" for %q%s", provider, didYouMean(spelling.Nearest(provider, loggedProviders(c.Context(), r)), ""))
	}
	fmt.Fprintf(c.ErrOrStderr(), "paceline: nothing was logged%s in the last %v\n", what, since)
}

// loggedProviders are those that the proxy knew when it read its configuration.
func loggedProviders(ctx context.Context, r *history.Reader) []string {
	names := make(map[string]bool)
	for _, p := range paceline.BuiltIn() {
		names[p.Name] = true
	}
	if r != nil {
		limits, _ := r.Limits(ctx) // names are not worth an error
		for name := range limits {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// printStats writes a report for people, and a picture of it to a terminal.
func printStats(w io.Writer, s *paceline.Stats, q paceline.StatsQuery) error {
	at, ok := screen(w)
	if err := s.WriteTable(w, at.columns); err != nil || !ok {
		return err
	}
	_, err := io.WriteString(w, sparks(s, q, at.columns))
	return err
}

// printProxyStats prints what the running proxy says of itself.
func printProxyStats(c *cobra.Command, h home.Home) error {
	var answer []byte
	if err := h.Client().Call(c.Context(), http.MethodGet, "/stats", nil, &answer); err != nil {
		return err
	}
	_, err := fmt.Fprintln(c.OutOrStdout(), strings.TrimSpace(string(answer)))
	return err
}

// completeLogged lets shells complete --provider.
func completeLogged(c *cobra.Command) {
	// It fails only for flags that there are not.
	_ = c.RegisterFlagCompletionFunc("provider", func(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var r *history.Reader
		if h, err := home.Find(); err == nil {
			if r, err = openLog(h); err == nil {
				defer r.Close()
			}
		}
		return loggedProviders(context.Background(), r), cobra.ShellCompDirectiveNoFileComp
	})
}
