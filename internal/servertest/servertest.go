// Package servertest gives tests the servers they need.
//
// [Redis] and [Postgres] return servers that tests share, so a test names keys,
// schemas and databases of its own there. They are what `tools/servers run` has
// started, or are started once a test binary and end with it. [StartRedis],
// [StartPostgres] and [StartPgBouncer] start one for a single test, which may
// kill it.
//
// Where a program is missing the test is skipped, and fails where CI is set.
package servertest

import (
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/paceline-proxy/paceline/internal/servers"
)

// Redis returns the URL of the Redis that tests share. It evicts nothing, and
// nobody may flush it.
func Redis(t testing.TB) string {
	t.Helper()
	return shared(t, "PACELINE_TEST_REDIS", sharedRedis)
}

// Postgres returns the URL of a database of the PostgreSQL that tests share,
// for a user who may do anything there. It does not sync to disk.
func Postgres(t testing.TB) string {
	t.Helper()
	return shared(t, "PACELINE_TEST_POSTGRES", sharedPostgres)
}

var (
	sharedRedis    = sync.OnceValues(func() (*servers.Server, error) { return servers.Redis() })
	sharedPostgres = sync.OnceValues(func() (*servers.Server, error) { return servers.Postgres() })
)

func shared(t testing.TB, env string, start func() (*servers.Server, error)) string {
	t.Helper()
	if url := os.Getenv(env); url != "" {
		return url
	}
	s, err := start()
	check(t, err)
	return s.URL
}

// check skips a test whose server is not installed.
func check(t testing.TB, err error) {
	t.Helper()
	if _, ok := errors.AsType[servers.Missing](err); ok && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A Server is a server that one test has to itself.
type Server struct {
	*servers.Server
	t testing.TB
}

// StartRedis starts a Redis for one test; the arguments are those of
// [servers.Redis].
func StartRedis(t testing.TB, args ...string) *Server {
	t.Helper()
	s, err := servers.Redis(args...)
	return start(t, s, err)
}

// StartPostgres starts a PostgreSQL for one test; the settings are those of
// [servers.Postgres].
func StartPostgres(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := servers.Postgres(settings...)
	return start(t, s, err)
}

// StartPgBouncer starts a PgBouncer for one test; the settings are those of
// [servers.PgBouncer].
func StartPgBouncer(t testing.TB, pg *Server, settings ...string) *Server {
	t.Helper()
	s, err := servers.PgBouncer(pg.Server, settings...)
	return start(t, s, err)
}

func start(t testing.TB, s *servers.Server, err error) *Server {
	t.Helper()
	check(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &Server{s, t}
}

// Kill ends the server as a crash would: with no chance to say goodbye, to
// write, or to close connections.
func (s *Server) Kill() {
	s.t.Helper()
	s.must(s.Server.Kill())
}

// Stop ends the server in good order.
func (s *Server) Stop() {
	s.t.Helper()
	s.must(s.Server.Stop())
}

// Restart starts the server again where it was, with what it had written. A
// server that runs is stopped first.
func (s *Server) Restart() {
	s.t.Helper()
	s.must(s.Server.Restart())
}

func (s *Server) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}
