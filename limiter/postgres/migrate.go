package postgres

import (
	"context"
	"embed"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

//go:embed schema/*.sql
var files embed.FS

// version is what the schema is when each of the files has been applied, which are
// numbered from 1.
const version = 1

// oldest is the least server_version_num we know to work.
const oldest = 120000

// checkSchema says what is wrong with a schema's name.
func checkSchema(name string) error {
	switch {
	case len(name) > 63:
		return fmt.Errorf("the PostgreSQL limiter's schema %q is longer than the 63 bytes of a name there", name)
	case strings.HasPrefix(name, "pg_"):
		return fmt.Errorf("the PostgreSQL limiter's schema %q: names with pg_ are the server's own", name)
	case strings.ContainsAny(name, "$\x00"):
		return fmt.Errorf("the PostgreSQL limiter's schema %q has a character that it cannot have", name)
	}
	return nil
}

// SQL is what creates a limiter's schema, or upgrades it, in one transaction; empty
// is the default's name. It may be applied again. A role that is to use the limiter
// without owning the schema needs the rights named at its end.
func SQL(schema string) string {
	if schema == "" {
		schema = defaultSchema
	}
	return "begin;\n" + steps(schema) + fmt.Sprintf(`commit;

-- For a role that does not own the schema, put its name for PACELINE:
-- grant usage on schema %[1]s to PACELINE;
-- grant select, insert, update, delete on all tables in schema %[1]s to PACELINE;
`, quote(schema))
}

// steps are the statements between begin and commit.
func steps(schema string) string {
	var b strings.Builder
	// Several may do so at once; a name that is there already needs no right to
	// create one.
	fmt.Fprintf(&b, "select pg_advisory_xact_lock(%d);\n", lockOf(schema))
	fmt.Fprintf(&b, "do $migrate$ begin if to_regnamespace(%s) is null then create schema %s; end if; end $migrate$;\n",
		literal(quote(schema)), quote(schema))
	for v := 1; v <= version; v++ {
		text, err := files.ReadFile(fmt.Sprintf("schema/%d.sql", v))
		if err != nil {
			panic(err) // it is part of the program
		}
		// The session variable is not shared by schemas.
		own := strings.NewReplacer(defaultSchema+".", quote(schema)+".", "paceline.lost", fmt.Sprintf("paceline.lost_%016x", uint64(lockOf(schema)))).Replace(string(text))
		fmt.Fprintf(&b, `
do $migrate$
declare
  found integer := 0;
begin
  if to_regclass(%[1]s) is not null then
    execute %[2]s into found;
  end if;
  if found < %[3]d then
%[4]s
update %[5]s.meta set version = %[3]d;
  end if;
end $migrate$;
`, literal(quote(schema)+".meta"), literal("select version from "+quote(schema)+".meta"), v, own, quote(schema))
	}
	return b.String()
}

// lockOf is the advisory lock under which a schema is migrated.
func lockOf(schema string) int64 {
	h := fnv.New64a()
	h.Write([]byte("paceline limiter " + schema))
	return int64(h.Sum64())
}

func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// Migrate creates the schema of a limiter in the database that a URL names, or
// upgrades it.
func Migrate(ctx context.Context, url string, o Options) error {
	o.Migrate, o.Durable = "auto", true
	l, err := Open(ctx, url, o)
	if err != nil {
		return err
	}
	return l.Close()
}

// migrate brings the schema to our version, or says why that cannot be.
func (l *Limiter) migrate(ctx context.Context, o Options, found int) error {
	switch {
	case found > version:
		return l.target.wrong("schema %s is of version %d, and this paceline knows up to %d: upgrade paceline", l.schema, found, version)
	case found == version:
		return nil
	case o.Migrate == "check" && found == 0:
		return l.target.wrong("schema %s is missing, and migrate is check: %s", l.schema, ownerApplies)
	case o.Migrate == "check":
		return l.target.wrong("schema %s is of version %d of %d, and migrate is check: %s", l.schema, found, version, ownerApplies)
	}
	if _, err := l.call(ctx, steps(o.Schema)); err != nil {
		return err
	}
	l.pool.Reset() // new connections are warm
	return nil
}

// look says of what version the schema is, 0 where there is none, and whether
// anybody's grants may be lost in a crash. It looks at the server on the way.
func (l *Limiter) look(ctx context.Context) (found int, lossy bool, err error) {
	const server = "select current_setting('server_version_num')"
	row, err := l.call(ctx, server+", version, lossy from "+l.schema+".meta")
	if isCode(err, "3F000", "42P01") {
		row, err = l.call(ctx, server+", 0, false")
	}
	if err != nil {
		return 0, false, err
	}
	if len(row) != 3 {
		return 0, false, l.target.wrong("schema %s says nothing of its version: restore it, or drop it", l.schema)
	}
	if n, err := strconv.Atoi(string(row[0])); err != nil || n < oldest {
		return 0, false, l.target.wrong("the server is version %d, and the limiter needs %d or later", n/10000, oldest/10000)
	}
	found, err = strconv.Atoi(string(row[1]))
	return found, string(row[2]) == "t", err
}
