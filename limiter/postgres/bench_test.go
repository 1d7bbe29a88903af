package postgres_test

import (
	"context"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/paceline-proxy/paceline/internal/servertest"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/postgres"
)

// BenchmarkHotKey has 16 callers ask for one bucket of a server that syncs to disk:
// call by call, refused, in batches, and beside it 16 connections that update one
// row. An operation is one call, or one update.
func BenchmarkHotKey(b *testing.B) {
	server := servertest.StartPostgres(b, "fsync=on", "full_page_writes=on")
	l := open(b, server.URL, postgres.Options{})
	windows := func(key string, calls int) limiter.Request {
		return limiter.Request{Key: "c", Limits: []limiter.Limit{
			{Key: key, Calls: calls, Per: time.Second}, {Key: key, Calls: calls, Per: time.Minute}, {Key: key, Calls: calls, Per: time.Hour}}}
	}
	const plenty = min(1<<40, math.MaxInt)
	callers := func(b *testing.B, size int, f func() error) {
		b.SetParallelism(max(1, 16/runtime.GOMAXPROCS(0)))
		b.RunParallel(func(pb *testing.PB) {
			for n := 0; pb.Next(); n++ {
				if n%size != 0 {
					continue
				}
				if err := f(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	ctx := context.Background()
	b.Run("update", func(b *testing.B) {
		execute(b, server.URL, "create table if not exists hot (id int primary key, n bigint); truncate hot; insert into hot values (1, 0)")
		c, err := pgxpool.ParseConfig(server.URL)
		if err != nil {
			b.Fatal(err)
		}
		c.MaxConns = 16
		pool, err := pgxpool.NewWithConfig(ctx, c)
		if err != nil {
			b.Fatal(err)
		}
		defer pool.Close()
		callers(b, 1, func() error { _, err := pool.Exec(ctx, "update hot set n = n + 1 where id = 1"); return err })
	})
	b.Run("acquire", func(b *testing.B) {
		r := limiter.Request{Key: "c", Limits: windows("one", plenty).Limits[1:2]}
		callers(b, 1, func() error { _, err := l.Acquire(ctx, r); return err })
	})
	b.Run("acquire-3-windows", func(b *testing.B) {
		r := windows("three", plenty)
		callers(b, 1, func() error { _, err := l.Acquire(ctx, r); return err })
	})
	b.Run("refused", func(b *testing.B) {
		r := windows("full", 1)
		if _, err := l.Acquire(ctx, r); err != nil {
			b.Fatal(err)
		}
		callers(b, 1, func() error { _, err := l.Acquire(ctx, r); return err })
	})
	b.Run("batches-of-16", func(b *testing.B) {
		rs := make([]limiter.Request, 16)
		for i := range rs {
			rs[i] = windows("batches", plenty)
		}
		callers(b, len(rs), func() error { _, err := l.AcquireBatch(ctx, rs); return err })
	})
	b.Run("batches-of-16-costs", func(b *testing.B) {
		rs := make([]limiter.Request, 16)
		for i := range rs {
			rs[i] = windows("costs", plenty)
			rs[i].Cost = i + 1
		}
		callers(b, len(rs), func() error { _, err := l.AcquireBatch(ctx, rs); return err })
	})
	b.Run("place-and-release", func(b *testing.B) {
		r := windows("places", plenty)
		r.Limits = append(r.Limits[:1], limiter.Limit{Key: "places of it", Concurrent: 64})
		r.Hold = time.Minute
		callers(b, 1, func() error {
			d, err := l.Acquire(ctx, r)
			if err == nil {
				err = l.Release(ctx, d.Permit)
			}
			return err
		})
	})
}
