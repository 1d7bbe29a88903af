package slothttp_test

import (
	"math"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/limiter/slothttp"
)

// One call of three windows and places, by itself and in batches of 100; ns/op
// is per acquire. A batch is to carry eight times as many in a second, at least.
func BenchmarkAcquire(b *testing.B) {
	c, err := slothttp.Dial(b.Context(), overTCP(b, &slothttp.Handler{Limiter: memory.New()}), slothttp.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	const endless = min(1<<40, math.MaxInt)
	r := limiter.Request{Key: "openference/acme/scope", Hold: time.Millisecond, Limits: []limiter.Limit{
		{Key: "openference/acme//requests", Calls: endless, Per: time.Second},
		{Key: "openference/acme//requests", Calls: endless, Per: time.Minute},
		{Key: "openference/acme//tokens", Calls: endless, Per: time.Minute, Cost: 3000},
		{Key: "openference/acme//places", Concurrent: endless},
	}}
	b.Run("single", func(b *testing.B) {
		for b.Loop() {
			if d, err := c.Acquire(b.Context(), r); err != nil || !d.Granted {
				b.Fatal(d, err)
			}
		}
	})
	const n = 100
	rs := make([]limiter.Request, n)
	for i := range rs {
		rs[i] = r
	}
	b.Run("batch", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if i%n != 0 {
				continue
			}
			if ds, err := c.AcquireBatch(b.Context(), rs); err != nil || !ds[n-1].Granted {
				b.Fatal(err)
			}
		}
	})
}
