package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/paceline-proxy/paceline/budget"
	"github.com/paceline-proxy/paceline/budget/file"
	"github.com/paceline-proxy/paceline/internal/home"
)

// A Pause is that of a line of requests, as the files of a home have it, over
// or not.
type Pause struct {
	Provider, Account, Scope string
	budget.Pause
}

// operator is the account of what somebody has ordered of a provider as a
// whole.
const operator = "~operator"

// Pauses reads what the home knows of every line of a provider, whether a proxy
// runs or not. damaged is what it could not read: pauses may be among it.
func Pauses(ctx context.Context, h home.Home, provider string) (all []Pause, damaged []error, err error) {
	if _, err := os.Stat(h.RateLimits()); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	store, err := file.Open(h.RateLimits())
	if err != nil {
		return nil, nil, err
	}
	keys, err := store.Keys()
	if err != nil {
		return nil, nil, err
	}
	damaged = store.Faults()
	now := time.Now()
	state := func(key string) budget.State {
		raw, err := store.Get(ctx, key)
		if err != nil {
			return budget.State{} // as for whoever sends
		}
		s, err := budget.Decode(raw, now)
		if err != nil {
			damaged = append(damaged, fmt.Errorf("%s: %w", key, err))
		}
		return s
	}
	orders := state(url.PathEscape(provider) + "/" + operator)
	for _, key := range keys {
		parts := strings.Split(key, "/")
		for i := range parts {
			if parts[i], err = url.PathUnescape(parts[i]); err != nil {
				parts = nil
				break
			}
		}
		if len(parts) == 3 && parts[0] == provider {
			s := state(key)
			s.Obey(&orders, now)
			all = append(all, Pause{parts[0], parts[1], parts[2], s.Pause})
		}
	}
	if len(all) == 0 && orders.Pause.Active(now) { // else they have obeyed
		all = append(all, Pause{Provider: provider, Pause: orders.Pause})
	}
	return all, damaged, nil
}
