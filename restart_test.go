package paceline_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/budget/file"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/stub"
)

// keep gives a Transport what outlives it: a journal, a store, or both.
func (r *rig) keep(t *testing.T, home string, journal, store bool) {
	t.Helper()
	if journal {
		l, err := memory.Open(filepath.Join(home, "journal"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		r.Limiter = l
	}
	if store {
		s, err := file.Open(filepath.Join(home, "rate-limits"))
		if err != nil {
			t.Fatal(err)
		}
		r.Store = s
	}
}

// killed is a Transport in another process, over what the first has written so
// far. The provider is the same.
func (r *rig) killed(t *testing.T, home string, journal, store bool) (*rig, string) {
	t.Helper()
	after := t.TempDir()
	if err := os.CopyFS(after, os.DirFS(home)); err != nil {
		t.Fatal(err)
	}
	next := &rig{stub: r.stub, records: r.logged()}
	next.Transport = &paceline.Transport{Base: r.Base, Limiter: memory.New(), Providers: r.Providers, Log: next.log}
	next.keep(t, after, journal, store)
	return next, after
}

// P-86, tashfeenahmed/freellmapi#88: a told wait outlives the process, to the
// instant, by the journal as well as by the store.
func TestPauseOutlivesTheProcess(t *testing.T) {
	for name, by := range map[string]struct{ journal, store bool }{
		"journal": {true, false}, "store": {false, true}, "both": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, stub.Config{Script: []stub.Step{told(600 * sec)}}, paceline.Provider{Retry: paceline.Retry{Max: -1}})
				home := t.TempDir()
				r.keep(t, home, by.journal, by.store)
				start := time.Now()
				r.chat(t.Context()).want(t, 429)
				for range 2 {
					time.Sleep(100 * sec)
					r, home = r.killed(t, home, by.journal, by.store)
				}
				r.chat(t.Context()).want(t, 200)
				wantInstants(t, r.sent(start), 0, 600*sec)
				if c := r.stub.Counts(); c.Early > 0 {
					t.Errorf("%d sent into the stated wait", c.Early)
				}
			})
		})
	}
}

// mozilla-ai/any-llm#940: 55 of 60 requests used, then a restart: five more in
// that window, and not one too many in any.
func TestWindowOutlivesTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Meters: []stub.Meter{{Kind: stub.Rolling, Limit: 60, Per: time.Minute}}},
			paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 60, Pacing: paceline.Burst, WindowSlack: -1}})
		home := t.TempDir()
		r.keep(t, home, true, false)
		start := time.Now()
		r.together(55)
		time.Sleep(20 * sec)
		r, _ = r.killed(t, home, true, false)
		r.together(8)
		want := make([]time.Duration, 55, 63)
		want = append(want, 20*sec, 20*sec, 20*sec, 20*sec, 20*sec, 60*sec, 60*sec, 60*sec)
		wantInstants(t, r.sent(start), want...)
		if c := r.stub.Counts(); c.Refused > 0 {
			t.Errorf("%d refused", c.Refused)
		}
	})
}

// Places outlive the process, too: what it left behind at the provider holds
// them for 30 seconds.
func TestPlacesOutliveTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Service: 20 * sec}, paceline.Provider{Limits: paceline.Limits{MaxConcurrent: 2}})
		home := t.TempDir()
		r.keep(t, home, true, false)
		start := time.Now()
		done := make(chan struct{})
		go func() { r.together(2); close(done) }()
		time.Sleep(5 * sec)
		next, _ := r.killed(t, home, true, false)
		next.chat(t.Context()).want(t, 200)
		wantInstants(t, next.sent(start), 35*sec)
		<-done
	})
}

// P-106, P-110: the factor outlives the process, and its recovery goes on from
// the last change, not from the restart.
func TestFactorOutlivesTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{told(sec)}}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 14, WindowSlack: -1}})
		home := t.TempDir()
		r.keep(t, home, true, true)
		start := time.Now()
		r.chat(t.Context()).want(t, 200)
		for _, tt := range []struct {
			at    time.Duration
			apart time.Duration // 60 s ÷ (14 × the factor)
		}{
			{100 * sec, 6123 * time.Millisecond}, // 0.7
			{280 * sec, 6123 * time.Millisecond},
			{301 * sec, 5358 * time.Millisecond}, // 0.8
			{601 * sec, 4762 * time.Millisecond}, // 0.9
		} {
			time.Sleep(tt.at - time.Since(start))
			r, home = r.killed(t, home, true, true)
			from := len(r.sent(start))
			r.together(2)
			at := r.sent(start)[from:]
			if d := at[1] - at[0]; at[0] != tt.at || d < tt.apart-time.Millisecond || d > tt.apart+time.Millisecond {
				t.Errorf("after %v: at %v and %v later, want %v", tt.at, at[0], d, tt.apart)
			}
		}
	})
}
