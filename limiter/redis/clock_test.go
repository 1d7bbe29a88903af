package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/servertest"
	"github.com/paceline-proxy/paceline/limiter"
)

// A wound limiter is one for which its server's clock is off by what a key says.
type wound struct {
	*Limiter
	t testing.TB
}

func openWound(t testing.TB) wound {
	t.Helper()
	l, err := Open(t.Context(), servertest.Redis(t), Options{Tag: fmt.Sprint(t.Name(), time.Now().UnixNano())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	const read = "local clock = time[1] * 1e6 + time[2]"
	if strings.Count(bucketLua, read) != 1 {
		t.Fatal("the script reads the clock in another way")
	}
	l.scripts = newScripts(strings.Replace(bucketLua, read, read+" + (redis.call('GET', '"+l.tag+"skew') or 0)", 1))
	return wound{l, t}
}

// set moves the clock to so much before or after the real one.
func (w wound) set(skew time.Duration) {
	w.t.Helper()
	b := w.client.B()
	err := w.client.Do(context.Background(), b.Set().Key(w.tag+"skew").Value(strconv.FormatInt(skew.Microseconds(), 10)).Build()).Error()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w wound) acquire(r limiter.Request) limiter.Decision {
	w.t.Helper()
	d, err := w.Acquire(context.Background(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

func (w wound) granted(r limiter.Request) limiter.Decision {
	w.t.Helper()
	d := w.acquire(r)
	if !d.Granted {
		w.t.Fatalf("refused for %v: %+v", d.RetryAfter(), d.Refused)
	}
	return d
}

// refused wants a refusal that lasts between two spans.
func (w wound) refused(r limiter.Request, least, most time.Duration) limiter.Decision {
	w.t.Helper()
	d := w.acquire(r)
	if after := d.RetryAfter(); d.Granted || after < least || after > most {
		w.t.Fatalf("granted: %t, refused for %v, want %v to %v", d.Granted, after, least, most)
	}
	return d
}

// opens wants a refusal to be over a span after a start, and not for long.
func (w wound) opens(r limiter.Request, start time.Time, span time.Duration) {
	w.t.Helper()
	for !w.acquire(r).Granted && time.Since(start) < span+6*time.Second {
		time.Sleep(10 * time.Millisecond)
	}
	if took := time.Since(start); took < span || took > span+5*time.Second {
		w.t.Errorf("open after %v, want %v", took, span)
	}
}

func over(key string, calls int, per time.Duration) limiter.Request {
	return limiter.Request{Key: "caller", Limits: []limiter.Limit{{Key: key, Calls: calls, Per: per}}}
}

// A server's clock that steps back neither stops what is under way nor lets it
// end early: each bucket goes on from where it was. L-28, L-46, L-69.
func TestClockStepsBack(t *testing.T) {
	w := openWound(t)
	ctx := context.Background()
	const per = 600 * time.Millisecond
	full, pair := over("full", 1, per), over("pair", 1, time.Hour)
	pair.Limits = append(pair.Limits, over("idle", 2, time.Hour).Limits...)
	place := limiter.Request{Key: "caller", Hold: per, Limits: []limiter.Limit{{Key: "place", Concurrent: 1}}}
	closed := limiter.Request{Key: "closed"}

	w.set(2 * time.Hour)
	start := time.Now()
	w.granted(full)
	w.granted(place)
	if err := w.Throttle(ctx, "closed", time.Now().Add(per)); err != nil {
		t.Fatal(err)
	}
	w.granted(over("pair", 2, time.Hour))
	// Redis forgets by its clock, too: what it would have kept stays.
	for _, key := range []string{w.key(bucketKey, hashOf("full")), w.key(bucketKey, hashOf("place")), w.key(throttleKey, hashOf("closed"))} {
		if n, err := w.client.Do(ctx, w.client.B().Persist().Key(key).Build()).AsInt64(); n != 1 {
			t.Fatalf("%q: %v", key, err)
		}
	}

	w.set(0)
	w.refused(full, per/10, per)
	w.refused(closed, per/10, per+time.Millisecond)
	w.granted(over("idle", 2, time.Hour)) // by a clock of its own, two hours behind
	w.refused(pair, 59*time.Minute, time.Hour)
	pair.Limits[0].Calls = 2
	w.granted(pair)
	w.refused(pair, 59*time.Minute, time.Hour)

	w.set(-time.Hour)
	w.refused(place, time.Millisecond, 100*time.Millisecond)
	w.refused(over("idle", 2, time.Hour), 59*time.Minute, time.Hour)
	w.opens(full, start, per)
	w.opens(closed, start, per)
	w.opens(place, start, per)
	if all := w.Warnings(); len(all) > 0 {
		t.Errorf("warnings: %q", all)
	}
}

// What was marked by a clock that has stepped back since is full for no longer
// than it would have been.
func TestClockStepsBackBehindMark(t *testing.T) {
	w := openWound(t)
	w.set(3 * time.Hour)
	const per = 300 * time.Millisecond
	w.granted(over("before", 1, per))
	err := w.client.Do(context.Background(), w.client.B().Del().Key(w.tag+"epoch").Build()).Error()
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	w.refused(over("short", 1, per), 1, per)
	w.set(0)
	w.opens(over("short", 1, per), start, per)
	if all := w.Warnings(); len(all) != 1 {
		t.Errorf("warnings: %q", all)
	}
}
