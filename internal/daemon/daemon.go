// Package daemon is the proxy as a process: it puts the home, the limiter, the
// log, the Transport and the HTTP surface together, listens, takes over from a
// predecessor, reads its configuration again when told to, and leaves without
// losing a request.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/internal/config"
	"github.com/paceline-proxy/paceline/internal/history"
	"github.com/paceline-proxy/paceline/internal/home"
	"github.com/paceline-proxy/paceline/internal/proxy"
	"github.com/paceline-proxy/paceline/internal/reach"
	"github.com/paceline-proxy/paceline/limiter"
)

// Options say what to run.
type Options struct {
	Home home.Home
	// ConfigFile is read at the start and at each reload. Empty: the one of the
	// home or the environment, if there is one.
	ConfigFile string
	// Listen are the addresses to serve at. Empty: as the configuration says, or
	// where it says nothing those of the proxy that is replaced.
	Listen []string
	// Mode replaces the configuration's. Empty: it stays.
	Mode config.Mode
	// Replace ends the proxy that has the home and takes its place.
	Replace bool
	// Autostarted has the proxy leave when it has not been used for the
	// configuration's idleExitMs.
	Autostarted bool
	Version     string
	// Logger gets what happens. nil is silence.
	Logger *slog.Logger
	// Ready is told where the proxy listens, once it does.
	Ready func(home.Server)
}

// spared is memory that is never touched and so costs none. The garbage
// collector takes it for in use and lets as much garbage gather before it looks
// for it: a proxy that holds little would else be collected hundreds of times a
// second.
const spared = 32 << 20

// A daemon is a running proxy.
type daemon struct {
	Options
	lock      *home.Lock
	before    []string // addresses of the proxy that was replaced
	limiter   limiter.Limiter
	own       *holder        // the limiter, where it is this process's own
	shared    *reach.Limiter // the limiter, where hosts share one
	heirs     *heirs
	token     string
	history   *history.Log
	transport *paceline.Transport
	proxy     *proxy.Proxy
	use       use
	started   time.Time
	stop      context.CancelFunc
	idle      io.Closer // keeps execs out once the proxy has decided to leave

	mu     sync.Mutex // held while the configuration changes
	config *config.Config
	begun  *config.Config         // what was in force at the start
	modes  map[string]config.Mode // set while running, by provider; "" is all
}

// Run serves until ctx ends, somebody asks for the end, or the proxy has been
// idle for long enough, and then until the answers under way have been passed
// on. *[home.Taken] says that another process has the home.
func Run(ctx context.Context, o Options) error {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Home.Logger = o.Logger
	d := &daemon{Options: o, started: time.Now(), modes: map[string]config.Mode{"": o.Mode}}
	ctx, d.stop = context.WithCancel(ctx)
	defer d.stop()
	defer runtime.KeepAlive(make([]byte, spared))

	if err := o.Home.Make(); err != nil {
		return err
	}
	var err error
	if d.config, err = d.load(); err != nil {
		return err
	}
	d.begun = d.config
	if d.lock, d.before, err = takeLock(ctx, o); err != nil {
		return err
	}
	defer d.lock.Unlock()
	if err := d.open(ctx); err != nil {
		return err
	}
	defer d.history.Close()
	defer d.closeLimiter()
	listeners, err := d.listen(ctx)
	if err != nil {
		return err
	}
	defer closeAll(listeners)
	if err := d.announce(listeners); err != nil {
		return err
	}
	defer o.Home.Forget()
	return d.serve(ctx, listeners)
}

// serve answers at the listeners until ctx ends, and drains.
func (d *daemon) serve(ctx context.Context, listeners []net.Listener) error {
	server := d.proxy.Server()
	server.Handler = d.use.count(d.hear(d.proxy))
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { failed <- server.Serve(l) }()
	}
	defer server.Close()
	ended := make(chan struct{})
	defer close(ended)
	go d.reloadOnSignal(ended)
	go d.leaveWithHome(ctx)
	if d.Autostarted {
		go d.leaveWhenIdle(ctx)
	}
	select {
	case err := <-failed:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	return d.drain(server, listeners)
}

// linger is how long clients that send one request after the other have for
// learning, from an answer, that their connection ends.
const linger = time.Second

// drain ends the waiting, hands the home to whoever takes it next, and passes
// on the answers that are still coming. It sends nothing any more.
func (d *daemon) drain(server *http.Server, listeners []net.Listener) error {
	active, last := d.use.drain()
	d.proxy.Drain()
	d.transport.Drain()
	d.keepPlaces()
	d.handOver()
	closeAll(listeners)
	var err error
	if d.own != nil {
		err = d.own.Close() // the successor reads the journal once it has the lock
	}
	err = errors.Join(err, d.Home.Forget(), d.lock.Unlock())
	if active > 0 {
		d.Logger.Info("stopping: nothing is sent any more, answers under way are passed on", "answers", active, "at most", d.config.DrainMax)
	}
	running, ended := context.WithCancel(context.Background())
	var told sync.WaitGroup
	told.Go(func() { d.tell(running) })
	defer told.Wait()
	defer ended()
	if time.Since(last) < 5*linger {
		time.Sleep(linger)
	}
	ctx, cancel := context.WithTimeout(context.Background(), d.config.DrainMax)
	defer cancel()
	if e := server.Shutdown(ctx); e != nil {
		d.Logger.Warn("answers were cut: they took longer than drain.maxMs", "error", e)
	}
	d.Logger.Info("stopped")
	return err
}

// open makes what serves. What only remembers may be missing: a full disk
// stops no request.
func (d *daemon) open(ctx context.Context) error {
	d.openHistory()
	fresh := d.openLimiter(ctx)
	base, err := upstream(d.config)
	if err != nil {
		return err
	}
	c := d.config
	d.transport = &paceline.Transport{
		Base:           base,
		Limiter:        d.limiter,
		Store:          d.store(),
		Providers:      d.providers(c),
		MaxReplayBytes: c.MaxReplayBytes,
		Queue: paceline.Queue{
			ClientTimeout: c.ClientTimeout,
			Keep:          c.Queue.Keep,
			MaxWaiting:    c.Queue.MaxWaiting,
			MaxHeldBytes:  c.Queue.MaxHeldBytes,
		},
		Background: c.BackgroundShare,
		Clients:    clients(c),
		Log:        d.record,
		OnWait:     func(w *paceline.Wait) { d.proxy.OnWait(w) },
		Route:      func(r *http.Request) ([]paceline.Route, error) { return d.proxy.Route(r) },
		Logger:     d.Logger,
	}
	if d.token, err = d.Home.Token(); err != nil {
		return err
	}
	d.proxy, err = proxy.New(proxy.Options{
		Config: c, Transport: d.transport, Token: d.token, Version: d.Version,
		Status: d.status, Control: control{d}, Collectors: d.collectors(), Logger: d.Logger,
	})
	if err != nil {
		return err
	}
	// It finds out what is wrong with the entries, too.
	if err := d.transport.SetProviders(d.transport.Providers); err != nil {
		return err
	}
	d.history.Declare(d.transport.Providers)
	d.seed(fresh)
	d.takePlaces()
	d.inherit(ctx)
	return nil
}

// record logs an attempt.
func (d *daemon) record(r paceline.Record) {
	d.history.Add(r)
	d.proxy.Log(r)
	d.Logger.LogAttrs(context.Background(), slog.LevelInfo, "request",
		slog.String("id", r.ID), slog.String("provider", r.Provider), slog.String("credential", r.Credential), slog.String("model", r.Model),
		slog.String("client", r.Client), slog.Int("attempt", r.Attempt), slog.Int("status", r.Status), slog.String("class", string(r.Class)),
		slog.Duration("queued", r.Queued.Round(time.Millisecond)), slog.Duration("took", r.Done.Sub(r.Arrived).Round(time.Millisecond)),
		slog.String("error", r.Error))
}

func clients(c *config.Config) map[string]paceline.Client {
	all := make(map[string]paceline.Client, len(c.Clients))
	for name, client := range c.Clients {
		all[name] = paceline.Client{MaxConcurrent: client.MaxConcurrent}
	}
	return all
}

// listen opens the listeners. The default port may be taken by anybody; one
// that was asked for must be free.
func (d *daemon) listen(ctx context.Context) ([]net.Listener, error) {
	if len(d.Listen) > 0 {
		return Listen(ctx, d.Listen)
	}
	addrs := d.config.Listen
	if len(d.before) > 0 && !d.config.Listens {
		addrs = d.before
	}
	ls, err := Listen(ctx, addrs)
	if err != nil && !d.config.Listens && errors.Is(err, syscall.EADDRINUSE) {
		d.Logger.Warn("the usual port is taken; a free one is used", "error", err)
		return Listen(ctx, []string{"localhost:0"})
	}
	return ls, err
}

// announce writes server.json and says where the proxy is.
func (d *daemon) announce(ls []net.Listener) error {
	s := home.Server{Version: d.Version, StartedAt: d.started, Autostarted: d.Autostarted}
	if d.ConfigFile != "" {
		// Whoever reads it is elsewhere.
		var err error
		if s.Config, err = filepath.Abs(d.ConfigFile); err != nil {
			return err
		}
	}
	s.Host, s.Port = recorded(ls)
	for _, l := range ls {
		addr := l.Addr().String()
		if l.Addr().Network() == "unix" {
			addr = "unix:" + addr
		}
		s.Listen = append(s.Listen, addr)
	}
	s, err := d.Home.Record(s)
	if err != nil {
		return err
	}
	d.Logger.Info("serving", "at", s.Listen, "pid", s.PID, "version", d.Version, "config", d.config.File, "home", d.Home.Dir)
	for _, w := range d.config.Warnings {
		d.Logger.Warn(w.Error())
	}
	if d.Ready != nil {
		d.Ready(s)
	}
	return nil
}
