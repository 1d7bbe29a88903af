package memory

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

func TestPermitsReadBack(t *testing.T) {
	l, s := New(), &shard{}
	rng := rand.New(rand.NewPCG(1, 1))
	seen := map[string]bool{}
	for range 10_000 {
		id := placeID{
			shard:      rng.Uint64N(shards),
			index:      rng.Uint64N(1 << indexBits),
			generation: rng.Uint64N(1 << generationBits),
		}
		permit := s.format(l.nonce, id)
		if got, ok := l.parse(permit); !ok || got != id {
			t.Fatalf("%v became %q and then %v, %t", id, permit, got, ok)
		}
		if seen[permit] {
			t.Fatalf("%q twice", permit)
		}
		seen[permit] = true

		bad := []byte(permit)
		bad[rng.IntN(len(bad))] = byte("`q~A \x00\xff"[rng.IntN(7)])
		if _, ok := l.parse(string(bad)); ok {
			t.Fatalf("%q is taken for a permit", bad)
		}
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
