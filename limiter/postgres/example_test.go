package postgres_test

import (
	"context"
	"log"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/postgres"
)

// Hosts that open the same schema of the same database share their limits: here 60
// calls a minute, four of them at once.
func ExampleOpen() {
	ctx := context.Background()
	l, err := postgres.Open(ctx, "postgres://paceline:PASSWORD@db.example/app?sslmode=require", postgres.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()

	call := limiter.Request{
		Key:  "openai/team",
		Hold: time.Minute,
		Limits: []limiter.Limit{
			{Key: "openai/team/requests", Calls: 60, Per: time.Minute},
			{Key: "openai/team/places", Concurrent: 4},
		},
	}
	for {
		d, err := l.Acquire(ctx, call)
		if err != nil {
			log.Fatal(err)
		}
		if d.Granted {
			defer l.Release(ctx, d.Permit)
			break
		}
		time.Sleep(d.RetryAfter())
	}
	// … make the call.
}
