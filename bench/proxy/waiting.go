package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/internal/history"
	"github.com/paceline-proxy/paceline/internal/home"
)

// perSecond is the declared rate of row 10; even pacing makes groups of it:
// so many starts in any 100 ms.
const (
	perSecond = 500
	group     = perSecond / 10
	span      = 100 * time.Millisecond
)

// A waiter is one request of row 10.
type waiter struct {
	came time.Time
	err  error
}

// waiting is row 10: so many requests come at once and are started at the
// declared rate.
func waiting(ctx context.Context) error {
	s, err := startAll(ctx, perSecond)
	defer s.stop()
	if err != nil {
		return err
	}
	// One request, so that what is needed once is there.
	if err := newLoad(s.paceline.addr, "/bench/v1/chat/completions", 0).one(ctx); err != nil {
		return err
	}
	pid := s.paceline.cmd.Process.Pid
	before, err := resident(pid)
	if err != nil {
		return err
	}
	// A pause has all of them wait at once.
	control := home.Home{Dir: s.home}.Client()
	if err := control.Control(ctx, "pause", map[string]any{"provider": "bench", "why": "measuring", "for_ms": 240_000}, nil); err != nil {
		return err
	}
	waiters := make([]waiter, *callers)
	var wg sync.WaitGroup
	for i := range waiters {
		conn, err := net.Dial("tcp", s.paceline.addr)
		if err != nil {
			return fmt.Errorf("caller %d: %w (is ulimit -n high enough?)", i, err)
		}
		w := &waiters[i]
		wg.Go(func() { w.ask(conn) })
	}
	for n := 0; n < *callers; time.Sleep(100 * time.Millisecond) {
		if n, err = line(ctx, control); err != nil {
			return err
		}
	}
	after, err := resident(pid)
	if err != nil {
		return err
	}
	if err := control.Control(ctx, "resume", map[string]any{"provider": "bench"}, nil); err != nil {
		return err
	}
	wg.Wait()
	for i, w := range waiters {
		if w.err != nil {
			return fmt.Errorf("caller %d: %w", i, w.err)
		}
	}
	scenario := fmt.Sprintf("%d callers, %d a second", *callers, perSecond)
	figure{Row: "10", Scenario: scenario, System: "paceline", Value: float64(after-before) / float64(*callers), Unit: "KiB each"}.print()
	overtaken, err := outOfOrder(ctx, s.home)
	if err != nil {
		return err
	}
	figure{Row: "10", Scenario: scenario, System: "paceline", Value: float64(overtaken), Unit: "overtaken"}.print()
	figure{Row: "10", Scenario: scenario, System: "paceline", Value: float64(lateness(waiters)) / float64(time.Millisecond), Unit: "ms late p99"}.print()
	return nil
}

// outOfOrder counts, in the log, the requests that one which arrived later was
// started before.
func outOfOrder(ctx context.Context, dir string) (n int, err error) {
	log, err := history.OpenReader(home.Home{Dir: dir}.Log())
	if err != nil {
		return 0, err
	}
	defer log.Close()
	var records []paceline.Record
	for len(records) < *callers { // it is written in the background
		records = records[:0]
		for r, err := range log.Records(ctx, history.Query{}) {
			if err != nil {
				return 0, err
			}
			records = append(records, r)
		}
	}
	slices.SortFunc(records, func(a, b paceline.Record) int { return a.Arrived.Compare(b.Arrived) })
	first := time.Now() // the first start of all that arrived later
	for i := len(records) - 1; i >= 0; i-- {
		// The log has milliseconds, and so no order within one.
		if records[i].Sent.After(first.Add(time.Millisecond)) {
			n++
		}
		if records[i].Sent.Before(first) {
			first = records[i].Sent
		}
	}
	return n, nil
}

// ask sends the request and waits for its answer.
func (w *waiter) ask(conn net.Conn) {
	defer conn.Close()
	_, w.err = fmt.Fprintf(conn, "POST /as/bench/bench/v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk-bench\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
	if w.err != nil {
		return
	}
	res, err := http.ReadResponse(bufio.NewReaderSize(conn, 2048), nil)
	if err != nil {
		w.err = err
		return
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	ns, err := strconv.ParseInt(res.Header.Get("X-Came"), 10, 64)
	if err != nil {
		w.err = fmt.Errorf("%s %.200s", res.Status, b)
		return
	}
	w.came = time.Unix(0, ns)
}

// lateness is how much later than its window let it each request came to the
// provider, at the 99th percentile.
func lateness(waiters []waiter) time.Duration {
	came := make([]time.Time, len(waiters))
	for i, w := range waiters {
		came[i] = w.came
	}
	slices.SortFunc(came, time.Time.Compare)
	var late []time.Duration
	for i := group; i < len(came); i++ {
		from := came[i-group].Add(span)
		if came[i-1].After(from) {
			from = came[i-1]
		}
		late = append(late, max(0, came[i].Sub(from)))
	}
	slices.Sort(late)
	return late[len(late)*99/100]
}

// line is how many wait.
func line(ctx context.Context, c *home.Client) (n int, err error) {
	var stats struct {
		Callers []struct {
			Waiting struct{ Interactive, Normal, Background int }
		}
	}
	err = c.Status(ctx, &stats)
	for _, l := range stats.Callers {
		n += l.Waiting.Interactive + l.Waiting.Normal + l.Waiting.Background
	}
	return n, err
}

// resident is the memory of a process in KiB.
func resident(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for l := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(l, "VmRSS:"); ok {
			return strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		}
	}
	return 0, fmt.Errorf("no VmRSS of process %d", pid)
}
