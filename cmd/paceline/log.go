package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/internal/history"
	"github.com/paceline-proxy/paceline/internal/home"
)

// followed is how many rows log --follow begins with.
const followed = 10

func newLog() *cobra.Command {
	var q history.Query
	var asJSON, follow bool
	since := period{24 * time.Hour, "24h"}
	class := oneOf{words: []string{
		string(dialect.OK), string(dialect.RateLimited), string(dialect.Overloaded), string(dialect.Unavailable),
		string(dialect.QuotaExhausted), string(dialect.Billing), string(dialect.Rejected),
	}}
	c := &cobra.Command{
		Use:   "log",
		Short: "Print the log of requests",
		Long: `Print the log of this home: a line for every attempt, cache hit and request that
was refused before it was sent, in the order in which they were sent. No proxy
needs to run. Prompts and answers are not in it.

With --json each line is an object with everything that is known; times are those
of UTC there.`,
		Example: `  paceline log --since 30m
  paceline log --follow --provider openai
  paceline log --last 20 --status 429
  paceline log --since 7d --json | jq -r 'select(.retry) | .id'`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			for name, n := range map[string]int{"last": q.Last, "status": q.Status} {
				if c.Flags().Changed(name) && n < 1 {
					return usagef("--%s is %d: give a number from 1 on", name, n)
				}
			}
			h, err := home.Find()
			if err != nil {
				return err
			}
			r, err := openLog(h)
			if err != nil {
				return err
			}
			defer r.Close()
			q.Since, q.Class = time.Now().Add(-since.Duration), dialect.Class(class.word)
			records := r.Records(c.Context(), q)
			if follow {
				if !c.Flags().Changed("since") && q.Last == 0 {
					q.Last = followed
				}
				records = r.Follow(c.Context(), q)
			}
			write := logTable(c.OutOrStdout())
			if asJSON {
				out := json.NewEncoder(c.OutOrStdout())
				write = func(r paceline.Record) error { return out.Encode(r) }
			}
			n := 0
			for record, err := range records {
				if err != nil {
					return err
				}
				n++
				if err := write(record); err != nil {
					return err
				}
			}
			if n == 0 && !follow {
				sayNothing(c, r, q.Provider, &since)
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&q.Provider, "provider", "", "print the requests to the provider `NAME` (default: all)")
	f.Var(&since, "since", "print those of the last `PERIOD`: a number of m, h, d or w")
	f.IntVar(&q.Last, "last", 0, "print the last `N` of them only")
	f.IntVar(&q.Status, "status", 0, "print those with the status `CODE` only, such as 429")
	f.Var(&class, "class", "print those that came out so only")
	f.BoolVar(&follow, "follow", false, fmt.Sprintf("begin with the last %d, unless --since or --last says otherwise, and go on until interrupted", followed))
	f.BoolVar(&asJSON, "json", false, "print JSON, one object a line")
	completeLogged(c)
	return c
}
