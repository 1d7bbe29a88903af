package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/sqlite"
)

// Limits that processes in a hurry use to the full.
var (
	long  = limiter.Limit{Key: "rate", Calls: 400, Per: 800 * time.Millisecond}
	short = limiter.Limit{Key: "rate", Calls: 60, Per: 100 * time.Millisecond}
	seats = limiter.Limit{Key: "seats", Concurrent: 5}
)

const seatHold = 300 * time.Millisecond

// hurry asks without a pause until it is killed. Of each call that was granted it
// says when, by the file's clock.
func hurry(path string) error {
	ctx := context.Background()
	l, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		r := limiter.Request{Key: "c", Limits: []limiter.Limit{long, short}, Hold: seatHold}
		if i%8 == 0 {
			r.Limits = append(r.Limits, seats)
		}
		d, err := l.Acquire(ctx, r)
		if err != nil {
			return err
		}
		if d.Granted {
			fmt.Println(d.Now.UnixNano())
		}
		if i%16 == 0 { // the others lapse
			if err := l.Release(ctx, d.Permit); err != nil {
				return err
			}
		}
	}
}

// kill -9 in the middle of writing loses nothing that was granted, exceeds no
// window, and leaves a sound file; places of the dead lapse with their hold:
// CC-25, CC-27, L-27, L-60.
func TestKilled(t *testing.T) {
	if path := os.Getenv("PACELINE_HURRY"); path != "" {
		t.Fatal(hurry(path))
	}
	t.Parallel()
	const processes, rounds = 3, 4
	path := filepath.Join(t.TempDir(), "limits.db")
	l := open(t, path)
	ctx := context.Background()
	var told []int64
	for range rounds {
		logs := make([]string, processes)
		var running []*exec.Cmd
		for i := range logs {
			logs[i] = filepath.Join(t.TempDir(), "granted")
			out, err := os.Create(logs[i])
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
			cmd.Env = append(os.Environ(), "PACELINE_HURRY="+path)
			cmd.Stdout, cmd.Stderr = out, out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			running = append(running, cmd)
		}
		late := time.Now().Add(20 * time.Second)
		for _, log := range logs { // until all are at work
			for is, err := os.Stat(log); (err != nil || is.Size() < 1000) && time.Now().Before(late); is, err = os.Stat(log) {
				time.Sleep(time.Millisecond)
			}
		}
		time.Sleep(rand.N(30 * time.Millisecond))
		for _, cmd := range running {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
		for i, cmd := range running {
			if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != -1 {
				text, _ := os.ReadFile(logs[i])
				t.Fatalf("not killed: %v: %s", err, text)
			}
		}
		v, err := l.Peek(ctx, "c", []limiter.Limit{long, short, seats})
		if err != nil {
			t.Fatal(err)
		}
		for _, log := range logs {
			told = append(told, instants(t, log)...)
		}
		// Each of them may have been granted one more than it came to tell.
		for i, limit := range []limiter.Limit{long, short} {
			n := 0
			for _, at := range told {
				if at > v.Now.UnixNano()-int64(limit.Per) {
					n++
				}
			}
			if used := v.Usage[i].Used; used < n || used > n+processes || used > limit.Calls {
				t.Errorf("%d counted in %v, %d were told of", used, limit.Per, n)
			}
		}
		if v.Usage[2].Held > seats.Concurrent {
			t.Errorf("%d held", v.Usage[2].Held)
		}
		sound(t, path)
	}
	slices.Sort(told)
	for _, limit := range []limiter.Limit{long, short} {
		for i := limit.Calls; i < len(told); i++ {
			if span := time.Duration(told[i] - told[i-limit.Calls]); span < limit.Per {
				t.Fatalf("%d calls within %v, want at most %d in any %v", limit.Calls+1, span, limit.Calls, limit.Per)
			}
		}
	}
	t.Logf("%d grants", len(told))

	time.Sleep(seatHold)
	for range seats.Concurrent {
		granted(t, l, limiter.Request{Limits: []limiter.Limit{seats}, Hold: time.Minute})
	}
	refused(t, l, limiter.Request{Limits: []limiter.Limit{seats}, Hold: time.Minute})
}

// instants reads what a process in a hurry has told.
func instants(t *testing.T, log string) (all []int64) {
	f, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for {
		var at int64
		if _, err := fmt.Fscanln(f, &at); err != nil {
			if len(all) == 0 {
				t.Fatal(errors.Join(errors.New("it told nothing"), err))
			}
			return all
		}
		all = append(all, at)
	}
}
