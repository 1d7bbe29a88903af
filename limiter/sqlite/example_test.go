package sqlite_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/sqlite"
)

// Two processes of one machine keep to one limit together. Here they are two
// limiters over one file, which is the same.
func Example() {
	dir, err := os.MkdirTemp("", "limits")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "limits.db")

	ctx := context.Background()
	call := limiter.Request{
		Key:    "openai",
		Limits: []limiter.Limit{{Key: "openai/requests", Calls: 3, Per: time.Minute}},
	}
	for _, process := range []string{"one", "another"} {
		l, err := sqlite.Open(ctx, path, sqlite.Options{})
		if err != nil {
			log.Fatal(err)
		}
		defer l.Close()
		for range 2 {
			d, err := l.Acquire(ctx, call)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("%s: granted %t\n", process, d.Granted)
		}
	}
	// Output:
	// one: granted true
	// one: granted true
	// another: granted true
	// another: granted false
}
