//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/servertest"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/postgres"
)

// A server that is killed loses its latest commits. What was granted in them is
// not granted again: short windows count as full for a span, long ones have their
// promises counted, places are taken for a hold.
func TestServerCrash(t *testing.T) {
	t.Parallel()
	server := servertest.StartPostgres(t)
	l := open(t, server.URL, postgres.Options{})
	const span, hold = 1500 * time.Millisecond, 2 * time.Second
	const calls, promised = 20000, 20000 / 64
	long := limiter.Request{Key: "c", Limits: []limiter.Limit{{Key: "long", Calls: calls, Per: time.Hour}}}
	short := limiter.Request{Key: "c", Limits: []limiter.Limit{{Key: "short", Calls: calls, Per: span}}}
	place := limiter.Request{Key: "c", Hold: hold, Limits: []limiter.Limit{{Key: "place", Concurrent: 1}}}

	total := 0
	for round := range 2 {
		// Nobody writes what was not waited for.
		writer, err := strconv.Atoi(ask(t, server.URL, "select pid from pg_stat_activity where backend_type = 'walwriter'"))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(writer, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		defer syscall.Kill(writer, syscall.SIGCONT)
		granted(t, l, limiter.Request{Key: "c", Limits: []limiter.Limit{{Key: fmt.Sprint("before ", round), Calls: 1, Per: span}}}, true)
		held := granted(t, l, place, true)
		n := fill(l, long, 300)
		total += n
		fill(l, short, 20)
		server.Kill()
		if err := syscall.Kill(writer, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		server.Restart()

		var v limiter.View
		if err := again(func() (err error) { v, err = l.Peek(t.Context(), "c", long.Limits); return err }); err != nil {
			t.Fatal(err)
		}
		forgotten := total - v.Usage[0].Used
		t.Logf("%d granted so far, the server forgot %d", total, forgotten)
		if round == 0 && forgotten < 100 {
			t.Error("too little was lost to show anything")
		}
		first := granted(t, l, long, true)
		total++
		v, err = l.Peek(t.Context(), "c", long.Limits)
		if most := total + (round+1)*(promised+1); err != nil || v.Usage[0].Used < total || v.Usage[0].Used > most {
			t.Errorf("%d count after %d were granted, want no less and at most %d: %v", v.Usage[0].Used, total, most, err)
		}
		for what, r := range map[string]limiter.Request{"the short window": short, "a window of the same span that it may have forgotten": {
			Key: "c", Limits: []limiter.Limit{{Key: fmt.Sprint("after ", round), Calls: 1, Per: span}}}} {
			d := granted(t, l, r, false)
			if until := d.RetryAt.Sub(first.Now); until <= 0 || until > span {
				t.Errorf("%s opens %v after the loss was noticed, want at most its span", what, until)
			}
		}
		d := granted(t, l, place, false)
		if d.Refused[0].Cause != limiter.Concurrent || d.RetryAfter() > 100*time.Millisecond {
			t.Errorf("a place that may be held: %+v", d)
		}
		if w := l.Warnings(); len(w) != 1 || !strings.Contains(w[0], "lost its latest commits") {
			t.Errorf("warnings: %q", w)
		}
		if err := l.Release(t.Context(), held.Permit); err != nil {
			t.Error(err)
		}
		time.Sleep(hold + 10*time.Millisecond)
		d = granted(t, l, place, true)
		granted(t, l, short, true)
		if err := l.Release(t.Context(), d.Permit); err != nil {
			t.Error(err)
		}
	}
}

// fill has n calls granted by several at once and says how many were.
func fill(l limiter.Limiter, r limiter.Request, n int) int {
	var granted atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range n / 4 {
				if d, err := l.Acquire(context.Background(), r); err == nil && d.Granted {
					granted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return int(granted.Load())
}

// Where every grant is on the disk before it is answered, a crash forgets nothing
// and holds nothing up.
func TestServerCrashDurable(t *testing.T) {
	t.Parallel()
	server := servertest.StartPostgres(t, "synchronous_commit=off", "wal_writer_delay=10s")
	l := open(t, with(t, server.URL, "durable", "true"), postgres.Options{})
	r := limiter.Request{Key: "c", Hold: time.Minute, Limits: []limiter.Limit{{Key: "a", Calls: 10, Per: time.Minute}, {Key: "p", Concurrent: 5}}}
	for range 5 {
		granted(t, l, r, true)
	}
	server.Kill()
	server.Restart()
	var d limiter.Decision
	if err := again(func() (err error) { d, err = l.Acquire(t.Context(), r); return err }); err != nil {
		t.Fatal(err)
	}
	if d.Granted || d.Refused[0].Cause != limiter.Concurrent {
		t.Errorf("a sixth place of 5: %+v", d)
	}
	calls := limiter.Request{Key: "c", Limits: r.Limits[:1]}
	for range 5 {
		granted(t, l, calls, true)
	}
	granted(t, l, calls, false)
	if w := l.Warnings(); len(w) > 0 {
		t.Error(w)
	}
}

// A server that hangs holds nobody longer than their context, nor Close.
func TestServerHangs(t *testing.T) {
	t.Parallel()
	server := servertest.StartPostgres(t)
	l := open(t, server.URL, postgres.Options{})
	other := open(t, server.URL, postgres.Options{})
	granted(t, l, once, true)
	var pids []int
	for field := range strings.FieldsSeq(ask(t, server.URL, `select string_agg(pid::text, ' ') || ' ' || split_part(pg_read_file('postmaster.pid'), E'\n', 1) from pg_stat_activity`)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	signal := func(s syscall.Signal) {
		for _, pid := range pids {
			if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
				t.Error(err)
			}
		}
	}
	signal(syscall.SIGSTOP)
	defer signal(syscall.SIGCONT)

	held := limiter.Request{Key: "c", Hold: time.Second, Limits: []limiter.Limit{{Key: "p", Concurrent: 1}}}
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		began := time.Now()
		_, err := l.Acquire(ctx, held)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !says(err, "PostgreSQL at "+server.Addr) {
			t.Errorf("while it hangs: %v", err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("held for %v with a deadline of 100 ms", took)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if err := l.Throttle(ctx, "c", time.Now().Add(time.Hour)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	failed := make(chan error)
	go func() {
		_, err := other.Peek(context.Background(), "c", nil)
		failed <- err
	}()
	time.Sleep(50 * time.Millisecond)
	began := time.Now()
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	if err := <-failed; err == nil {
		t.Error("a call of a limiter that was closed was answered by a server that hangs")
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("Close took %v", took)
	}
	signal(syscall.SIGCONT)
	// What the abandoned calls were granted lapses.
	deadline := time.Now().Add(10 * time.Second)
	for {
		d, err := l.Acquire(t.Context(), held)
		if err == nil && d.Granted {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no place after it went on: %+v, %v", d, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
