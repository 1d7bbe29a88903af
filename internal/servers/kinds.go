package servers

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Redis starts a Redis. The arguments are those of redis-server, as in
// "--appendonly", "yes"; without any it persists nothing.
func Redis(args ...string) (*Server, error) { return open(redis(args...)) }

// Postgres starts a PostgreSQL. The settings are those of postgresql.conf, as in
// "fsync=on"; without any it does not sync to disk, so that it survives being
// killed but no power cut.
func Postgres(settings ...string) (*Server, error) { return open(postgres(settings...)) }

// PgBouncer starts a PgBouncer in front of a PostgreSQL, in transaction mode. The
// settings are those of the [pgbouncer] section, as in "default_pool_size=2".
func PgBouncer(pg *Server, settings ...string) (*Server, error) {
	return open(pgbouncer(pg, settings...))
}

// PostgresProgram is where a program of the PostgreSQL server is, such as pgbench.
func PostgresProgram(name string) (string, error) { return find(name, "postgresql", postgresDirs()...) }

func redis(args ...string) kind {
	program, err := find("redis-server", "redis-server", "/usr/bin")
	return kind{
		name: "redis", err: err, scheme: "redis://", path: "/0", quit: "KILL",
		command: func(s *Server) []string {
			return append([]string{program, "--bind", "127.0.0.1", "--port", s.port(), "--dir", s.dir,
				"--save", "", "--appendonly", "no", "--daemonize", "no"}, args...)
		},
		ready: answersPing,
	}
}

// answersPing says whether a Redis answers, be it that it wants a password
// first, and has loaded what it had written.
func answersPing(s *Server) bool {
	c, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second))
	fmt.Fprint(c, "PING\r\n")
	answer, err := bufio.NewReader(c).ReadString('\n')
	return err == nil && !strings.HasPrefix(answer, "-LOADING")
}

func postgres(settings ...string) kind {
	dirs := postgresDirs()
	initdb, err := find("initdb", "postgresql", dirs...)
	k := kind{name: "postgres", err: err, scheme: "postgres://postgres@", path: "/postgres?sslmode=disable", quit: "QUIT"}
	if err != nil {
		return k
	}
	if initdb, k.err = filepath.EvalSymlinks(initdb); k.err != nil {
		return k
	}
	bin := filepath.Dir(initdb) // its sisters are not always linked where it is
	k.as, k.err = unprivileged("postgres", "nobody")
	k.prepare = func(s *Server) error {
		if _, err := os.Stat(s.data()); err == nil {
			return nil // tried before, on another port
		}
		cmd := exec.Command(initdb, "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
		cmd.Dir, cmd.SysProcAttr = s.dir, s.as.attr()
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("initdb: %w: %s", err, out)
		}
		return nil
	}
	k.command = func(s *Server) []string {
		args := []string{filepath.Join(bin, "postgres"), "-D", s.data()}
		for _, set := range append([]string{
			"listen_addresses=127.0.0.1", "port=" + s.port(), "unix_socket_directories=",
			"fsync=off", "full_page_writes=off", "dynamic_shared_memory_type=mmap", "max_connections=200",
		}, settings...) {
			args = append(args, "-c", set)
		}
		return args
	}
	k.ready = func(s *Server) bool {
		return exec.Command(filepath.Join(bin, "pg_isready"), "-q", "-h", "127.0.0.1", "-p", s.port()).Run() == nil
	}
	return k
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// postgresDirs are where distributions put the programs that only an
// administrator runs, the latest version first.
func postgresDirs() []string {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.Reverse(dirs)
	return append(dirs, "/usr/pgsql/bin")
}

func pgbouncer(pg *Server, settings ...string) kind {
	program, err := find("pgbouncer", "pgbouncer", "/usr/sbin")
	k := kind{name: "pgbouncer", err: err, scheme: pg.scheme, path: pg.path, quit: "INT"}
	if err == nil {
		k.as, k.err = unprivileged("postgres", "nobody")
	}
	k.prepare = func(s *Server) error {
		ini := fmt.Sprintf(`[databases]
* = host=127.0.0.1 port=%s user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 500
%s
`, pg.port(), s.port(), strings.Join(settings, "\n"))
		return os.WriteFile(s.ini(), []byte(ini), 0o644)
	}
	k.command = func(s *Server) []string { return []string{program, s.ini()} }
	k.ready = func(s *Server) bool {
		c, err := net.DialTimeout("tcp", s.Addr, time.Second)
		if err == nil {
			c.Close()
		}
		return err == nil
	}
	return k
}

func (s *Server) ini() string { return filepath.Join(s.dir, "pgbouncer.ini") }

// find looks for a program in PATH and then where distributions put it.
func find(program, install string, dirs ...string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	for _, dir := range dirs {
		if path, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return path, nil
		}
	}
	return "", Missing{program, install}
}
