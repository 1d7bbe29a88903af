// Package servers starts the servers that shared limiters live on: Redis,
// PostgreSQL and PgBouncer, the real ones, for tests and benchmarks. They listen
// on ports of the loopback that were free, keep their data in directories of
// their own, and end however the process ends that started them.
package servers

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Missing is the error of a program that is not installed.
type Missing struct{ program, install string }

func (m Missing) Error() string {
	return fmt.Sprintf("no %s here: `tools/servers install`, or apt-get install %s", m.program, m.install)
}

// A Server is a server that nobody else knows of.
type Server struct {
	// URL is where clients find it, before and after a restart.
	URL string
	// Addr is its host and port.
	Addr string

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
func (s *Server) Kill() error { return s.down("KILL") }

// Stop ends the server in good order.
func (s *Server) Stop() error { return s.down("INT") }

// Restart starts the server again where it was, with what it had written. A
// server that runs is stopped first.
func (s *Server) Restart() error {
	if err := s.down("INT"); err != nil {
		return err
	}
	err := s.up()
	// The children of a PostgreSQL that was killed find out by themselves.
	for deadline := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(deadline) &&
		strings.Contains(err.Error(), "pre-existing shared memory block"); err = s.up() {
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		return fmt.Errorf("restart %s: %w", s.name, err)
	}
	return nil
}

// Close ends the server and removes what it has written.
func (s *Server) Close() error { return errors.Join(s.down(s.quit), os.RemoveAll(s.dir)) }

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

func (s *Server) down(signal string) error {
	if s.run == nil {
		return nil
	}
	ended := s.run.end(signal)
	s.run = nil
	if !ended {
		return fmt.Errorf("%s went on for half a minute after SIG%s: %s", s.name, signal, s.log())
	}
	return nil
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
