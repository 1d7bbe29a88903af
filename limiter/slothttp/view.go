package slothttp

import (
	"io"

	"github.com/paceline-proxy/paceline/limiter"
)

// Limiter is the client without the methods that the other side does not have,
// so that whoever looks for them by type assertion finds out: all of them,
// those of docs/slot.md's main table, or the three and batches.
func (c *Client) Limiter() limiter.Limiter {
	switch {
	case c.has("settle", "renew", "openKey", "peek", "seed", "get"):
		return c
	case c.has("settle", "renew", "openKey"):
		return settling{plain{c, c, c}, c, c, c}
	}
	return plain{c, c, c}
}

func (c *Client) has(methods ...string) bool {
	for _, m := range methods {
		if !c.can[m] {
			return false
		}
	}
	return true
}

// The three, and what goes with any limiter.
type plain struct {
	limiter.Limiter
	limiter.Batcher
	io.Closer
}

type settling struct {
	plain
	limiter.Settler
	limiter.Renewer
	limiter.Opener
}
