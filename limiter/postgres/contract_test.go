package postgres_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/paceline-proxy/paceline/internal/promises"
	"github.com/paceline-proxy/paceline/internal/servertest"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/limitertest"
	"github.com/paceline-proxy/paceline/limiter/postgres"
)

// open opens a limiter that ends with the test.
func open(t testing.TB, url string, o postgres.Options) *postgres.Limiter {
	t.Helper()
	l, err := postgres.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// schema is the name of a schema of the test's own, which goes with it.
func schema(t testing.TB, server string) string {
	t.Helper()
	name := "test " + strings.NewReplacer("/", " ", "#", " ").Replace(t.Name())
	name = name[:min(len(name), 50)]
	drop := func() { execute(t, server, "drop schema if exists "+pgx.Identifier{name}.Sanitize()+" cascade") }
	drop()
	t.Cleanup(drop)
	return name
}

// execute runs statements on a connection of its own.
func execute(t testing.TB, server, statements string) {
	t.Helper()
	ctx := context.Background() // also for what is cleaned up
	c, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.PgConn().Exec(ctx, statements).ReadAll(); err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
}

// ask returns the text of a statement's only value.
func ask(t testing.TB, server, statement string) string {
	t.Helper()
	c, err := pgx.Connect(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	results, err := c.PgConn().Exec(t.Context(), statement).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return string(results[len(results)-1].Rows[0][0])
}

// with adds to the query of a URL.
func with(t testing.TB, server string, pairs ...string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // pgx takes a plus for one
	return u.String()
}

// The tolerance is that of throttles and seeds, which are told by the caller's
// clock; instants that the server tells are exact to the microsecond.
const tolerance = 2 * time.Millisecond

// keeps holds the limiter behind a URL to every case, with a process's restart
// where it has one: closed, and opened again.
func keeps(t *testing.T, server string, o postgres.Options, outcome func(limitertest.Case, error)) {
	l := open(t, server, o)
	limitertest.Run(t, limitertest.Harness{
		Open:      func(*testing.T) limiter.Limiter { return l },
		Unit:      100 * time.Millisecond,
		Tolerance: tolerance,
		Outcome:   outcome,
		Host:      func(t *testing.T, _ limiter.Limiter) limiter.Limiter { return open(t, server, o) },
		Reopen: func(t *testing.T, old limiter.Limiter) limiter.Limiter {
			if old != limiter.Limiter(l) { // the one that other cases still use stays
				if err := old.(*postgres.Limiter).Close(); err != nil {
					t.Error(err)
				}
			}
			return open(t, server, o)
		},
	})
}

// L-112, L-116, L-27, L-28, CC-26: the same cases as any limiter's. CC-27, CC-28:
// opened twice, closed and opened again. Nothing runs beside it, since the cases
// are in real time.
func TestContract(t *testing.T) {
	server := servertest.Postgres(t)
	keeps(t, server, postgres.Options{Schema: schema(t, server)}, promises.Of(t, "postgres"))
}

// One server connection serves many clients, a transaction each, and none by
// default sees what was committed since it began.
func TestContractThroughPgBouncer(t *testing.T) {
	pg := servertest.StartPostgres(t, "default_transaction_isolation=serializable")
	bouncer := servertest.StartPgBouncer(t, pg, "default_pool_size=3")
	keeps(t, bouncer.URL, postgres.Options{}, nil)
}

// CC-25: several processes that ask at once, whatever the isolation is by default,
// and behind a PgBouncer with fewer connections than they have.
func TestRace(t *testing.T) {
	for name, store := range map[string]func(*testing.T) string{
		"read committed": func(t *testing.T) string { return database(t) },
		"repeatable read": func(t *testing.T) string {
			return with(t, database(t), "default_transaction_isolation", "repeatable read")
		},
		"serializable": func(t *testing.T) string {
			return with(t, database(t), "default_transaction_isolation", "serializable")
		},
		"through PgBouncer": func(t *testing.T) string {
			return servertest.StartPgBouncer(t, servertest.StartPostgres(t), "default_pool_size=3").URL
		},
	} {
		t.Run(name, func(t *testing.T) {
			limitertest.Race(t, limitertest.RaceHarness{
				Store: store,
				Open: func(t *testing.T, store string) limiter.Limiter {
					return open(t, store, postgres.Options{Schema: "race"})
				},
				Late: 1. / 63,
			})
		})
	}
	promises.Of(t, "postgres")(promises.Together, nil)
}
