package sqlite_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

func BenchmarkAcquire(b *testing.B) {
	ctx := context.Background()
	second := limiter.Limit{Key: "a", Calls: math.MaxInt32, Per: time.Second}
	minute := limiter.Limit{Key: "a", Calls: math.MaxInt32, Per: time.Minute}
	hour := limiter.Limit{Key: "a", Calls: math.MaxInt32, Per: time.Hour}
	places := limiter.Limit{Key: "p", Concurrent: 100}
	for _, c := range []struct {
		name   string
		limits []limiter.Limit
	}{
		{"none", nil},
		{"one window", []limiter.Limit{minute}},
		{"full", []limiter.Limit{{Key: "f", Calls: 1, Per: time.Hour}}},
		{"three windows and places", []limiter.Limit{second, minute, hour, places}},
	} {
		b.Run(c.name, func(b *testing.B) {
			l := open(b, filepath.Join(b.TempDir(), "limits.db"))
			for b.Loop() {
				d, err := l.Acquire(ctx, limiter.Request{Key: "c", Limits: c.limits, Hold: time.Minute})
				if err != nil {
					b.Fatal(err)
				}
				if d.Permit != "" {
					if err := l.Release(ctx, d.Permit); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
	for _, n := range []int{1, 16, 64} {
		b.Run(fmt.Sprint("batch of ", n), func(b *testing.B) {
			l := open(b, filepath.Join(b.TempDir(), "limits.db"))
			rs := make([]limiter.Request, n)
			for i := range rs {
				rs[i] = limiter.Request{Key: "c", Limits: []limiter.Limit{second, minute, hour}, Hold: time.Minute}
			}
			for b.Loop() {
				if _, err := l.AcquireBatch(ctx, rs); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
