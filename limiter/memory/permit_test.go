package memory

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

func TestPermitsReadBack(t *testing.T) {
	var s shard
	rng := rand.New(rand.NewPCG(1, 1))
	seen := map[string]bool{}
	for range 10_000 {
		home := placeID{shard: rng.Uint64N(shards), index: rng.Uint64N(1 << indexBits)}
		s.number = rng.Uint32()
		permit := s.format(home)
		if got, ok := homeOf(permit); !ok || got != home {
			t.Fatalf("%v became %q and then %v, %t", home, permit, got, ok)
		}
		if seen[permit] {
			t.Fatalf("%q twice", permit)
		}
		seen[permit] = true
	}
}

// A permit with any letter changed is nobody's.
func TestGarbledPermits(t *testing.T) {
	r := limiter.Request{Hold: time.Hour, Limits: []limiter.Limit{{Key: "a", Concurrent: 1}, {Key: "b", Concurrent: 1}}}
	l := New()
	d, err := l.Acquire(context.Background(), r)
	if err != nil || !d.Granted {
		t.Fatal(d, err)
	}
	for i := range d.Permit {
		for _, letter := range "`abpq~A \x00\u00ff" {
			garbled := d.Permit[:i] + string(letter) + d.Permit[i+1:]
			if garbled == d.Permit {
				continue
			}
			if err := l.Release(context.Background(), garbled); err != nil {
				t.Fatal(err)
			}
			if d, _ := l.Acquire(context.Background(), r); d.Granted {
				t.Fatalf("freed by %q", garbled)
			}
		}
	}
	if err := l.Release(context.Background(), d.Permit); err != nil {
		t.Fatal(err)
	}
	if d, _ := l.Acquire(context.Background(), r); !d.Granted {
		t.Error("not freed by its own permit")
	}
}

// A permit of another limiter, such as the one before a restart, frees nothing:
// L-77.
func TestPermitsOfOthers(t *testing.T) {
	r := limiter.Request{Hold: time.Hour, Limits: []limiter.Limit{{Key: "a", Concurrent: 1}}}
	one, two := New(), New()
	d, err := one.Acquire(context.Background(), r)
	if err != nil || !d.Granted {
		t.Fatal(d, err)
	}
	if d, err := two.Acquire(context.Background(), r); err != nil || !d.Granted {
		t.Fatal(d, err)
	}
	if err := two.Release(context.Background(), d.Permit); err != nil {
		t.Fatal(err)
	}
	if d, _ := two.Acquire(context.Background(), r); d.Granted {
		t.Error("freed by a stranger's permit")
	}
}

func TestRenewWantsAHold(t *testing.T) {
	if err := New().Renew(context.Background(), nil, 0); err == nil {
		t.Error("a hold of 0 is taken")
	}
}
