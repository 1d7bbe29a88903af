// Package modules starts and reaches limiters that others have built: programs
// in folders of the home, each with a manifest, that speak adapter protocol 2.
//
// A module is told its port and its secret in the environment (PORT and
// PACELINE_SLOT_SECRET), or prints its URL as the first line of its output. It
// is watched, started again where it ends, and ends with its host. What it
// writes is in the host's log, without the values of its secret settings.
package modules

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/paceline-proxy/paceline/internal/config"
	"github.com/paceline-proxy/paceline/internal/spelling"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/slothttp"
)

// Dir is the folder of a module of a home.
func Dir(home, name string) string { return filepath.Join(home, "modules", name) }

// Load reads the manifest of a module.
func Load(home, name string) (*config.Module, error) {
	if name == "" || name != filepath.Base(name) || name == "." || name == ".." {
		return nil, fmt.Errorf("%q is no name of a module: give that of a folder in %s", name, Dir(home, ""))
	}
	if _, err := os.Stat(Dir(home, name)); errors.Is(err, fs.ErrNotExist) {
		return nil, unknown(home, name)
	}
	return config.LoadModule(Dir(home, name))
}

func unknown(home, name string) error {
	var names []string
	entries, _ := os.ReadDir(Dir(home, "")) // without it there are none
	for _, e := range entries {
		names = append(names, e.Name())
	}
	advice := fmt.Sprintf("put its folder, with its %s, at %s", config.ManifestFile, Dir(home, name))
	if near := spelling.Nearest(name, names); near != "" {
		return fmt.Errorf("there is no module %s (did you mean %s?); %s", name, near, advice)
	}
	return fmt.Errorf("there is no module %s; %s", name, advice)
}

// Open starts a module of a home, or reaches it at its URL, and opens it with
// its settings. Closing the limiter, which is an io.Closer, ends the module.
// The limiter has the powers that the module has.
func Open(ctx context.Context, home, name string, logger *slog.Logger) (limiter.Limiter, error) {
	m, err := Load(home, name)
	if err != nil {
		return nil, err
	}
	settings, err := m.LoadSettings()
	if err != nil {
		return nil, err
	}
	return OpenWith(ctx, m, settings, logger)
}

// OpenWith is Open with settings that are not those of the file.
func OpenWith(ctx context.Context, m *config.Module, settings map[string]config.Value, logger *slog.Logger) (limiter.Limiter, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	h := &host{
		module: m,
		logger: logger.With("module", m.Name),
		within: readyWithin,
		pause:  firstPause,
		secret: os.Getenv("PACELINE_SLOT_SECRET"),
	}
	values := make(map[string]string)
	for name, v := range settings {
		if v.Value != "" {
			values[name] = v.Value
		}
	}
	o := slothttp.Options{Settings: values, Name: "the limiter module " + m.Name, Down: "it may be starting again: see the log"}
	if len(m.Command) == 0 {
		o.Down = "start it, or correct url: in " + filepath.Join(m.Dir, config.ManifestFile)
		return h.dial(ctx, m.URL, o)
	}
	h.secret, o.Exclusive, o.Closed = rand.Text(), true, h.close
	h.hidden = newHidden(m, values, h.secret)
	return h.open(ctx, o)
}

const (
	// readyWithin is how long a module has for answering once it is started.
	readyWithin = 15 * time.Second
	// A module that ends is started again after a pause that doubles, and is
	// short again once it has run for a while.
	firstPause = 100 * time.Millisecond
	longPause  = 30 * time.Second
	steady     = time.Minute
)

// A host keeps one module running.
type host struct {
	module *config.Module
	logger *slog.Logger
	within time.Duration
	pause  time.Duration
	secret string
	hidden hidden

	stop    context.CancelFunc
	stopped chan struct{} // closed when nothing runs any more
}

// dial opens the limiter behind a URL.
func (h *host) dial(ctx context.Context, url string, o slothttp.Options) (limiter.Limiter, error) {
	ctx, cancel := context.WithTimeout(ctx, h.within)
	defer cancel()
	o.Secret = h.secret
	c, err := slothttp.Dial(ctx, url, o)
	if err != nil {
		return nil, err
	}
	return c.Limiter(), nil
}

// open starts the module and opens it.
func (h *host) open(ctx context.Context, o slothttp.Options) (limiter.Limiter, error) {
	p, err := h.start(ctx)
	if err != nil {
		return nil, err
	}
	dialing, cancel := context.WithTimeout(ctx, h.within)
	defer cancel()
	o.Secret = h.secret
	c, err := slothttp.Dial(dialing, p.url, o)
	if err != nil {
		p.end()
		return nil, fmt.Errorf("%w%s", err, p.said())
	}
	h.logger.Info("the limiter module answers at", "url", h.hidden.in(p.url))
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	h.stop, h.stopped = stop, make(chan struct{})
	go h.watch(watching, p, c)
	return c.Limiter(), nil
}

// close ends the module.
func (h *host) close() error {
	h.stop()
	<-h.stopped
	return nil
}

// watch starts the module again wherever it ends, until ctx does.
func (h *host) watch(ctx context.Context, p *process, c *slothttp.Client) {
	defer close(h.stopped)
	pause := h.pause
	for {
		began := time.Now()
		select {
		case <-ctx.Done():
			p.end()
			return
		case <-p.exited:
		}
		if time.Since(began) > steady {
			pause = h.pause
		}
		h.logger.Warn("the limiter module has ended and is started again", "how", p.how(), "said", p.tail(), "in", pause)
		for p = nil; p == nil; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, longPause)
			var err error
			if p, err = h.start(ctx); err != nil && ctx.Err() == nil {
				h.logger.Error("the limiter module cannot be started again", "error", err, "next", pause)
			}
		}
		if err := c.Move(p.url); err != nil { // it has answered there
			h.logger.Error("the limiter module is lost", "error", err)
		}
		h.logger.Info("the limiter module runs again", "url", h.hidden.in(p.url))
	}
}

// hidden are texts that must not be shown, the longest first.
type hidden []string

// newHidden are the secret settings of a module, the passwords inside them, and
// the secret that it was given.
func newHidden(m *config.Module, values map[string]string, secret string) hidden {
	h := hidden{secret}
	for _, s := range m.Settings {
		v := values[s.Name]
		if !s.Secret || v == "" {
			continue
		}
		h = append(h, v)
		if u, err := url.Parse(v); err == nil {
			password, _ := u.User.Password()
			_, escaped, _ := strings.Cut(u.User.String(), ":")
			h = append(h, password, escaped)
		}
	}
	h = slices.DeleteFunc(h, func(s string) bool { return s == "" })
	slices.SortFunc(h, func(a, b string) int { return len(b) - len(a) })
	return h
}

func (h hidden) in(s string) string {
	for _, secret := range h {
		s = strings.ReplaceAll(s, secret, "(hidden)")
	}
	return s
}
