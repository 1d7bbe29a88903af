package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// Open ends a throttle of a caller key, where the limiter can do that.
func (g *Gate) Open(ctx context.Context, key string) error {
	o, ok := g.limiter.(limiter.Opener)
	if !ok {
		return errors.New("this limiter cannot end a stated wait before its time")
	}
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
