package memory

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// heap is how many bytes are in use once everything idle is gone.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// caller is a request over three windows and places, as a caller of a provider
// makes it.
func caller(i int) limiter.Request {
	scope := fmt.Sprintf("openai/%08x/", i)
	requests := scope + "/requests"
	return limiter.Request{
		Key: scope, Hold: time.Minute,
		Limits: []limiter.Limit{
			{Key: requests, Calls: 10, Per: time.Second},
			{Key: requests, Calls: 100, Per: time.Minute},
			{Key: requests, Calls: 1000, Per: 24 * time.Hour},
			{Key: scope + "/places", Concurrent: 4},
		},
	}
}

func TestBytesOfAnIdleCaller(t *testing.T) {
	const callers = 20_000
	before := heap()
	l := New()
	for i := range callers {
		d, err := l.Acquire(context.Background(), caller(i))
		if err != nil || !d.Granted {
			t.Fatal(d, err)
		}
		if err := l.Release(context.Background(), d.Permit); err != nil {
			t.Fatal(err)
		}
	}
	each := (heap() - before) / callers
	t.Logf("%d bytes a caller", each)
	if each > 640 {
		t.Errorf("an idle caller keeps %d bytes", each)
	}
	runtime.KeepAlive(l)
}

func TestBytesOfAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const windows, calls = 50, 5000
		before := heap()
		l := New()
		for range calls {
			for i := range windows {
				r := limiter.Request{Limits: []limiter.Limit{{Key: fmt.Sprint(i), Calls: 1_000_000, Per: time.Hour}}}
				if d, err := l.Acquire(context.Background(), r); err != nil || !d.Granted {
					t.Fatal(d, err)
				}
			}
			time.Sleep(time.Hour / calls)
		}
		each := (heap() - before) / windows
		t.Logf("%d bytes a window", each)
		if each > 20<<10 {
			t.Errorf("a window keeps %d bytes", each)
		}
		runtime.KeepAlive(l)
	})
}

// A grant allocates nothing but, now and then, room for the next permits.
func TestAllocations(t *testing.T) {
	l, r := New(), caller(0)
	for i := range r.Limits {
		r.Limits[i].Calls *= 1 << 30
	}
	allocs := testing.AllocsPerRun(2000, func() {
		d, err := l.Acquire(context.Background(), r)
		if err != nil || !d.Granted {
			t.Fatal(d, err)
		}
		if err := l.Release(context.Background(), d.Permit); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 1 {
		t.Errorf("%v allocations", allocs)
	}
}

// Buckets, throttles and places of callers that have gone leave no memory
// behind, whatever keeps being asked for.
func TestCallersComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		steady := limiter.Request{Key: "steady", Limits: []limiter.Limit{{Key: "steady", Calls: 1 << 30, Per: time.Second}}}
		for i := range 60_000 {
			key := fmt.Sprint("caller ", i)
			r := limiter.Request{Key: key, Hold: time.Second, Limits: []limiter.Limit{
				{Key: key, Calls: 5, Per: time.Second, Concurrent: 1},
			}}
			if d, err := l.Acquire(context.Background(), r); err != nil || !d.Granted {
				t.Fatal(d, err)
			}
			if i%10 == 0 {
				if err := l.Throttle(context.Background(), key, time.Now().Add(time.Second)); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Millisecond) // so a thousand are alive
			if n := l.buckets(); i%1000 == 0 && n > 4000 {
				t.Fatalf("%d buckets after %d callers", n, i)
			}
		}
		// One key, in one shard, is enough to clean up all of them.
		time.Sleep(time.Minute)
		for range 64 * sweepAt {
			if d, err := l.Acquire(context.Background(), steady); err != nil || !d.Granted {
				t.Fatal(d, err)
			}
		}
		if n := l.buckets(); n > 1 {
			t.Errorf("%d buckets of callers that have gone", n-1)
		}
		slots, places := 0, 0
		for i := range l.shards {
			s := &l.shards[i]
			slots += len(s.slots)
			places += len(s.places) - len(s.free)
			if len(s.throttles.ends) > 0 || len(s.throttles.until) > 0 {
				t.Error("a throttle that is over is kept")
			}
		}
		if places > 0 || l.closed.Load() > 0 {
			t.Errorf("%d places and %d throttles are held by nobody", places, l.closed.Load())
		}
		if slots > 64*64 {
			t.Errorf("%d slots for one bucket", slots)
		}
	})
}

func (l *Limiter) buckets() (n int) {
	for i := range l.shards {
		n += l.shards[i].count
	}
	return n
}

// What still counts is not forgotten, however many others come and go.
func TestLivingStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		day := limiter.Request{Limits: []limiter.Limit{{Key: "day", Calls: 1, Per: 24 * time.Hour}}}
		place := limiter.Request{Hold: 24 * time.Hour, Limits: []limiter.Limit{{Key: "place", Concurrent: 1}}}
		for _, r := range []limiter.Request{day, place} {
			if d, err := l.Acquire(context.Background(), r); err != nil || !d.Granted {
				t.Fatal(d, err)
			}
		}
		if err := l.Throttle(context.Background(), "closed", time.Now().Add(24*time.Hour)); err != nil {
			t.Fatal(err)
		}
		for i := range 20_000 {
			if _, err := l.Acquire(context.Background(), caller(i)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second / 2)
		}
		for what, r := range map[string]limiter.Request{"window": day, "place": place, "throttle": {Key: "closed"}} {
			if d, err := l.Acquire(context.Background(), r); err != nil || d.Granted {
				t.Errorf("the %s is forgotten: %v %v", what, d, err)
			}
		}
	})
}

// A key is kept as a copy: one cut from a request body would keep the body.
func TestKeysAreCopied(t *testing.T) {
	l := New()
	before := heap()
	for i := range 64 {
		body := strings.Repeat("x", 1<<20) + fmt.Sprint(i)
		key := body[1<<20:]
		r := limiter.Request{Key: key, Limits: []limiter.Limit{{Key: key, Calls: 1, Per: time.Hour}}}
		if _, err := l.Acquire(context.Background(), r); err != nil {
			t.Fatal(err)
		}
		if err := l.Throttle(context.Background(), key, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if grown := heap() - before; grown > 8<<20 {
		t.Errorf("64 short keys keep %d bytes", grown)
	}
	runtime.KeepAlive(l)
}

// A call is seeded at its instant, however long others keep its bucket.
func TestSeedIsExact(t *testing.T) {
	l := New()
	limit := rate("a", 1, time.Minute)
	at := time.Now()
	done := make(chan error)
	l.lock(all)
	go func() { done <- l.Seed(context.Background(), []limiter.Limit{limit}, at) }()
	time.Sleep(5 * time.Millisecond) // most likely it waits by then
	l.unlock(all)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	hash := hashOf(limit.Key)
	if late := l.shards[shardOf(hash)].seek(hash, limit.Key).windows[0].last.at - l.clock.at(at); late != 0 {
		t.Errorf("dated %v late", time.Duration(late))
	}
}
