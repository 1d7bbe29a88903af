// Package home is the directory where one proxy keeps what outlives it: its
// counts, its log, what providers taught, its token, and where it listens. It
// is also how every other process of the user finds that proxy.
package home

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// A Home is one directory. At most one proxy at a time sends from it.
type Home struct {
	// Dir is its absolute path.
	Dir string
	// Logger hears of what was found broken and mended. nil is silence.
	Logger *slog.Logger
}

// Find returns the home of this user. It makes nothing; see [Home.Make].
func Find() (Home, error) {
	dir, err := FindIn(os.Getenv)
	if err != nil {
		return Home{}, err
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Home{}, fmt.Errorf("PACELINE_HOME is %q: %w", dir, err)
	}
	return Home{Dir: abs}, nil
}

// FindIn returns the directory of the home that an environment names:
// $PACELINE_HOME, which may be relative, else paceline in the user's data
// directory.
func FindIn(getenv func(string) string) (string, error) {
	if dir := getenv("PACELINE_HOME"); dir != "" {
		return dir, nil
	}
	data, err := dataDir(getenv)
	if err != nil {
		return "", fmt.Errorf("this user has no data directory (%w): set PACELINE_HOME to a directory of your own", err)
	}
	return filepath.Join(data, "paceline"), nil
}

// Usual is the directory of those who set no PACELINE_HOME.
func Usual() (string, error) {
	return FindIn(func(name string) string {
		if name == "PACELINE_HOME" {
			return ""
		}
		return os.Getenv(name)
	})
}

// dataDir is where programs of this user keep their data.
func dataDir(getenv func(string) string) (string, error) {
	need := func(name string, below ...string) (string, error) {
		dir := getenv(name)
		if dir == "" {
			return "", fmt.Errorf("%s is not set", name)
		}
		return filepath.Join(append([]string{dir}, below...)...), nil
	}
	switch runtime.GOOS {
	case "windows":
		return need("LocalAppData")
	case "darwin", "ios":
		return need("HOME", "Library", "Application Support")
	}
	if dir := getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	return need("HOME", ".local", "share")
}

// Make makes the directory, for its owner only, and finds out whether files
// can be written there.
func (h Home) Make() error {
	if err := os.MkdirAll(h.Dir, 0o700); err != nil {
		return h.unusable(err)
	}
	probe, err := os.CreateTemp(h.Dir, ".probe-*")
	if err != nil {
		return h.unusable(err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// unusable says why nothing can be kept in the home, and what to do.
func (h Home) unusable(err error) error {
	const other = "or set PACELINE_HOME to another directory"
	switch {
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
		return fmt.Errorf("the home %s is not a directory: move the file away, %s: %w", h.Dir, other, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("the home %s cannot be written: make it yours (chown, chmod 700), %s: %w", h.Dir, other, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("the disk of the home %s is full: make room, %s: %w", h.Dir, other, err)
	}
	return fmt.Errorf("the home %s cannot be used: %w", h.Dir, err)
}

// Journal is where the limiter writes what it granted.
func (h Home) Journal() string { return filepath.Join(h.Dir, "journal") }

// Log is the database of attempts.
func (h Home) Log() string { return filepath.Join(h.Dir, "log.db") }

// RateLimits is the directory of what providers said of each caller key.
func (h Home) RateLimits() string { return filepath.Join(h.Dir, "rate-limits") }

// Places holds the places in line that a proxy hands to its successor.
func (h Home) Places() string { return filepath.Join(h.Dir, "places.json") }

// Held says what a drained proxy still runs, for its successor.
func (h Home) Held() string { return filepath.Join(h.Dir, "held.json") }

// Config is the configuration that is used where no other is named.
func (h Home) Config() string { return filepath.Join(h.Dir, "paceline.yaml") }

// ServerFile says where the proxy of the home listens.
func (h Home) ServerFile() string { return filepath.Join(h.Dir, "server.json") }

// TokenFile holds the home's own token.
func (h Home) TokenFile() string { return filepath.Join(h.Dir, "token") }

// ServeLog is what a proxy without a terminal writes its log to.
func (h Home) ServeLog() string { return filepath.Join(h.Dir, "serve.log") }

func (h Home) lockFile() string { return filepath.Join(h.Dir, "lock") }
func (h Home) execFile() string { return filepath.Join(h.Dir, "execs") }

func (h Home) logger() *slog.Logger {
	if h.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return h.Logger
}
