// Package slot opens a limiter by its address: in memory, in a file, in a
// server, or behind the wire.
package slot

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"

	"github.com/paceline-proxy/paceline/internal/home"
	"github.com/paceline-proxy/paceline/internal/modules"
	"github.com/paceline-proxy/paceline/internal/slot/address"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/limiter/postgres"
	"github.com/paceline-proxy/paceline/limiter/redis"
	"github.com/paceline-proxy/paceline/limiter/slothttp"
	"github.com/paceline-proxy/paceline/limiter/sqlite"
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
	switch address.Scheme(at) {
	case "memory":
		return memory.New(), nil
	case "sqlite":
		path, durable, err := file(address.Rest(at))
		if err != nil {
			return nil, err
		}
		return opened(sqlite.Open(ctx, path, sqlite.Options{Durable: durable}))
	case "redis", "rediss":
		return opened(redis.Open(ctx, address.WithSecret(at, o.Secret), redis.Options{Logger: o.Logger}))
	case "postgres", "postgresql":
		return opened(postgres.Open(ctx, address.WithSecret(at, o.Secret), postgres.Options{Logger: o.Logger}))
	case "http", "https", "unix":
		return opened(slothttp.Dial(ctx, at, slothttp.Options{Secret: o.Secret}))
	case "module":
		return opened(modules.Open(ctx, o.Home.Dir, address.Rest(at), o.Logger))
	}
	return nil, fmt.Errorf("no limiter has %s: addresses", address.Scheme(at)) // Check knows them all
}

// opened is a limiter that was opened, nil where it was not.
func opened[L limiter.Limiter](l L, err error) (limiter.Limiter, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

// file is what follows sqlite: in an address, PATH or PATH?durable=1.
func file(rest string) (path string, durable bool, err error) {
	path, settings, _ := strings.Cut(rest, "?")
	values, err := url.ParseQuery(settings)
	if err != nil {
		return "", false, &address.Fault{Problem: "has settings that cannot be read", Advice: "write sqlite:PATH?durable=1"}
	}
	for name := range values {
		if name != "durable" {
			return "", false, &address.Fault{Problem: fmt.Sprintf("has a setting %q, which sqlite does not know", name), Advice: "write sqlite:PATH?durable=1"}
		}
		if durable, err = strconv.ParseBool(values.Get(name)); err != nil {
			return "", false, &address.Fault{Problem: "says of durable neither 1 nor 0", Advice: "write sqlite:PATH?durable=1"}
		}
	}
	return path, durable, nil
}
