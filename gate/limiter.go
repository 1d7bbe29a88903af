package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// Renews reports whether the limiter can prolong permits.
func (g *Gate) Renews() bool {
	_, ok := g.limiter.(limiter.Renewer)
	return ok && !g.fixed.Load()
}

// Throttle closes a caller key in the limiter until a stated wait is over.
func (g *Gate) Throttle(ctx context.Context, key string, until time.Time) error {
	ctx, cancel := g.briefly(ctx)
	defer cancel()
	if err := g.limiter.Throttle(ctx, key, until); err != nil {
		return fmt.Errorf("throttling: %w", err)
	}
	return nil
}

// Open ends a throttle of a caller key, where the limiter can do that.
func (g *Gate) Open(ctx context.Context, key string) error {
	o, ok := g.limiter.(limiter.Opener)
	if !ok {
		return errors.New("this limiter cannot end a stated wait before its time")
	}
	ctx, cancel := g.briefly(ctx)
	defer cancel()
	if err := o.Open(ctx, key); err != nil {
		return fmt.Errorf("opening a key: %w", err)
	}
	return nil
}

// Seed counts a call that was granted at an earlier instant, where the limiter
// can do that.
func (g *Gate) Seed(ctx context.Context, limits []limiter.Limit, at time.Time) error {
	s, ok := g.limiter.(limiter.Seeder)
	if !ok {
		return errors.New("this limiter cannot count what was granted earlier")
	}
	if err := s.Seed(ctx, limits, at); err != nil {
		return fmt.Errorf("counting an earlier grant: %w", err)
	}
	return nil
}
