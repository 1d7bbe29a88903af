package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/internal/ledger"
)

// A world is a machine that can crash, and lose its power, at any instant.
type world struct {
	*Limiter
	t    *testing.T
	path string
	run  string    // of the machine; empty: unknown
	up   time.Time // since when it runs
	j    Journal   // with what to open the next
}

// quick is a disk that is never waited for.
var quick = storage{
	create: func(path string) (file, error) {
		f, err := create(path)
		return unsynced{f}, err
	},
	syncDir: func(string) {},
}

type unsynced struct{ file }

func (unsynced) Sync() error { return nil }

func newWorld(t *testing.T) *world {
	w := &world{t: t, path: filepath.Join(t.TempDir(), "journal"), run: "run 1", up: time.Now().Add(-time.Hour)}
	w.open()
	return w
}

func (w *world) open() {
	w.t.Helper()
	w.j.Path = w.path
	m := machine{bootID: w.run, boot: func() int64 { return int64(time.Since(w.up)) }, suspended: func() int64 { return 0 }}
	l, err := w.j.open(m, quick)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Limiter = l
	w.t.Cleanup(func() { l.Close() })
}

// crash goes on with what is in the journal at this instant.
func (w *world) crash(edit ...func([]byte) []byte) {
	w.t.Helper()
	raw, err := os.ReadFile(w.path)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range edit {
		raw = e(raw)
	}
	w.path = filepath.Join(w.t.TempDir(), "journal")
	if err := os.WriteFile(w.path, raw, 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.open()
}

func (w *world) ask(limits ...limiter.Limit) limiter.Decision {
	w.t.Helper()
	d, err := w.Acquire(context.Background(), limiter.Request{Key: "c", Limits: limits, Hold: time.Minute})
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// refused asks for a call that must be refused for so long.
func (w *world) refused(want time.Duration, limits ...limiter.Limit) {
	w.t.Helper()
	if d := w.ask(limits...); d.Granted || d.RetryAfter() != want {
		w.t.Errorf("granted: %t, or after %v, want %v", d.Granted, d.RetryAfter(), want)
	}
}

func rate(key string, calls int, per time.Duration) limiter.Limit {
	return limiter.Limit{Key: key, Calls: calls, Per: per}
}

// CC-27: what was granted, held and closed before a crash is so after it, to
// the nanosecond, also twice over.
func TestJournalSurvives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		minute, hour, places := rate("a", 2, time.Minute), rate("a", 3, time.Hour), limiter.Limit{Key: "p", Concurrent: 2}
		w.ask(minute, hour, places)
		time.Sleep(10 * time.Second)
		second := w.ask(minute, hour, places)
		if err := w.Throttle(context.Background(), "closed", time.Now().Add(10*time.Minute)); err != nil {
			t.Fatal(err)
		}
		if err := w.Throttle(context.Background(), "opened", time.Now().Add(10*time.Minute)); err != nil {
			t.Fatal(err)
		}
		if err := w.Limiter.Open(context.Background(), "opened"); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			time.Sleep(5 * time.Second)
			w.crash()
			if r := w.Recovered(); r.Fresh || r.Damaged || r.Rebooted || r.Records == 0 || r.Cut != 0 || r.Aside != "" {
				t.Errorf("recovered %+v", r)
			}
		}
		w.refused(40*time.Second, minute)
		w.refused(40*time.Second, minute, hour)
		// A predecessor's permits lapse after Hold, counted from the first to
		// find them, and cannot be released.
		if err := w.Release(context.Background(), second.Permit); err != nil {
			t.Fatal(err)
		}
		w.refused(25*time.Second, places)
		v, err := w.Peek(context.Background(), "closed", []limiter.Limit{minute, hour, places})
		if err != nil || v.Throttled.Sub(v.Now) != 10*time.Minute-10*time.Second ||
			v.Usage[0].Used != 2 || v.Usage[1].Used != 2 || v.Usage[2].Held != 2 {
			t.Errorf("%+v, %v", v, err)
		}
		if v, _ := w.Peek(context.Background(), "opened", nil); !v.Throttled.IsZero() {
			t.Errorf("what was opened is closed until %v", v.Throttled)
		}
		time.Sleep(40 * time.Second)
		if !w.ask(minute, hour).Granted {
			t.Error("refused with room")
		}
		w.refused(time.Hour-time.Minute, hour)
	})
}

// rewritten is a journal whose records are edited.
func rewritten(edit func(*record)) func([]byte) []byte {
	return func(raw []byte) []byte {
		edited := append([]byte(nil), raw[:headerSize]...)
		for raw = raw[headerSize:]; len(raw) >= recordSize; raw = raw[recordSize:] {
			r, ok := parse(raw)
			if !ok {
				panic("unreadable")
			}
			edit(&r)
			edited = r.add(edited)
		}
		return edited
	}
}

// The wall clock of the machine that wrote a journal, moved by so much.
func walls(by time.Duration) func([]byte) []byte {
	return rewritten(func(r *record) { r.wall += int64(by) })
}

// In one run of the machine ages are exact, whatever is done to the wall clock;
// in another they are the wall clock's, and what it dates in the future has
// happened just now. clock_skew.
func TestJournalAndClocks(t *testing.T) {
	for name, tt := range map[string]struct {
		reboot         bool
		stepped        time.Duration // the wall clock, between
		window, closed time.Duration
	}{
		"the same run": {false, 0, 40 * time.Second, 580 * time.Second},
		"the same run, a wall clock set back an hour":  {false, time.Hour, 40 * time.Second, 580 * time.Second},
		"the same run, a wall clock set on by an hour": {false, -time.Hour, 40 * time.Second, 580 * time.Second},
		"another run": {true, 0, 40 * time.Second, 580 * time.Second},
		"another run, a wall clock set back ten seconds":  {true, 10 * time.Second, 50 * time.Second, 590 * time.Second},
		"another run, a wall clock set back an hour":      {true, time.Hour, time.Minute, 600 * time.Second},
		"another run, a wall clock set on by ten seconds": {true, -10 * time.Second, 30 * time.Second, 570 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				limit := rate("a", 1, time.Minute)
				w.ask(limit)
				if err := w.Throttle(context.Background(), "k", time.Now().Add(10*time.Minute)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Second)
				if tt.reboot {
					w.run, w.up = "run 2", time.Now().Add(-3*time.Second)
				}
				w.crash(walls(tt.stepped))
				if w.Recovered().Rebooted != tt.reboot {
					t.Errorf("rebooted: %t", !tt.reboot)
				}
				w.crash() // what was written anew says the same
				w.refused(tt.window, limit)
				if v, _ := w.Peek(context.Background(), "k", nil); v.Throttled.Sub(v.Now) != tt.closed {
					t.Errorf("closed for %v, want %v", v.Throttled.Sub(v.Now), tt.closed)
				}
			})
		})
	}
}

// A sleep that the limiter had not noticed when it crashed counts.
func TestJournalAndSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "journal")
		slept := time.Duration(0)
		m := machine{"run", func() int64 { return int64(time.Since(time.Unix(0, 0)) + slept) }, func() int64 { return int64(slept) }}
		l, err := Journal{Path: path}.open(m, quick)
		if err != nil {
			t.Fatal(err)
		}
		w := &world{Limiter: l, t: t}
		old, young := rate("old", 1, 2*time.Hour), rate("young", 1, 2*time.Hour)
		w.ask(old)
		time.Sleep(100 * time.Millisecond)
		slept = time.Hour
		l.journal.apart = 0 // as if the wall's clock had moved on by it
		w.ask(young)
		l.Close()
		w.Limiter, err = Journal{Path: path}.open(m, quick)
		if err != nil {
			t.Fatal(err)
		}
		w.refused(time.Hour-100*time.Millisecond, old)
		w.refused(2*time.Hour, young)
		w.Close()
	})
}

// A limiter that crashes ever and again decides as a ledger does that never
// forgets: same grants, same instants.
func TestJournalMatchesLedger(t *testing.T) {
	for n := range uint64(12) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(n, 3))
			w, g := newWorld(t), ledger.New()
			limits := func() (all []limiter.Limit) {
				for _, key := range rng.Perm(3)[:1+rng.IntN(2)] {
					cost := 1 + rng.IntN(3)
					// An empty bucket is forgotten, and with it how far back it was to
					// remember: always the longest, so that this makes no difference.
					all = append(all, limiter.Limit{Key: fmt.Sprint("k", key), Calls: 30, Per: 22 * time.Second, Cost: cost})
					for _, per := range rng.Perm(3)[:rng.IntN(3)] {
						all = append(all, limiter.Limit{Key: fmt.Sprint("k", key), Calls: cost + rng.IntN(8), Per: time.Duration(1+7*per) * time.Second, Cost: cost})
					}
				}
				return all
			}
			for range 400 {
				if err := g.Ask(w.Limiter, limiter.Request{Limits: limits()}); err != nil {
					t.Fatalf("seed %d: %v", n, err)
				}
				time.Sleep(time.Duration(rng.IntN(int(time.Second))))
				if rng.IntN(80) == 0 {
					time.Sleep(30 * time.Second) // until nothing counts any more
				}
				switch rng.IntN(40) {
				case 0:
					w.crash()
				case 1:
					w.run, w.up = fmt.Sprint(rng.Uint64()), time.Now()
					w.crash()
				case 2:
					w.journal.ticks.Lock()
					err := w.rewrite()
					w.journal.ticks.Unlock()
					if err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// What merged in a full window is dated late after a restart, too: no span
// holds more than the limit.
func TestJournalOfMergedWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const calls, per = 5000, time.Minute
		limit := rate("a", calls, per)
		rng := rand.New(rand.NewPCG(4, 2))
		var grants []time.Time
		for next := time.Now().Add(3 * time.Minute); time.Now().Before(next); {
			if w.ask(limit).Granted {
				grants = append(grants, time.Now())
			}
			time.Sleep(time.Duration(rng.IntN(int(12 * time.Millisecond))))
			if len(grants)%1500 == 1499 {
				w.crash()
			}
		}
		for i := range grants {
			if i >= calls && grants[i].Sub(grants[i-calls]) < per {
				t.Fatalf("%d grants in %v", calls+1, grants[i].Sub(grants[i-calls]))
			}
		}
		if len(grants) < 2*calls {
			t.Errorf("only %d grants", len(grants))
		}
	})
}

// What has been damaged costs itself, is said, and is kept beside the journal.
func TestJournalDamaged(t *testing.T) {
	at := func(i int) int { return headerSize + i*recordSize }
	flip := func(i int) func([]byte) []byte {
		return func(b []byte) []byte { b[i] ^= 0x40; return b }
	}
	for name, tt := range map[string]struct {
		damage func([]byte) []byte
		want   Recovery
		known  bool // that the window is full
	}{
		"nothing":                      {func(b []byte) []byte { return b }, Recovery{}, true},
		"an empty file":                {func([]byte) []byte { return nil }, Recovery{Fresh: true}, false},
		"a text":                       {func([]byte) []byte { return []byte("dear diary\n") }, Recovery{Damaged: true}, false},
		"a long text":                  {func([]byte) []byte { return bytes.Repeat([]byte("dear diary\n"), 1000) }, Recovery{Damaged: true}, false},
		"half a header":                {func(b []byte) []byte { return b[:headerSize/2] }, Recovery{Damaged: true}, false},
		"a damaged header":             {flip(30), Recovery{Damaged: true}, false},
		"a newer version":              {func(b []byte) []byte { b[16] = version + 1; return b }, Recovery{Newer: true}, false},
		"a header alone":               {func(b []byte) []byte { return b[:headerSize] }, Recovery{}, false},
		"a torn record":                {func(b []byte) []byte { return b[:len(b)-5] }, Recovery{Cut: recordSize - 5}, true},
		"zeros at the end":             {func(b []byte) []byte { return append(b, make([]byte, 1000)...) }, Recovery{Cut: 1000}, true},
		"its last record damaged":      {func(b []byte) []byte { return flip(len(b) - 3)(b) }, Recovery{Cut: recordSize}, true},
		"a record in the middle":       {flip(at(4) + 20), Recovery{Damaged: true}, true},
		"a key":                        {flip(at(0) + 9), Recovery{Damaged: true}, false},
		"a piece of a key":             {flip(at(1) + 9), Recovery{Damaged: true}, false},
		"a record twice":               {func(b []byte) []byte { return append(b, b[len(b)-recordSize:]...) }, Recovery{}, true},
		"a hole in a place of records": {func(b []byte) []byte { clear(b[at(5):at(7)]); return b }, Recovery{Damaged: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				limit := rate(strings.Repeat("a long key ", 10), 3, time.Minute)
				for w.ask(limit).Granted {
				}
				// key, three pieces of it, window, three grants; then what may go.
				w.ask(rate("b", 1, time.Second))
				w.crash(tt.damage)
				got := w.Recovered()
				if (got.Aside != "") != (tt.want.Damaged || tt.want.Newer) {
					t.Errorf("set aside as %q", got.Aside)
				}
				if got.Aside != "" {
					if kept, err := os.ReadFile(got.Aside); err != nil || len(kept) == 0 {
						t.Errorf("not kept: %v", err)
					}
				}
				got.Aside, got.Records = "", 0
				if got != tt.want {
					t.Errorf("recovered %+v, want %+v", got, tt.want)
				}
				v, err := w.Peek(context.Background(), "c", []limiter.Limit{limit})
				if known := v.Usage[0].Used > 0; err != nil || known != tt.known {
					t.Errorf("%d used, %v", v.Usage[0].Used, err)
				}
				// It goes on, and the next finds a sound journal.
				for w.ask(limit).Granted {
				}
				w.crash()
				w.refused(time.Minute, limit)
				if r := w.Recovered(); r.Damaged || r.Fresh {
					t.Errorf("afterwards %+v", r)
				}
			})
		})
	}
}

// Where the windows are seeded, those of a damaged journal are not counted
// twice, and its throttles and places are kept.
func TestJournalDamagedAndSeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		limit, places := rate("a", 9, time.Minute), limiter.Limit{Key: "p", Concurrent: 1}
		w.ask(limit, places)
		w.ask(limit)
		w.ask(limit)
		if err := w.Throttle(context.Background(), "k", time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		w.j.Seeded = true
		w.crash(func(b []byte) []byte { b[len(b)-4*recordSize] ^= 1; return b })
		v, err := w.Peek(context.Background(), "k", []limiter.Limit{limit, places})
		if err != nil || !w.Recovered().Damaged || v.Usage[0].Used != 0 || v.Usage[1].Held != 1 || v.Throttled.Sub(v.Now) != time.Minute {
			t.Errorf("%+v, %+v, %v", w.Recovered(), v, err)
		}
	})
}

// How long a predecessor's places stay taken may differ by bucket.
func TestJournalHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, key := range []string{"near", "far", "farther"} {
			w.ask(limiter.Limit{Key: key, Concurrent: 1})
		}
		time.Sleep(50 * time.Second) // of the minute that they are held for
		w.j.HoldOf = func(bucket string) time.Duration {
			return map[string]time.Duration{"far": 5 * time.Second, "farther": time.Hour}[bucket]
		}
		w.crash()
		if !w.ask(limiter.Limit{Key: "near", Concurrent: 1}).Granted {
			t.Error("held for a provider that stops at once")
		}
		w.refused(5*time.Second, limiter.Limit{Key: "far", Concurrent: 1})
		w.refused(10*time.Second, limiter.Limit{Key: "farther", Concurrent: 1})
	})
}

// Two processes cannot share a journal: CC-28.
func TestJournalInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "journal")
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); !errors.Is(err, ErrInUse) {
		t.Errorf("opened twice: %v", err)
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	again, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	// One that was closed goes on, unwritten.
	w := world{Limiter: l, t: t}
	if !w.ask(rate("a", 1, time.Minute)).Granted || w.ask(rate("a", 1, time.Minute)).Granted {
		t.Error("a closed limiter does not count")
	}
}

// A disk is a file system that can be full.
type disk struct{ full atomic.Bool }

type diskFile struct {
	file
	disk *disk
}

func (d *disk) create(path string) (file, error) {
	f, err := create(path)
	return diskFile{f, d}, err
}

func (f diskFile) Write(b []byte) (int, error) {
	if f.disk.full.Load() {
		n, _ := f.file.Write(b[:len(b)/2])
		return n, errors.New("no space left on device")
	}
	return f.file.Write(b)
}

// A full disk stops no request. It is said once, tried again, and once there is
// room everything that counts is in the journal.
func TestJournalOnAFullDisk(t *testing.T) {
	for name, full := range map[string]bool{"from the start": true, "later": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d disk
				d.full.Store(full)
				var log bytes.Buffer
				w := &world{t: t, path: filepath.Join(t.TempDir(), "journal"), run: "run", up: time.Now()}
				w.j.Logger = slog.New(slog.NewTextHandler(&log, nil))
				m := machine{bootID: w.run, boot: func() int64 { return int64(time.Since(w.up)) }, suspended: func() int64 { return 0 }}
				l, err := Journal{Path: w.path, Logger: w.j.Logger}.open(m, storage{d.create, quick.syncDir})
				if err != nil {
					t.Fatal(err)
				}
				w.Limiter = l
				defer l.Close()
				limit := rate("a", 9, time.Hour)
				w.ask(limit)
				d.full.Store(true)
				for range 5 {
					if !w.ask(limit).Granted {
						t.Fatal("refused with room")
					}
					time.Sleep(700 * time.Millisecond)
				}
				d.full.Store(false)
				time.Sleep(1100 * time.Millisecond)
				synctest.Wait()
				w.ask(limit)
				if text := log.String(); strings.Count(text, "cannot be written") != 1 || strings.Count(text, "written again") != 1 {
					t.Errorf("said:\n%s", text)
				}
				w.crash()
				if v, _ := w.Peek(context.Background(), "c", []limiter.Limit{limit}); v.Usage[0].Used != 7 {
					t.Errorf("%d of 7 calls are known", v.Usage[0].Used)
				}
			})
		})
	}
}

// A grant is one write, made before Acquire returns; a refusal is none.
func TestOneWriteForAGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writes := 0
		count := func(path string) (file, error) {
			f, err := create(path)
			return counted{f, &writes}, err
		}
		l, err := Journal{Path: filepath.Join(t.TempDir(), "journal")}.open(machine{"", func() int64 { return 0 }, func() int64 { return 0 }}, storage{count, quick.syncDir})
		if err != nil {
			t.Fatal(err)
		}
		w := world{Limiter: l, t: t}
		limits := []limiter.Limit{rate("a", 1, time.Minute), rate("a", 5, time.Hour), {Key: "p", Concurrent: 1}}
		for _, want := range []int{1, 0} {
			before := writes
			w.ask(limits...)
			if writes-before != want {
				t.Errorf("%d writes, want %d", writes-before, want)
			}
		}
		l.Close()
	})
}

type counted struct {
	file
	writes *int
}

func (c counted) Write(b []byte) (int, error) { *c.writes++; return c.file.Write(b) }

// Compacting loses nothing that is granted or released meanwhile, and keeps
// the file small.
func TestCompactingUnderLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	const keys = 200
	var granted [keys]atomic.Int64
	var held [keys]atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 1))
			for !stop.Load() {
				a, b := rng.IntN(keys), rng.IntN(keys)
				if a == b {
					continue
				}
				d, err := l.Acquire(context.Background(), limiter.Request{Hold: time.Hour, Limits: []limiter.Limit{
					{Key: fmt.Sprint(a), Calls: 1e6, Per: time.Hour, Concurrent: 1e6}, {Key: fmt.Sprint(b), Calls: 1e6, Per: time.Hour, Concurrent: 1e6},
				}})
				if err != nil || !d.Granted {
					t.Error(d, err)
					return
				}
				granted[a].Add(1)
				granted[b].Add(1)
				if rng.IntN(8) > 0 {
					l.Release(context.Background(), d.Permit)
				} else {
					held[a].Add(1)
					held[b].Add(1)
				}
			}
		})
	}
	for range 20 {
		l.journal.ticks.Lock()
		err := l.rewrite()
		l.journal.ticks.Unlock()
		if err != nil {
			t.Error(err)
		}
	}
	stop.Store(true)
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, err = Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if l.Recovered().Damaged {
		t.Error("damaged")
	}
	most := int64(headerSize)
	for i := range keys {
		most += (1024 + 8 + held[i].Load()) * recordSize
		v, err := l.Peek(context.Background(), "", []limiter.Limit{{Key: fmt.Sprint(i), Calls: 1, Per: time.Hour, Concurrent: 1}})
		if err != nil || int64(v.Usage[0].Used) != granted[i].Load() || int64(v.Usage[0].Held) != held[i].Load() {
			t.Fatalf("bucket %d: %+v, want %d and %d", i, v.Usage[0], granted[i].Load(), held[i].Load())
		}
	}
	if info, err := os.Stat(path); err != nil || info.Size() > most {
		t.Errorf("%v bytes, want %d at most, %v", info.Size(), most, err)
	}
}

// A journal that grows is compacted by itself.
func TestCompactsPastItsSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.journal.atMost = 20_000
		limit := rate("a", 100, time.Second)
		for range 2000 {
			w.ask(limit)
			time.Sleep(10 * time.Millisecond)
			if info, err := os.Stat(w.path); err != nil || info.Size() > 20_000+150*recordSize {
				t.Fatalf("%d bytes, %v", info.Size(), err)
			}
			w.journal.mu.Lock()
			w.journal.atMost = 20_000
			w.journal.mu.Unlock()
		}
	})
}

const childOf = "PACELINE_TEST_JOURNAL"

// TestMain is also the process that TestKill kills.
func TestMain(m *testing.M) {
	if path := os.Getenv(childOf); path != "" {
		hammer(path)
	}
	os.Exit(m.Run())
}

// The limits that hammer hammers at.
var hammered = []limiter.Limit{rate("a", 1e6, time.Hour), rate("b", 1e6, time.Hour), {Key: "b", Concurrent: 1e6}}

// hammer asks from several goroutines for as long as it lives, and says what
// was granted.
func hammer(path string) {
	l, err := Open(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go func() {
		for {
			l.journal.mu.Lock()
			l.journal.atMost = 50_000 // so that some die compacting
			l.journal.mu.Unlock()
			l.tick()
		}
	}()
	for range 4 {
		go func() {
			for {
				d, err := l.Acquire(context.Background(), limiter.Request{Key: "c", Limits: hammered, Hold: time.Hour})
				if err != nil || !d.Granted {
					os.Exit(1)
				}
				os.Stdout.WriteString(".")
				l.Release(context.Background(), d.Permit)
			}
		}()
	}
	select {}
}

// CC-27: whatever a process was told is granted, the next one knows, however
// the first ended. What it was not told may be known too.
func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	rng := rand.New(rand.NewPCG(9, 9))
	told, compacted := 0, 0
	for range 25 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childOf+"="+path)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(20+rng.IntN(100)) * time.Millisecond) // when it dies is of no importance
		cmd.Process.Kill()
		cmd.Wait()
		told += out.Len()
		if _, err := os.Stat(path + ".new"); err == nil {
			compacted++
		}
	}
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	v, err := l.Peek(context.Background(), "c", hammered)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d told, %d known, %d died compacting, recovered %+v", told, v.Usage[0].Used, compacted, l.Recovered())
	if told == 0 {
		t.Fatal("nothing was granted")
	}
	for _, u := range v.Usage[:2] {
		if u.Used < told || u.Used > told+25*4 {
			t.Errorf("%d calls are known, %d were granted", u.Used, told)
		}
	}
	if l.Recovered().Damaged {
		t.Errorf("recovered %+v", l.Recovered())
	}
}

// Whatever is in a file, it is read without harm, and what is read is bounded
// by what is there.
func FuzzJournal(f *testing.F) {
	var real []byte
	real = addKey(header("run"), 1, "a key that is longer than one record can hold, by far")
	for _, r := range []record{
		{kind: aWindow, key: 1, span: 1e9}, {kind: aGrant, more: true, key: 1, amount: 3, span: 1e9},
		{kind: aGrant, key: 1, amount: 3, span: 6e10}, {kind: anEntry, key: 1, amount: 1 << 63, span: 6e10},
		{kind: aPermit, key: 1, amount: 77, span: 1 << 62}, {kind: aRenewal, amount: 77, span: 5}, {kind: aRelease, amount: 77},
		{kind: aThrottle, key: 1, span: 1<<63 - 1}, {kind: anOpening, key: 1}, {kind: aGrant, key: 2, amount: 1, span: 1, boot: -1 << 63, wall: 1<<63 - 1},
	} {
		real = r.add(real)
	}
	f.Add(real, false)
	f.Add(real[:len(real)-7], true)
	f.Add(header("run"), true)
	f.Fuzz(func(t *testing.T, raw []byte, sum bool) {
		if sum && len(raw) >= headerSize { // sound sums around whatever is in them
			sound := header("run")
			for rest := raw[headerSize:]; len(rest) >= recordSize; rest = rest[recordSize:] {
				r, _ := parse(rest)
				if r.kind == 0 {
					r = record{kind: kind(rest[4]), more: rest[5] == 1, key: uint64(rest[8] % 4), amount: uint64(rest[16]), span: int64(rest[24]) << (rest[25] % 60), wall: int64(rest[40])}
				}
				sound = r.add(sound)
			}
			raw = sound
		}
		l := New()
		p := &replay{l: l, wall: time.Now().UnixNano(), permits: map[uint64][]heldPlace{}, byWall: len(raw)%2 == 0}
		if _, err := parseHeader(raw[:min(len(raw), headerSize)]); err != nil {
			return
		}
		if !p.byWall {
			if err := p.resume(bytes.NewReader(raw[headerSize:])); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.replay(bytes.NewReader(raw[headerSize:])); err != nil {
			t.Fatal(err)
		}
		p.hold(Journal{}.holdOf())
		if p.found.Records > len(raw)/recordSize {
			t.Errorf("%d records in %d bytes", p.found.Records, len(raw))
		}
		w := world{Limiter: l, t: t}
		for range 3 {
			w.ask(rate("a key that is longer than one record can hold, by far", 1, time.Second))
		}
	})
}

// A run whose wall clock was set right meanwhile, as of a machine that learns
// the time from the network, is dated by how far apart its records are.
func TestJournalOfARunWithAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		limit := rate("a", 2, time.Hour)
		w.ask(limit)
		time.Sleep(10 * time.Minute)
		before := time.Now().UnixNano()
		w.ask(limit)
		w.run, w.up = "run 2", time.Now().Add(-3*time.Second)
		w.crash(rewritten(func(r *record) {
			if r.wall < before {
				r.wall -= int64(30 * 24 * time.Hour)
			}
		}))
		w.refused(50*time.Minute, limit)
	})
}

// A slowFile calls back when it is synced or written to.
type slowFile struct {
	file
	onSync, onWrite *func()
}

func (f slowFile) Sync() error { (*f.onSync)(); return nil }

func (f slowFile) Write(b []byte) (int, error) { (*f.onWrite)(); return f.file.Write(b) }

// While a compacted journal is put in place, who needs no record written is
// not kept waiting.
func TestCompactingKeepsNobody(t *testing.T) {
	onSync, onWrite := func() {}, func() {}
	disk := storage{
		create: func(path string) (file, error) {
			f, err := create(path)
			return slowFile{f, &onSync, &onWrite}, err
		},
		syncDir: func(string) {},
	}
	path := filepath.Join(t.TempDir(), "journal")
	l, err := Journal{Path: path}.open(machine{"run", func() int64 { return 0 }, func() int64 { return 0 }}, disk)
	if err != nil {
		t.Fatal(err)
	}
	w := world{Limiter: l, t: t}
	full, places := rate("a", 1, time.Hour), limiter.Limit{Key: "p", Concurrent: 2}
	w.ask(full)
	first := w.ask(places)
	var second limiter.Decision
	onSync = func() {
		onSync = func() {}
		second = w.ask(places) // belongs after what was copied
		onWrite = func() {
			onWrite = func() {}
			done := make(chan struct{})
			go func() {
				defer close(done)
				l.Release(context.Background(), first.Permit)
				if w.ask(full).Granted {
					t.Error("granted with no room")
				}
			}()
			select {
			case <-done:
			case <-time.After(5 * time.Second):
				t.Error("a release and a refusal wait for the disk")
			}
		}
	}
	l.journal.ticks.Lock()
	err = l.rewrite()
	l.journal.ticks.Unlock()
	if err != nil || second.Permit == "" {
		t.Fatal(err, second)
	}
	// What happened meanwhile is known: one place is held.
	l.Close()
	again, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	v, err := again.Peek(context.Background(), "c", []limiter.Limit{full, places})
	if err != nil || v.Usage[0].Used != 1 || v.Usage[1].Held != 1 {
		t.Errorf("%+v, %v", v, err)
	}
}

// A journal whose last records cannot be written says so when it is closed.
func TestCloseOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d disk
		l, err := Journal{Path: filepath.Join(t.TempDir(), "journal"), Logger: slog.New(slog.DiscardHandler)}.open(
			machine{"run", func() int64 { return 0 }, func() int64 { return 0 }}, storage{d.create, quick.syncDir})
		if err != nil {
			t.Fatal(err)
		}
		w := world{Limiter: l, t: t}
		l.Release(context.Background(), w.ask(limiter.Limit{Key: "p", Concurrent: 1}).Permit)
		d.full.Store(true)
		if l.Close() == nil {
			t.Error("nothing said")
		}
	})
}

// A journal that somebody has removed is written anew within two seconds.
func TestJournalRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.j.Logger = slog.New(slog.DiscardHandler)
		limit := rate("a", 3, time.Hour)
		w.ask(limit)
		if err := os.Remove(w.path); err != nil {
			t.Fatal(err)
		}
		w.ask(limit)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		w.ask(limit)
		w.crash()
		w.refused(time.Hour-2*time.Second, limit)
	})
}
