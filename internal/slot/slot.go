// Package slot opens a limiter by its address: in memory, in a file, in a
// server, or behind the wire.
package slot

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/paceline-proxy/paceline/internal/home"
	"github.com/paceline-proxy/paceline/internal/slot/address"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/memory"
)

// Options are what an address does not say.
type Options struct {
	// Home is where modules are installed.
	Home home.Home
	// Secret is the password of a server, where its URL has none, or the secret
	// of the wire.
	Secret string
	// Logger hears of what is wrong and stops nothing. nil is silence.
	Logger *slog.Logger
}

// Open opens the limiter at an address: memory, sqlite:PATH, redis://… and
// rediss://…, postgres://… and postgresql://…, http://…, https://… and
// unix:PATH for the wire, or module:NAME. It is to be closed, where it has a
// Close. An *[address.Fault] says what is wrong with how the address is
// written.
func Open(ctx context.Context, at string, o Options) (limiter.Limiter, error) {
	if f := address.Check(at); f != nil {
		return nil, f
	}
	switch scheme := address.Scheme(at); scheme {
	case "memory":
		return memory.New(), nil
	default:
		return nil, fmt.Errorf("this build has no limiter for %s: addresses", scheme)
	}
}
