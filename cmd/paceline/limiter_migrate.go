package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/paceline-proxy/paceline/internal/slot/address"
	"github.com/paceline-proxy/paceline/limiter/postgres"
)

func newLimiterMigrate() *cobra.Command {
	var at string
	var print bool
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Create or upgrade the schema of a limiter in PostgreSQL",
		Long: `Create the schema that a limiter keeps in PostgreSQL, or upgrade it. Whoever opens
one does that, too; this is for where only another role may: give the others
?migrate=check in their address.

With --print it prints the SQL instead, with the rights that a role needs which
does not own the schema. The schema is that of the address, ?schema=NAME, or
paceline_limiter.`,
		Example: `  paceline limiter migrate --url postgres://owner@db/limits
  paceline limiter migrate --print --url postgres://db/limits?schema=mine | psql`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return migrate(c.Context(), c.OutOrStdout(), cmp.Or(at, os.Getenv(limiterVariable)), print)
		},
	}
	c.Flags().StringVar(&at, "url", "", "`URL` of the limiter, postgres://HOST/DATABASE (default $PACELINE_LIMITER_URL)")
	c.Flags().BoolVar(&print, "print", false, "print the SQL and change nothing")
	return c
}

func migrate(ctx context.Context, out io.Writer, at string, print bool) error {
	switch {
	case at == "" && print:
		_, err := io.WriteString(out, postgres.SQL(""))
		return err
	case at == "":
		return usagef("no database is named: give --url postgres://HOST/DATABASE, or set %s", limiterVariable)
	}
	if f := address.Check(at); f != nil {
		return usageError{f.Error()}
	}
	if s := address.Scheme(at); s != "postgres" && s != "postgresql" {
		return usagef("a limiter of %s: has no schema to migrate: give postgres://HOST/DATABASE", s)
	}
	// What an address says of migrating is for those who open it.
	base, settings, _ := strings.Cut(at, "?")
	query, err := url.ParseQuery(settings)
	if err != nil {
		return usagef("the settings behind ? in the address cannot be read")
	}
	query.Del("migrate")
	schema := query.Get("schema")
	if print {
		_, err := io.WriteString(out, postgres.SQL(schema))
		return err
	}
	if len(query) > 0 {
		base += "?" + query.Encode()
	}
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	if err := postgres.Migrate(ctx, base, postgres.Options{}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "the schema %s of %s is up to date\n", cmp.Or(schema, "paceline_limiter"), address.Redacted(base))
	return err
}
