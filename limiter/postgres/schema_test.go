package postgres_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/paceline-proxy/paceline/internal/servertest"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/postgres"
)

var once = limiter.Request{Key: "caller", Limits: []limiter.Limit{{Key: "bucket", Calls: 1, Per: time.Hour}}}

// granted asks once and wants this answer.
func granted(t testing.TB, l limiter.Limiter, r limiter.Request, want bool) limiter.Decision {
	t.Helper()
	d, err := l.Acquire(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if d.Granted != want {
		t.Fatalf("granted %t, want %t: %+v", d.Granted, want, d)
	}
	return d
}

// L-25, L-26: opening makes the schema, of the default's name where none is given.
// L-24: everything else is in the URL.
func TestOpenCreatesSchema(t *testing.T) {
	t.Parallel()
	server := database(t)
	if got := ask(t, server, "select to_regnamespace('paceline_limiter') is null"); got != "t" {
		t.Fatal("it is there before it is opened")
	}
	granted(t, open(t, server, postgres.Options{}), once, true)
	granted(t, open(t, with(t, server, "schema", "paceline_limiter"), postgres.Options{}), once, false)
	// Another schema has counts of its own, whatever its name needs in quotes.
	for _, name := range []string{`We"ird 'name'; drop schema paceline_limiter; --`, "select", "Ünï.cødé"} {
		granted(t, open(t, server, postgres.Options{Schema: name}), once, true)
		granted(t, open(t, with(t, server, "schema", name), postgres.Options{}), once, false)
		if got := ask(t, server, "select count(*) from "+pgx.Identifier{name}.Sanitize()+".bucket"); got != "1" {
			t.Errorf("%s buckets in schema %s", got, name)
		}
	}
	if got := ask(t, server, "select count(*) from paceline_limiter.bucket"); got != "1" {
		t.Errorf("%s buckets in the first schema, want 1", got)
	}
}

// database is the URL of a new database on the shared server.
func database(t testing.TB) string {
	t.Helper()
	server := servertest.Postgres(t)
	name := fmt.Sprintf("test_%x", time.Now().UnixNano())
	execute(t, server, "create database "+name)
	t.Cleanup(func() { execute(t, server, "drop database if exists "+name+" with (force)") })
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

func TestMigrationIsRepeatable(t *testing.T) {
	t.Parallel()
	server := database(t)
	for range 2 {
		execute(t, server, postgres.SQL("printed"))
		if err := postgres.Migrate(t.Context(), server, postgres.Options{Schema: "applied"}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"printed", "applied"} {
			granted(t, open(t, server, postgres.Options{Schema: name, Migrate: "check"}), limiter.Request{Key: "c"}, true)
		}
	}
	granted(t, open(t, server, postgres.Options{Schema: "printed"}), once, true)
	execute(t, server, postgres.SQL("printed"))
	granted(t, open(t, server, postgres.Options{Schema: "printed"}), once, false)

	printed, applied := ask(t, server, describe("printed")), ask(t, server, describe("applied"))
	if printed != applied || len(printed) < 1000 {
		t.Errorf("what SQL prints is not what Migrate applies:\n%s\n%s", printed, applied)
	}
}

// describe is a statement for all columns and functions of a schema.
func describe(schema string) string {
	return `select string_agg(line, E'\n' order by line) from (
		select table_name || ' ' || column_name || ' ' || data_type line from information_schema.columns where table_schema = '` + schema + `'
		union all select regexp_replace(replace(pg_get_functiondef(p.oid), '` + schema + `', ''), 'paceline[.]lost_[0-9a-f]+', '', 'g') from pg_proc p where pronamespace = '` + schema + `'::regnamespace) d`
}

func TestOpenTogetherMigratesOnce(t *testing.T) {
	t.Parallel()
	server := database(t)
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for range cap(errs) {
		wg.Go(func() {
			l, err := postgres.Open(t.Context(), server, postgres.Options{})
			if err == nil {
				err = l.Close()
			}
			errs <- err
		})
	}
	wg.Wait()
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestMigrateModes(t *testing.T) {
	t.Parallel()
	server := database(t)
	ctx := t.Context()
	if _, err := postgres.Open(ctx, server, postgres.Options{Migrate: "check"}); !says(err, "migrate is check", "paceline limiter migrate --print") {
		t.Errorf("check without a schema: %v", err)
	}
	if _, err := postgres.Open(ctx, with(t, server, "migrate", "off"), postgres.Options{}); !says(err, "lacks the limiter's schema", "paceline limiter migrate --print") {
		t.Errorf("off without a schema: %v", err)
	}
	if _, err := postgres.Open(ctx, server, postgres.Options{Migrate: "never"}); !says(err, "auto, check or off", `"never"`) {
		t.Errorf("a mode there is not: %v", err)
	}
	for _, name := range []string{"pg_mine", strings.Repeat("x", 64), "a$body$b"} {
		if _, err := postgres.Open(ctx, server, postgres.Options{Schema: name}); !says(err, "schema", name) {
			t.Errorf("schema %q: %v", name, err)
		}
	}
	open(t, server, postgres.Options{})
	granted(t, open(t, server, postgres.Options{Migrate: "check"}), once, true)
	granted(t, open(t, server, postgres.Options{Migrate: "off"}), once, false)

	// One that a later paceline has upgraded.
	execute(t, server, "update paceline_limiter.meta set version = 1000")
	for _, mode := range []string{"auto", "check"} {
		if _, err := postgres.Open(ctx, server, postgres.Options{Migrate: mode}); !says(err, "version 1000", "upgrade paceline") {
			t.Errorf("a newer schema, %s: %v", mode, err)
		}
	}
	granted(t, open(t, server, postgres.Options{Migrate: "off"}), once, false)
}

// says is whether an error has these words in it.
func says(err error, words ...string) bool {
	if err == nil {
		return false
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			return false
		}
	}
	return true
}

// A role that may not create anything is told what to do, and may use what the
// owner has made.
func TestRoleWithoutDDL(t *testing.T) {
	t.Parallel()
	server := database(t)
	ctx := t.Context()
	role := fmt.Sprintf("guest_%x", time.Now().UnixNano())
	execute(t, server, "create role "+role+" login password 'sesame'")
	t.Cleanup(func() { execute(t, server, "drop owned by "+role+"; drop role "+role) })
	c, err := pgx.ParseConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	guest := fmt.Sprintf("postgres://%s:sesame@%s:%d/%s?sslmode=disable", role, c.Host, c.Port, c.Database)

	if _, err := postgres.Open(ctx, guest, postgres.Options{}); !says(err, "denies user", role, "paceline limiter migrate --print") {
		t.Errorf("auto without the right: %v", err)
	}
	execute(t, server, postgres.SQL(""))
	if _, err := postgres.Open(ctx, guest, postgres.Options{}); !says(err, "denies user", role) {
		t.Errorf("without a right to the schema: %v", err)
	}
	// The rights as they are printed.
	_, grants, _ := strings.Cut(postgres.SQL(""), "commit;")
	var lines []string
	for line := range strings.Lines(grants) {
		if line, ok := strings.CutPrefix(line, "-- grant"); ok {
			lines = append(lines, "grant"+strings.ReplaceAll(line, "PACELINE", role))
		}
	}
	execute(t, server, strings.Join(lines, ""))
	for _, mode := range []string{"auto", "check", "off"} {
		l := open(t, guest, postgres.Options{Migrate: mode})
		everything(t, l, mode)
	}
}

// everything uses each method once.
func everything(t *testing.T, l *postgres.Limiter, key string) {
	t.Helper()
	ctx := context.Background()
	limits := []limiter.Limit{{Key: key, Calls: 9, Per: time.Minute, Concurrent: 1, Cost: 2}}
	d := granted(t, l, limiter.Request{Key: key, Limits: limits, Hold: time.Minute}, true)
	_, peeked := l.Peek(ctx, key, limits)
	_, got := l.Get(ctx, key)
	for what, err := range map[string]error{
		"settle":   l.Settle(ctx, d.Permit, []limiter.Cost{{Key: key, Cost: 1}}),
		"renew":    l.Renew(ctx, []string{d.Permit}, time.Minute),
		"release":  l.Release(ctx, d.Permit),
		"throttle": l.Throttle(ctx, key, time.Now().Add(time.Minute)),
		"open":     l.Open(ctx, key),
		"peek":     peeked,
		"seed":     l.Seed(ctx, limits, time.Now()),
		"get":      got,
		"update":   l.Update(ctx, key, func([]byte) []byte { return []byte("x") }),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
