// Package servertest gives tests the servers they need: Redis, PostgreSQL and
// PgBouncer, the real ones.
//
// [Redis] and [Postgres] return servers that tests share, so a test names keys,
// schemas and databases of its own there. They are what `tools/servers run` has
// started, or are started once a test binary and end with it. [StartRedis],
// [StartPostgres] and [StartPgBouncer] start one for a single test, which may
// kill it.
//
// Where a program is missing the test is skipped, and fails where CI is set.
// Servers listen on the loopback alone, keep their data in directories of their
// own, and end however the test binary ends.
package servertest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
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
	sharedRedis    = sync.OnceValues(func() (*Server, error) { return open(redis()) })
	sharedPostgres = sync.OnceValues(func() (*Server, error) { return open(postgres()) })
)

func shared(t testing.TB, env string, start func() (*Server, error)) string {
	t.Helper()
	if url := os.Getenv(env); url != "" {
		return url
	}
	s, err := start()
	check(t, err)
	return s.URL
}

// StartRedis starts a Redis for one test. The arguments are those of
// redis-server, as in "--appendonly", "yes"; without any it persists nothing.
func StartRedis(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, redis(args...))
}

// StartPostgres starts a PostgreSQL for one test. The settings are those of
// postgresql.conf, as in "fsync=on"; without any it does not sync to disk, so
// that it survives being killed but no power cut.
func StartPostgres(t testing.TB, settings ...string) *Server {
	t.Helper()
	return start(t, postgres(settings...))
}

// StartPgBouncer starts a PgBouncer in front of a PostgreSQL for one test, in
// transaction mode. The settings are those of the [pgbouncer] section, as in
// "default_pool_size=2".
func StartPgBouncer(t testing.TB, pg *Server, settings ...string) *Server {
	t.Helper()
	return start(t, pgbouncer(pg, settings...))
}

// missing is the error of a server that is not installed.
type missing struct{ program, install string }

func (m missing) Error() string {
	return fmt.Sprintf("no %s here: `tools/servers install`, or apt-get install %s", m.program, m.install)
}

func check(t testing.TB, err error) {
	t.Helper()
	switch err.(type) {
	case nil:
	case missing:
		if os.Getenv("CI") == "" {
			t.Skip(err)
		}
		t.Fatal(err)
	default:
		t.Fatal(err)
	}
}

// A Server is a server that one test has to itself.
type Server struct {
	// URL is where clients find it, before and after a restart.
	URL string
	// Addr is its host and port.
	Addr string

	t testing.TB
	kind
	dir string
	run *run // nil while it is down
}

// A kind is how to run a sort of server.
type kind struct {
	name    string
	err     error  // why it cannot be run here
	as      *owner // nil: who runs the tests
	scheme  string // URL up to the address
	path    string // URL after the address
	quit    string // the signal after which it ends at once, leaving nothing behind
	prepare func(s *Server) error
	command func(s *Server) []string
	ready   func(s *Server) bool
}

func start(t testing.TB, k kind) *Server {
	t.Helper()
	s, err := open(k)
	check(t, err)
	s.t = t
	t.Cleanup(s.close)
	return s
}

// open starts a server with a directory and a port of its own.
func open(k kind) (*Server, error) {
	if k.err != nil {
		return nil, k.err
	}
	dir, err := os.MkdirTemp("", "paceline-"+k.name+"-")
	if err != nil {
		return nil, err
	}
	s := &Server{kind: k, dir: dir}
	if k.as != nil {
		err = os.Chown(dir, k.as.uid, k.as.gid)
	}
	// Between asking for a port and listening there, another may take it.
	for try := 0; err == nil; try++ {
		if err = s.listenAt(); err != nil {
			break
		}
		if err = s.up(); err == nil {
			return s, nil
		}
		if try == 2 || !strings.Contains(strings.ToLower(s.log()), "in use") {
			break
		}
		err = nil
	}
	os.RemoveAll(dir)
	return nil, fmt.Errorf("start %s: %w", k.name, err)
}

func (s *Server) listenAt() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	s.Addr = l.Addr().String()
	s.URL = s.scheme + s.Addr + s.path
	if s.prepare != nil {
		return s.prepare(s)
	}
	return nil
}

func (s *Server) port() string {
	_, port, _ := net.SplitHostPort(s.Addr)
	return port
}

// Kill ends the server as a crash would: with no chance to say goodbye, to
// write, or to close connections.
func (s *Server) Kill() {
	s.t.Helper()
	s.down("KILL")
}

// Stop ends the server in good order.
func (s *Server) Stop() {
	s.t.Helper()
	s.down("INT")
}

// Restart starts the server again where it was, with what it had written. A
// server that runs is stopped first.
func (s *Server) Restart() {
	s.t.Helper()
	s.down("INT")
	err := s.up()
	// The children of a PostgreSQL that was killed find out by themselves.
	for deadline := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(deadline) &&
		strings.Contains(err.Error(), "pre-existing shared memory block"); err = s.up() {
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		s.t.Fatalf("restart %s: %v", s.name, err)
	}
}

func (s *Server) close() {
	s.t.Helper()
	s.down(s.quit)
	os.RemoveAll(s.dir)
}

func (s *Server) up() error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	args := s.command(s)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = s.dir, log, log, s.as.attr()
	if s.run, err = begin(cmd, s.quit, s.dir); err != nil {
		return err
	}
	for deadline := time.Now().Add(time.Minute); !s.ready(s); {
		select {
		case <-s.run.done:
			err = fmt.Errorf("it ended: %s", s.log())
		case <-time.After(10 * time.Millisecond):
			if time.Now().Before(deadline) {
				continue
			}
			err = fmt.Errorf("not ready within a minute: %s", s.log())
		}
		s.run.end("KILL")
		s.run = nil
		return err
	}
	return nil
}

func (s *Server) down(signal string) {
	s.t.Helper()
	if s.run == nil {
		return
	}
	if !s.run.end(signal) {
		s.t.Errorf("%s went on for half a minute after SIG%s: %s", s.name, signal, s.log())
	}
	s.run = nil
}

// log is the end of what the server has said.
func (s *Server) log() string {
	text, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	lines := slices.Collect(strings.Lines(string(text)))
	return strings.Join(lines[max(0, len(lines)-20):], "")
}
