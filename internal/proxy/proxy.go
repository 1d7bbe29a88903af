// Package proxy is the HTTP surface: it finds out who calls and where a
// request is to go, hands it to a paceline.Transport, and passes the answer on
// byte for byte. It decides nothing about limits.
package proxy

import (
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/internal/config"
)

// Options are what a Proxy is made of.
type Options struct {
	// Config says who may call and which providers there are. nil is
	// config.Default().
	Config *config.Config
	// Transport sends the requests. Set its Route to the Proxy's, and have its
	// Log call the Proxy's.
	Transport *paceline.Transport
	// Token is the home's own: whoever shows it is its owner.
	Token string
	// Version is shown by /health.
	Version string
	// Status is what GET /stats answers.
	Status func() any
	// Control is asked by POST /control/… for what only the daemon can do.
	Control Control
	// Logger hears of what is wrong. nil is silence.
	Logger *slog.Logger
}

// Control is what a daemon does when it is told to.
type Control interface {
	// Reload reads the configuration again; an error changes nothing.
	Reload() error
	// Stop begins to drain and returns.
	Stop()
	// SetMode sets the mode of one provider, or of all where it is empty.
	SetMode(provider string, mode config.Mode) error
}

// A Proxy is the http.Handler of the daemon.
type Proxy struct {
	o        Options
	state    atomic.Pointer[state]
	draining atomic.Bool
}

// state is what a configuration compiles to.
type state struct{ config *config.Config }

// New returns a Proxy.
func New(o Options) (*Proxy, error) {
	if o.Transport == nil {
		return nil, errors.New("proxy: no Transport")
	}
	if o.Config == nil {
		o.Config = config.Default()
	}
	p := &Proxy{o: o}
	return p, p.SetConfig(o.Config)
}

// SetConfig takes a new configuration for the requests that follow. An error
// changes nothing.
func (p *Proxy) SetConfig(c *config.Config) error {
	p.state.Store(&state{config: c})
	return nil
}

// Drain makes /ready answer 503. The Transport is drained by its owner.
func (p *Proxy) Drain() { p.draining.Store(true) }

// Log counts a record for /metrics.
func (p *Proxy) Log(paceline.Record) {}

// Route says where a request goes that ServeHTTP has sent on its way: the
// Transport's Route.
func (p *Proxy) Route(r *http.Request) ([]paceline.Route, error) {
	return nil, errors.New("proxy: this request did not come through it")
}

// Server returns an http.Server for the Proxy, with its bounds: HTTP/1.1 and
// h2c. Its listeners are the owner's.
func (p *Proxy) Server() *http.Server {
	return &http.Server{Handler: p}
}

func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	http.Error(w, "not served", http.StatusNotFound)
}
