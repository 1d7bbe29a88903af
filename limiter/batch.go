package limiter

import (
	"context"
	"fmt"
)

// AcquireBatch asks any limiter for calls in order, by the rules of [Batcher]:
// in one go where the limiter is one, else one after the other. An error after
// the first grant gives back the places of what was granted; the calls stay
// counted.
func AcquireBatch(ctx context.Context, l Limiter, rs []Request) ([]Decision, error) {
	if b, ok := l.(Batcher); ok {
		return b.AcquireBatch(ctx, rs)
	}
	if err := ValidateAll(rs); err != nil {
		return nil, err
	}
	ds := make([]Decision, len(rs))
	refused := make(map[string]Decision)
	for i, r := range rs {
		if d, ok := refused[r.Key]; ok {
			ds[i] = d
			continue
		}
		d, err := l.Acquire(ctx, r)
		if err != nil {
			for _, granted := range ds[:i] {
				if granted.Permit != "" {
					_ = l.Release(context.WithoutCancel(ctx), granted.Permit)
				}
			}
			return nil, err
		}
		if ds[i] = d; !d.Granted {
			refused[r.Key] = d
		}
	}
	return ds, nil
}

// ValidateAll reports the first of the requests that says something impossible,
// wrapping ErrInvalid.
func ValidateAll(rs []Request) error {
	for i, r := range rs {
		if err := r.Validate(); err != nil {
			return fmt.Errorf("request %d of %d: %w", i+1, len(rs), err)
		}
	}
	return nil
}
