package slothttp_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/limiter/slothttp"
)

// One process keeps the count, any number ask it.
func Example() {
	server := httptest.NewServer(&slothttp.Handler{Limiter: memory.New(), Secret: "s3cret"})
	defer server.Close()

	ctx := context.Background()
	l, err := slothttp.Dial(ctx, server.URL, slothttp.Options{Secret: "s3cret"})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	call := limiter.Request{Key: "me", Limits: []limiter.Limit{{Key: "account", Calls: 2, Per: time.Minute}}}
	for range 3 {
		d, err := l.Acquire(ctx, call)
		if err != nil {
			log.Fatal(err)
		}
		if d.Granted {
			fmt.Println("granted")
		} else {
			fmt.Println("again in", d.RetryAfter().Round(time.Minute))
		}
	}
	// Output:
	// granted
	// granted
	// again in 1m0s
}
