package redis_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/servertest"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/redis"
)

// A batch of any size is answered in order, as if each had been alone.
func TestLargeBatches(t *testing.T) {
	l := open(t, servertest.Redis(t), redis.Options{Tag: t.Name()})
	run := fmt.Sprint(time.Now().UnixNano())
	ctx := context.Background()

	// One run of equals, longer than travels at once, each with a permit and a
	// record of its own.
	equal := limiter.Request{Key: run, Hold: time.Minute, Limits: []limiter.Limit{
		{Key: run + "tokens", Calls: 15_000, Per: time.Hour, Cost: 10}, {Key: run + "places", Concurrent: 2000},
	}}
	var rs []limiter.Request
	for range 3000 {
		rs = append(rs, equal)
	}
	ds, err := l.AcquireBatch(ctx, rs)
	if err != nil {
		t.Fatal(err)
	}
	permits := map[string]bool{}
	for i, d := range ds {
		if d.Granted != (i < 1500) {
			t.Fatalf("request %d: %+v", i, d)
		}
		if d.Granted {
			permits[d.Permit] = true
		} else if len(d.Refused) != 1 || d.Refused[0].Key != run+"tokens" || !d.RetryAt.Equal(ds[1500].RetryAt) {
			t.Fatalf("request %d: %+v", i, d)
		}
	}
	if len(permits) != 1500 {
		t.Errorf("%d permits of 1500", len(permits))
	}
	if err := l.Settle(ctx, ds[1499].Permit, []limiter.Cost{{Key: run + "tokens"}}); err != nil {
		t.Fatal(err)
	}
	granted(t, l, equal)
	refused(t, l, equal, 59*time.Minute, time.Hour)
	var all []string
	for p := range permits {
		all = append(all, p)
	}
	if err := l.Renew(ctx, all, 2*time.Hour); err != nil {
		t.Fatal(err)
	}
	v, err := l.Peek(ctx, run, equal.Limits)
	if err != nil || v.Usage[0].Used != 15_000 || v.Usage[1].Held != 1501 {
		t.Errorf("%+v, %v", v, err)
	}

	// More limits than a script takes are refused before anything counts.
	long := limiter.Request{Key: run}
	for i := range 1001 {
		long.Limits = append(long.Limits, limiter.Limit{Key: fmt.Sprint(run, i), Calls: 1, Per: time.Hour})
	}
	if _, err := l.AcquireBatch(ctx, []limiter.Request{{Key: run}, long}); !errors.Is(err, limiter.ErrInvalid) {
		t.Errorf("%d limits: %v", len(long.Limits), err)
	}
	long.Limits = long.Limits[:1000]
	granted(t, l, long)
	refused(t, l, long, 59*time.Minute, time.Hour)

	// Many callers and buckets, some of them full on the way: those that were
	// refused stay so in the whole batch.
	rs = nil
	for i := range 2000 {
		rs = append(rs, limiter.Request{Key: fmt.Sprint(run, i%500), Limits: []limiter.Limit{
			{Key: fmt.Sprint(run, "a", i%500), Calls: 2, Per: time.Hour}, {Key: fmt.Sprint(run, "b", i%100), Calls: 100, Per: time.Hour},
		}})
	}
	if ds, err = l.AcquireBatch(ctx, rs); err != nil {
		t.Fatal(err)
	}
	for i, d := range ds {
		if d.Granted != (i < 1000) {
			t.Fatalf("request %d: %+v", i, d)
		}
	}
	// L-40, L-41: what was refused counts in none of them.
	for i := range 100 {
		r := limiter.Request{Key: run, Limits: []limiter.Limit{{Key: fmt.Sprint(run, "b", i), Calls: 100, Per: time.Hour}}}
		r.Cost = 90
		granted(t, l, r)
		r.Cost = 1
		refused(t, l, r, 59*time.Minute, time.Hour)
	}
}
