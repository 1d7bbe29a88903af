package daemon

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/budget"
	"github.com/paceline-proxy/paceline/budget/file"
)

// A faulty store is one that hosts share. It may be out of reach, and take its
// time for that.
type faulty struct {
	budget.Store
	err   error
	hangs bool
}

func (f *faulty) Get(ctx context.Context, key string) ([]byte, error) {
	if f.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if f.err != nil {
		return nil, f.err
	}
	return f.Store.Get(ctx, key)
}

func (f *faulty) Update(ctx context.Context, key string, change func([]byte) []byte) error {
	if f.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if f.err != nil {
		return f.err
	}
	return f.Store.Update(ctx, key, change)
}

// What a host was told while the shared store was out of reach is known to it
// all the time, and to all afterwards, beside what they learned themselves.
func TestTwoStores(t *testing.T) {
	open := func() budget.Store {
		s, err := file.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	const key = "p/account/"
	shared := &faulty{Store: open()}
	s := &twoStores{shared: shared, own: open(), behind: make(map[string]bool)}
	now := time.Now()
	ctx := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	pause := func(s budget.Store, change func(*budget.State)) {
		t.Helper()
		if err := s.Update(ctx(), key, func(old []byte) []byte {
			state, err := budget.Decode(old, now)
			if err != nil {
				t.Error(err)
			}
			change(&state)
			b, err := budget.Encode(state)
			if err != nil {
				t.Error(err)
			}
			return b
		}); err != nil {
			t.Error(err)
		}
	}
	read := func(s budget.Store) budget.State {
		t.Helper()
		b, err := s.Get(ctx(), key)
		if err != nil {
			t.Fatal(err)
		}
		state, err := budget.Decode(b, now)
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	until := now.Add(time.Minute).Round(0)
	for _, away := range []func(){func() { shared.err = errors.New("out of reach") }, func() { shared.hangs = true }} {
		away()
		until = until.Add(time.Minute)
		pause(s, func(s *budget.State) { s.Close(now, until, budget.RateLimit, budget.Told) })
		if got := read(s).Pause.Until; !got.Equal(until) {
			t.Errorf("here, while it is away: paused until %v, want %v", got, until)
		}
		shared.err, shared.hangs = nil, false
		pause(shared, func(s *budget.State) { s.Factor.Value, s.Factor.Changed = 0.5, now })
		read(s)
		if got := read(shared); !got.Pause.Until.Equal(until) || got.Factor.Value != 0.5 {
			t.Errorf("everywhere, afterwards: %+v, %+v", got.Pause, got.Factor)
		}
	}
	// One that keeps nothing is no matter.
	shared.err = errors.ErrUnsupported
	pause(s, func(s *budget.State) { s.Factor.Value, s.Factor.Changed = 0.7, now.Add(-time.Second) })
	if read(s).Pause.Until.IsZero() || s.isBehind(key) {
		t.Error("what a limiter of counts alone does not keep is not here either")
	}
}
