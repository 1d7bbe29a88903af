package memory

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/internal/ledger"
)

// FuzzOperations reads bytes as a sequence of operations on a few keys and
// compares what a limiter answers with plain lists. Two bytes an operation: what
// to do, and to what.
func FuzzOperations(f *testing.F) {
	f.Add([]byte("\x00\x01\x00\x01\x07\x10\x00\x01"))
	f.Add([]byte("\x01\xff\x02\x01\x03\x01\x04\x02\x05\x03\x06\x00\x07\xff\x01\x00"))
	f.Add([]byte("\x12\x01\x22\x02\x32\x03\x42\x04\x06\x80\x12\x01\x05\x00\x05\x00\x13\x02"))
	f.Fuzz(func(t *testing.T, ops []byte) {
		synctest.Test(t, func(t *testing.T) {
			run := &fuzzed{l: New().keepAll(), g: ledger.New(), held: map[string]time.Time{}}
			for i := 0; i+1 < len(ops) && i < 2000; i += 2 {
				if err := run.do(ops[i], int(ops[i+1])); err != nil {
					t.Fatalf("operation %d (%d %d): %v", i/2, ops[i], ops[i+1], err)
				}
			}
		})
	})
}

type fuzzed struct {
	l       *Limiter
	g       *ledger.Ledger
	permits []string
	held    map[string]time.Time // permit to lapse, of one bucket of places
	until   time.Time            // of the one caller that is throttled
}

func (f *fuzzed) do(op byte, arg int) error {
	ctx := context.Background()
	const places = 3
	now := time.Now()
	switch op % 8 {
	case 0, 1, 2, 3:
		key := fmt.Sprint("bucket ", op%4)
		per := time.Duration(1+op>>4) * time.Second
		r := limiter.Request{Key: "open", Cost: 1 + arg%4, Limits: []limiter.Limit{{Key: key, Calls: 4 + arg/16, Per: per}}}
		if op%4 == 3 {
			r.Limits = append(r.Limits, limiter.Limit{Key: key, Calls: 20, Per: 3 * per})
		}
		return f.g.Ask(f.l, r)
	case 4:
		hold := time.Duration(1+arg) * 100 * time.Millisecond
		d, err := f.l.Acquire(ctx, limiter.Request{Key: "closed", Hold: hold, Limits: []limiter.Limit{
			{Key: "p", Concurrent: places}, {Key: "q", Concurrent: places},
		}})
		if err != nil {
			return err
		}
		live := 0
		for _, lapse := range f.held {
			if lapse.After(now) {
				live++
			}
		}
		if want := live < places && !f.until.After(now); d.Granted != want {
			return fmt.Errorf("granted: %t with %d of %d held and %v of throttle", d.Granted, live, places, f.until.Sub(now))
		}
		if d.Granted {
			f.permits = append(f.permits, d.Permit)
			f.held[d.Permit] = now.Add(hold)
		}
	case 5:
		if len(f.permits) == 0 {
			return nil
		}
		permit := f.permits[arg%len(f.permits)]
		if arg < 200 {
			delete(f.held, permit)
			return f.l.Release(ctx, permit)
		}
		if f.held[permit].After(now) {
			f.held[permit] = now.Add(time.Second)
		}
		return f.l.Renew(ctx, []string{permit}, time.Second)
	case 6:
		until := now.Add(time.Duration(arg-64) * 20 * time.Millisecond)
		if until.After(f.until) {
			f.until = until
		}
		return f.l.Throttle(ctx, "closed", until)
	case 7:
		time.Sleep(time.Duration(arg) * 50 * time.Millisecond / time.Duration(1+op>>4))
	}
	return nil
}
