package redis_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/paceline-proxy/paceline/internal/servertest"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/redis"
)

// admin is a connection for what operators do to a Redis.
func admin(t testing.TB, url string) func(args ...string) string {
	t.Helper()
	o, err := rueidis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.DisableCache, o.ForceSingleClient = true, true
	c, err := rueidis.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return func(args ...string) string {
		t.Helper()
		answer, err := c.Do(context.Background(), c.B().Arbitrary(args...).Build()).ToAny()
		if err != nil && !rueidis.IsRedisNil(err) {
			t.Fatalf("%v: %v", args, err)
		}
		return fmt.Sprint(answer)
	}
}

func window(key string, calls int, per time.Duration) limiter.Request {
	return limiter.Request{Key: "caller", Hold: time.Minute, Limits: []limiter.Limit{{Key: key, Calls: calls, Per: per}}}
}

func places(key string, n int) limiter.Request {
	return limiter.Request{Key: "caller", Hold: time.Minute, Limits: []limiter.Limit{{Key: key, Concurrent: n}}}
}

func acquire(t testing.TB, l limiter.Limiter, r limiter.Request) limiter.Decision {
	t.Helper()
	d, err := l.Acquire(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func granted(t testing.TB, l limiter.Limiter, r limiter.Request) limiter.Decision {
	t.Helper()
	d := acquire(t, l, r)
	if !d.Granted {
		t.Fatalf("refused for %v: %+v", d.RetryAfter(), d.Refused)
	}
	return d
}

// refused wants a refusal that lasts between two spans.
func refused(t testing.TB, l limiter.Limiter, r limiter.Request, least, most time.Duration) limiter.Decision {
	t.Helper()
	d := acquire(t, l, r)
	if d.Granted {
		t.Fatalf("granted: %+v", r)
	}
	if after := d.RetryAfter(); after < least || after > most {
		t.Fatalf("refused for %v, want %v to %v", after, least, most)
	}
	return d
}

// eventually waits for a server that comes back.
func eventually(t testing.TB, what string, ok func() error) {
	t.Helper()
	var err error
	for start := time.Now(); time.Since(start) < 20*time.Second; time.Sleep(20 * time.Millisecond) {
		if err = ok(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

func answers(l limiter.Limiter) func() error {
	return func() error {
		_, err := l.Acquire(context.Background(), limiter.Request{Key: "nobody"})
		return err
	}
}

// lost wants every window to count as full, each for its own span and for two
// minutes at most, and nothing else to be closed.
func lost(t testing.TB, l *redis.Limiter) {
	t.Helper()
	fresh := fmt.Sprint(time.Now().UnixNano())
	refused(t, l, window("minute"+fresh, 10, time.Minute), 50*time.Second, time.Minute)
	refused(t, l, window("day"+fresh, 10, 24*time.Hour), 110*time.Second, 2*time.Minute)
	v, err := l.Peek(context.Background(), "caller", window("day"+fresh, 10, 24*time.Hour).Limits)
	if err != nil || v.Usage[0].Used != 10 {
		t.Errorf("peeking at a window that counts as full: %+v, %v", v.Usage, err)
	}
	short := window("short"+fresh, 1, 300*time.Millisecond)
	eventually(t, "a window of 300 ms", func() error {
		if d := acquire(t, l, short); !d.Granted {
			return fmt.Errorf("refused for %v", d.RetryAfter())
		}
		return nil
	})
	granted(t, l, places("places"+fresh, 1))
	if w := l.Warnings(); len(w) != 1 || !strings.Contains(w[0], "may have lost counts") {
		t.Errorf("warnings: %q", w)
	}
}

func kept(t testing.TB, l *redis.Limiter) {
	t.Helper()
	granted(t, l, window(fmt.Sprint(time.Now().UnixNano()), 1, time.Hour))
	if w := l.Warnings(); len(w) > 0 {
		t.Errorf("warnings: %q", w)
	}
}

func TestFlush(t *testing.T) {
	s := servertest.StartRedis(t)
	var log bytes.Buffer
	l := open(t, s.URL, redis.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	other := open(t, s.URL, redis.Options{})
	kept(t, l)
	kept(t, other)
	admin(t, s.URL)("FLUSHALL")

	// Somebody who comes first does not know that there was anything.
	late := open(t, s.URL, redis.Options{})
	kept(t, late)
	lost(t, l)
	if !strings.Contains(log.String(), "may have lost counts") {
		t.Errorf("logged: %s", &log)
	}
	// It was lost once, and everybody knows since when.
	time.Sleep(50 * time.Millisecond)
	refused(t, other, window("b", 1, 40*time.Hour), 110*time.Second, 120*time.Second-40*time.Millisecond)
	refused(t, late, window("b", 1, 40*time.Hour), 110*time.Second, 120*time.Second-40*time.Millisecond)
	if other.Warnings()[0] != l.Warnings()[0] {
		t.Errorf("%q and %q", other.Warnings(), l.Warnings())
	}
	// Another tag is another limiter.
	kept(t, open(t, s.URL, redis.Options{Tag: "other"}))
}

// L-40: what travels with a script's hash survives that the hash is forgotten.
func TestScriptFlush(t *testing.T) {
	s := servertest.StartRedis(t)
	l := open(t, s.URL, redis.Options{})
	flush := admin(t, s.URL)
	r := window("a", 3, time.Hour)
	for range 3 {
		flush("SCRIPT", "FLUSH")
		granted(t, l, r)
	}
	flush("SCRIPT", "FLUSH")
	refused(t, l, r, 59*time.Minute, time.Hour)
	kept(t, l)
}

func TestRestartWithNothingKept(t *testing.T) {
	s := servertest.StartRedis(t)
	l := open(t, s.URL, redis.Options{})
	kept(t, l)
	s.Kill()
	if _, err := l.Acquire(context.Background(), limiter.Request{}); err == nil || !strings.Contains(err.Error(), "redis at ") {
		t.Errorf("a dead server: %v", err)
	}
	s.Restart()
	eventually(t, "coming back", answers(l))
	lost(t, l)
}

// CC-27: what was appended to a file is there after kill -9. The last second may
// not be, so windows count as full meanwhile.
func TestKillAndRestartWithFile(t *testing.T) {
	s := servertest.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	l := open(t, s.URL, redis.Options{})
	one := places("p", 1)
	held := granted(t, l, one)
	granted(t, l, window("a", 1, time.Hour))
	if err := l.Throttle(context.Background(), "closed", time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	s.Restart()
	eventually(t, "coming back", answers(l))
	refused(t, l, limiter.Request{Key: "closed"}, 59*time.Minute, time.Hour)
	refused(t, l, window("a", 1, time.Hour), 59*time.Minute, time.Hour)
	refused(t, l, one, time.Millisecond, 100*time.Millisecond)
	if err := l.Release(context.Background(), held.Permit); err != nil {
		t.Fatal(err)
	}
	granted(t, l, one)
	lost(t, l)
	// Whoever opens it now, too.
	lost(t, open(t, s.URL, redis.Options{}))
}
