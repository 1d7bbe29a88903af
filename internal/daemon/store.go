package daemon

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/paceline-proxy/paceline/budget"
	"github.com/paceline-proxy/paceline/budget/file"
	"github.com/paceline-proxy/paceline/limiter"
)

// store is where learned state is kept, nil for in this process alone.
func (d *daemon) store() budget.Store {
	s, err := file.Open(d.Home.RateLimits())
	if err != nil {
		d.Logger.Error("what providers tell cannot be kept: a restart will not know it", "dir", d.Home.RateLimits(), "error", err)
	}
	switch {
	case d.shared != nil && err == nil:
		return &twoStores{shared: d.shared, own: s, behind: make(map[string]bool)}
	case d.shared != nil:
		return d.shared
	case err != nil:
		return nil
	}
	return s
}

// twoStores keeps state where the limiter is, and in the home: what providers
// told is known, too, while the limiter is out of reach, and where it keeps
// nothing beside its counts.
type twoStores struct {
	shared limiter.Blobs
	own    budget.Store

	mu     sync.Mutex
	behind map[string]bool // keys whose own state the shared store has not got
}

// Get returns what all hosts know, else what this one does.
func (s *twoStores) Get(ctx context.Context, key string) ([]byte, error) {
	if s.isBehind(key) {
		s.catchUp(ctx, key)
	}
	b, err := s.shared.Get(ctx, key)
	if err != nil {
		ctx, cancel := ownTime(ctx)
		defer cancel()
		return s.own.Get(ctx, key)
	}
	return b, nil
}

// ownTime is for what is here, whatever time was lost elsewhere.
func ownTime(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 250*time.Millisecond)
}

// Update replaces what is known, here and for all hosts.
func (s *twoStores) Update(ctx context.Context, key string, f func([]byte) []byte) error {
	err := s.shared.Update(ctx, key, f)
	s.mark(key, err != nil && !errors.Is(err, errors.ErrUnsupported))
	ctx, cancel := ownTime(ctx)
	defer cancel()
	return s.own.Update(ctx, key, f)
}

func (s *twoStores) isBehind(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.behind[key]
}

func (s *twoStores) mark(key string, behind bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if behind {
		s.behind[key] = true
	} else {
		delete(s.behind, key)
	}
}

// catchUp tells other hosts what this one learned while they could not be told.
func (s *twoStores) catchUp(ctx context.Context, key string) {
	if !isState(key) {
		s.mark(key, false) // a list of names, which each host makes for itself
		return
	}
	raw, err := s.own.Get(ctx, key) // before any time is lost
	if err != nil {
		return
	}
	now := time.Now()
	own, err := budget.Decode(raw, now)
	if err != nil {
		return
	}
	if s.shared.Update(ctx, key, func(old []byte) []byte {
		all := own
		if theirs, err := budget.Decode(old, now); err == nil {
			all = budget.Merge(own, theirs)
		}
		b, err := budget.Encode(all)
		if err != nil {
			return old
		}
		return b
	}) == nil {
		s.mark(key, false)
	}
}

// isState reports whether a key is that of a line, or of an operator's orders:
// what is kept there can be merged.
func isState(key string) bool {
	return strings.Count(key, "/") == 2 || strings.HasSuffix(key, "/"+operator)
}
