package home

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/gofrs/flock"
)

// A Lock is the right to send from a home. One process on one machine has it;
// it ends with the process at the latest.
type Lock struct {
	file *flock.Flock
	at   fs.FileInfo
}

// Unlock gives the right back.
func (l *Lock) Unlock() error { return l.file.Unlock() }

// Held reports whether the lock is still that of its home: where somebody has
// removed the file, another process can have one of the same name.
func (l *Lock) Held() bool {
	there, err := os.Stat(l.file.Path())
	return err == nil && os.SameFile(l.at, there)
}

// A Taken error says that another process may send from the home.
type Taken struct {
	// Server is who, as far as it is known.
	Server Server
	// Elsewhere is whether it runs on another machine.
	Elsewhere bool
	file      string
}

func (t *Taken) Error() string {
	switch {
	case t.Elsewhere:
		return fmt.Sprintf("a proxy of machine %s has this home (%v); if it runs no more, remove %s", t.Server.Hostname, t.Server, t.file)
	case t.Server.PID == 0:
		return "another process is starting a proxy for this home"
	}
	return fmt.Sprintf("a proxy runs for this home already (%v); use it, end it with paceline stop, or start with --replace", t.Server)
}

// TakenBy is the error of a home that a server has.
func (h Home) TakenBy(s Server) *Taken {
	return &Taken{Server: s, Elsewhere: s.elsewhere(), file: h.ServerFile()}
}

// Lock takes the right to send from the home, or returns [*Taken] at once.
// What a dead proxy has left in server.json does not count.
func (h Home) Lock() (*Lock, error) {
	l := &Lock{file: flock.New(h.lockFile(), flock.SetPermissions(0o600))}
	ok, err := l.file.TryLock()
	if ok && err == nil {
		l.at, err = os.Stat(l.file.Path())
	}
	switch {
	case err != nil:
		return nil, h.unusable(err)
	case !ok:
		return nil, h.TakenBy(h.holder())
	}
	s, err := h.Recorded()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.logger().Warn("server.json could not be read; no proxy runs, so it is written anew", "error", err)
	}
	if err != nil {
		return l, nil
	}
	// Where locks do not reach other machines or do nothing, the entry counts.
	if s, live := h.Live(context.Background()); live && s.PID != os.Getpid() {
		return nil, errors.Join(h.TakenBy(s), l.Unlock())
	}
	h.logger().Info("a proxy that is gone has left its server.json", "server", s)
	return l, nil
}

// holder is who has the lock. It has been taken before it was written down, so
// a moment is given.
func (h Home) holder() Server {
	for range 20 {
		if s, err := h.Recorded(); err == nil && Exists(s.PID) {
			return s
		}
		time.Sleep(50 * time.Millisecond)
	}
	return Server{}
}
