package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/paceline-proxy/paceline/internal/daemon"
	"github.com/paceline-proxy/paceline/internal/home"
	"github.com/paceline-proxy/paceline/internal/slot"
	"github.com/paceline-proxy/paceline/internal/slot/address"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/slothttp"
)

// The environment of a limiter that is served.
const (
	secretVariable  = "PACELINE_SLOT_SECRET"
	limiterVariable = "PACELINE_LIMITER_URL"
)

func newLimiter() *cobra.Command {
	c := &cobra.Command{
		Use:   "limiter",
		Short: "Serve a limiter to programs in any language, or prepare its database",
		Long: `Serve a limiter over HTTP, so that programs in any language can ask before they
call: acquire, release and throttle, in adapter protocol 2. docs/slot.md shows it
with curl.`,
		Example: `  paceline limiter serve --url memory
  paceline limiter serve --url postgres://db/limits --listen 0.0.0.0:8793
  paceline limiter migrate --print`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(c, args[0])
			}
			return c.Help()
		},
	}
	c.AddCommand(newLimiterServe(), newLimiterMigrate())
	return c
}

// limiterFlags are what limiter serve is told.
type limiterFlags struct {
	url    string
	listen string
}

func newLimiterServe() *cobra.Command {
	var f limiterFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve a limiter over HTTP",
		Long: `Serve a limiter over HTTP in adapter protocol 2, until Ctrl-C or SIGTERM. Its URL is
the first line of standard output.

--url says what counts: memory, sqlite:PATH, redis://HOST, postgres://HOST/DATABASE,
http://HOST:PORT, unix:PATH or module:NAME.
Instead of --url, which other users can see, it may be in the environment as
PACELINE_LIMITER_URL. Without either it is what the settings of open say: url,
and schema or tag. So it can be the command of a module.

Callers show the secret in PACELINE_SLOT_SECRET as Authorization: Bearer. Without
one it serves this machine only.`,
		Example: `  paceline limiter serve --url memory
  paceline limiter serve --url sqlite:limits.db --listen unix:/run/user/1000/slot.sock
  PACELINE_SLOT_SECRET=$(cat secret) paceline limiter serve --url redis://cache --listen :8793`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	c.Flags().StringVar(&f.url, "url", "", "`URL` of the limiter to serve (default $PACELINE_LIMITER_URL, else as open says)")
	c.Flags().StringVar(&f.listen, "listen", "", "serve at `ADDR`: HOST:PORT or unix:PATH (default port $PORT, else 8793, of 127.0.0.1)")
	return c
}

func (f *limiterFlags) run(c *cobra.Command) (err error) {
	secret := os.Getenv(secretVariable)
	addr, err := f.addr()
	if err != nil {
		return err
	}
	if secret == "" && !reachedHereOnly(addr) {
		return usagef("--listen is %q, which other machines can reach: put a secret into %s, or listen at 127.0.0.1", addr, secretVariable)
	}
	h, err := home.Find()
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(c.ErrOrStderr(), nil))
	o := slot.Options{Home: h, Logger: logger}
	handler := &slothttp.Handler{Secret: secret, Logger: logger}
	if address.HasPassword(f.url) {
		logger.Warn("other users can see the password in --url: put the address into " + limiterVariable)
	}
	if at := cmp.Or(f.url, os.Getenv(limiterVariable)); at != "" {
		l, err := openLimiter(c.Context(), at, o)
		if err != nil {
			return err
		}
		handler.Limiter = l
		defer func() { err = errors.Join(err, closeLimiter(l)) }()
	} else {
		handler.Open = func(ctx context.Context, settings map[string]string) (limiter.Limiter, error) {
			at, err := limiterOf(settings)
			if err != nil {
				return nil, err
			}
			return openLimiter(ctx, at, o)
		}
		defer func() { err = errors.Join(err, handler.Close()) }()
	}
	listeners, err := daemon.Listen(c.Context(), []string{addr})
	if err != nil {
		return err
	}
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		s := serve(l, handler)
		defer s.close()
		go func() { failed <- <-s.failed }()
	}
	if _, err := fmt.Fprintln(c.OutOrStdout(), urlOf(listeners[0])); err != nil {
		return err
	}
	select {
	case <-c.Context().Done():
		return coded{code: exitOK} // whatever signal told it to stop
	case err := <-failed:
		return fmt.Errorf("serving at %s: %w", addr, err)
	}
}

// addr is where to serve. A module is told its port.
func (f *limiterFlags) addr() (string, error) {
	port := os.Getenv("PORT")
	switch {
	case strings.HasPrefix(f.listen, "unix:") && f.listen != "unix:":
		return f.listen, nil
	case f.listen != "":
		return f.listen, checkAddress(f.listen)
	case port == "":
		return "127.0.0.1:8793", nil
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return "", usagef("PORT is %q: give a number from 0 to 65535, or --listen", port)
	}
	return "127.0.0.1:" + port, nil
}

// reachedHereOnly reports whether only this machine reaches an address.
func reachedHereOnly(addr string) bool {
	if strings.HasPrefix(addr, "unix:") {
		return true
	}
	host, _, _ := net.SplitHostPort(addr)
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// urlOf is where clients find a listener.
func urlOf(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return "unix:" + l.Addr().String()
	}
	return "http://" + reachable(l.Addr())
}

// openWithin is how long a limiter may take for being there.
const openWithin = 30 * time.Second

// openLimiter opens what an address names, and logs what is odd about it.
func openLimiter(ctx context.Context, at string, o slot.Options) (limiter.Limiter, error) {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	l, err := slot.Open(ctx, at, o)
	if f, ok := errors.AsType[*address.Fault](err); ok {
		return nil, badAddress{f}
	}
	if err != nil {
		return nil, err
	}
	if w, ok := l.(interface{ Warnings() []string }); ok {
		for _, says := range w.Warnings() {
			o.Logger.Warn(says, "limiter", address.Redacted(at))
		}
	}
	return l, nil
}

// badAddress is a fault of whoever wrote the address.
type badAddress struct{ *address.Fault }

func (b badAddress) Unwrap() []error { return []error{limiter.ErrInvalid, usageError{b.Error()}} }

func closeLimiter(l limiter.Limiter) error {
	if c, ok := l.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// limiterOf is the address in the settings of a module: its url, and what else
// belongs to it.
func limiterOf(settings map[string]string) (string, error) {
	at := settings["url"]
	if at == "" {
		return "", fmt.Errorf("%w: the setting url is missing: give %s", limiter.ErrInvalid, address.Says)
	}
	more := url.Values{}
	for name, value := range settings {
		switch {
		case name == "url" || value == "":
		case slices.Contains([]string{"schema", "tag"}, name):
			more.Set(name, value)
		default:
			return "", fmt.Errorf("%w: there is no setting %q: the settings are url, schema and tag", limiter.ErrInvalid, name)
		}
	}
	if len(more) == 0 {
		return at, nil
	}
	join := "?"
	if strings.Contains(at, "?") {
		join = "&"
	}
	return at + join + more.Encode(), nil
}
