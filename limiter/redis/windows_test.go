package redis

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/servertest"
	"github.com/paceline-proxy/paceline/limiter"
)

func openFresh(t testing.TB) *Limiter {
	t.Helper()
	l, err := Open(t.Context(), servertest.Redis(t), Options{Tag: fmt.Sprint(t.Name(), time.Now().UnixNano())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// size is how many bytes a bucket takes.
func (l *Limiter) size(t testing.TB, bucket string) int64 {
	t.Helper()
	n, err := l.client.Do(context.Background(), l.client.B().Strlen().Key(l.key(bucketKey, hashOf(bucket))).Build()).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Spans that differ each time, as those of a learned rate do, leave no more than
// a few windows, and the longest keeps the history: L-63.
func TestSpansComeAndGo(t *testing.T) {
	l := openFresh(t)
	ctx := context.Background()
	const calls = 60
	hour := limiter.Limit{Key: "a", Calls: calls, Per: time.Hour}
	n := 0
	for i := range 400 {
		pace := limiter.Limit{Key: "a", Calls: calls, Per: time.Minute + time.Duration(i)*time.Millisecond}
		d, err := l.Acquire(ctx, limiter.Request{Limits: []limiter.Limit{hour, pace}})
		if err != nil {
			t.Fatal(err)
		}
		if d.Granted {
			n++
		}
	}
	if n != calls {
		t.Errorf("%d granted of %d", n, calls)
	}
	if size := l.size(t, "a"); size > 18*(64*16+50)+47 {
		t.Errorf("%d bytes", size)
	}
	// Short ones are dropped when nobody has asked for twice their span.
	for i := range 10 {
		pace := limiter.Limit{Key: "b", Calls: 9, Per: time.Millisecond + time.Duration(i)*time.Microsecond}
		if _, err := l.Acquire(ctx, limiter.Request{Limits: []limiter.Limit{{Key: "b", Calls: 20, Per: time.Hour}, pace}}); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(5 * time.Millisecond)
	if _, err := l.Acquire(ctx, limiter.Request{Limits: []limiter.Limit{{Key: "b", Calls: 20, Per: time.Hour}}}); err != nil {
		t.Fatal(err)
	}
	if size := l.size(t, "b"); size != 47+50+10*16 {
		t.Errorf("%d bytes: more than one window of eleven calls", size)
	}
}

// One request may name a bucket with many spans.
func TestManySpansAtOnce(t *testing.T) {
	l := openFresh(t)
	r := limiter.Request{}
	for i := range 300 {
		r.Limits = append(r.Limits, limiter.Limit{Key: "a", Calls: 2 + i/299, Per: time.Hour + time.Duration(i)*time.Second})
	}
	for i := range 4 {
		d, err := l.Acquire(context.Background(), r)
		if err != nil || d.Granted != (i < 2) {
			t.Fatalf("call %d: %+v, %v", i, d, err)
		}
		if want := time.Hour + 298*time.Second; !d.Granted && (d.RetryAfter() > want || d.RetryAfter() < want-time.Minute) {
			t.Errorf("refused for %v, want about %v", d.RetryAfter(), want)
		}
	}
}

// A refusal with a longer span makes the history last, as a grant does: L-63.
func TestRefusalRemembersSpan(t *testing.T) {
	l := openFresh(t)
	ctx := context.Background()
	short, long := over("a", 2, 30*time.Millisecond), over("a", 2, time.Hour)
	for range 2 {
		if d, err := l.Acquire(ctx, short); err != nil || !d.Granted {
			t.Fatal(d, err)
		}
	}
	if d, err := l.Acquire(ctx, long); err != nil || d.Granted {
		t.Fatal(d, err)
	}
	time.Sleep(40 * time.Millisecond)
	if d, err := l.Acquire(ctx, long); err != nil || d.Granted || d.RetryAfter() < 59*time.Minute {
		t.Errorf("after the short span: %+v, %v", d, err)
	}
}

// A grant counts in the windows of its bucket that its request did not name.
func TestUnnamedWindowsCount(t *testing.T) {
	l := openFresh(t)
	ask := func(per time.Duration, calls int) bool {
		d, err := l.Acquire(context.Background(), over("a", calls, per))
		if err != nil {
			t.Fatal(err)
		}
		return d.Granted
	}
	if !ask(time.Minute, 3) || !ask(time.Second, 9) || !ask(time.Second, 9) {
		t.Fatal("refused with room")
	}
	if ask(time.Minute, 3) {
		t.Error("the minute does not count what was asked of the second")
	}
	if ask(time.Hour, 3) {
		t.Error("the hour does not count what the minute holds")
	}
}

// What counts no more is forgotten by Redis.
func TestForgets(t *testing.T) {
	l := openFresh(t)
	ctx := context.Background()
	r := limiter.Request{Key: "c", Hold: 20 * time.Millisecond, Limits: []limiter.Limit{
		{Key: "a", Calls: 9, Per: 20 * time.Millisecond, Cost: 2}, {Key: "p", Concurrent: 1}}}
	d, err := l.Acquire(ctx, r)
	if err != nil || !d.Granted {
		t.Fatal(d, err)
	}
	if err := l.Throttle(ctx, "c", time.Now().Add(20*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	p, _ := permitOf(d.Permit)
	keys := []string{l.key(bucketKey, hashOf("a")), l.key(bucketKey, hashOf("p")), l.key(throttleKey, hashOf("c")), l.recordOf(p.name)}
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		n, err := l.client.Do(ctx, l.client.B().Exists().Key(keys...).Build()).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
		if time.Since(start) > 5*time.Second {
			t.Fatalf("%d of %d keys are there still", n, len(keys))
		}
	}
}
