package redis_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/redis"
)

// Hosts that share a Redis share its limits: 60 calls a minute and 4 at once,
// whoever makes them.
func Example() {
	ctx := context.Background()
	l, err := redis.Open(ctx, os.Getenv("REDIS_URL"), redis.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()

	for {
		d, err := l.Acquire(ctx, limiter.Request{
			Key:  "openai/main",
			Hold: time.Minute,
			Limits: []limiter.Limit{
				{Key: "openai/main/requests", Calls: 60, Per: time.Minute},
				{Key: "openai/main/places", Concurrent: 4},
			},
		})
		if err != nil {
			log.Fatal(err)
		}
		if d.Granted {
			fmt.Println("calling")
			if err := l.Release(ctx, d.Permit); err != nil {
				log.Print(err) // the place comes free when its hold has passed
			}
			return
		}
		time.Sleep(d.RetryAfter())
	}
}
