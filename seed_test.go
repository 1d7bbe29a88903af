package paceline_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/stub"
)

// restarted is a new process over an old store, with a limiter that knows
// nothing but what the records say.
func restarted(t *testing.T, store *mapStore, p paceline.Provider, records []paceline.Record) *rig {
	t.Helper()
	r := newRig(t, stub.Config{}, p)
	if store != nil {
		r.Store = store
	}
	if err := r.Seed(slices.Values(records)); err != nil {
		t.Fatal(err)
	}
	return r
}

// P-119, P-44: after a restart without a journal the windows are as full as the
// log's send times say. P-118: it has both times.
func TestSeedFillsWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mapStore{}
		p := paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 10, Pacing: paceline.Burst, WindowSlack: -1}}
		a := newRig(t, stub.Config{Service: 2 * sec}, p)
		a.Store = store
		start := time.Now()
		a.together(6)
		time.Sleep(10 * sec)
		a.together(2)
		log := throughJSON(t, a.logged())
		for _, rec := range log {
			if rec.Sent.IsZero() || rec.Done.Sub(rec.Sent) != 2*sec {
				t.Errorf("sent %v, done %v", rec.Sent, rec.Done)
			}
		}
		slices.Reverse(log) // in whatever order
		b := restarted(t, store, p, log)
		b.together(5)
		wantInstants(t, b.sent(start), 14*sec, 14*sec, 60*sec, 60*sec, 60*sec)
		if n := b.Status()[0].Sent60s; n == 0 {
			t.Error("the starts were not rebuilt")
		}
	})
}

// Where the limiter has kept its windows, the log says only what had been
// started: as evidence, and in no order.
func TestRecallFillsNoWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mapStore{}
		p := paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 2, Pacing: paceline.Burst, WindowSlack: -1}}
		a := newRig(t, stub.Config{}, p)
		a.Store = store
		a.together(2)
		b := newRig(t, stub.Config{}, p)
		b.Store = store
		log := throughJSON(t, a.logged())
		slices.Reverse(log)
		if err := b.Recall(slices.Values(log)); err != nil {
			t.Fatal(err)
		}
		if n := b.Status()[0].Sent60s; n != 2 {
			t.Errorf("%d starts are remembered, want 2", n)
		}
		if got := b.chat(t.Context()); got.status != 200 || got.took != 0 {
			t.Errorf("%d after %v", got.status, got.took)
		}
	})
}

// throughJSON is records as a log gives them back.
func throughJSON(t *testing.T, records []paceline.Record) (out []paceline.Record) {
	t.Helper()
	b, err := json.Marshal(records)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// P-49, P-50: what was not sent does not count. P-120: a long generation counts
// when it was sent. P-122: a record without a send time counts when it ended.
// P-121: the evidence of a later refusal counts them by the same.
func TestSeedCountsWhatWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		now := time.Now()
		ago := func(d time.Duration) time.Time { return now.Add(-d) }
		record := paceline.Record{Provider: "test", Credential: "mine", Status: 200}
		with := func(f func(r *paceline.Record)) paceline.Record { r := record; f(&r); return r }
		p := paceline.Provider{Credentials: []paceline.Credential{{Name: "mine", Key: "sk-mine-1234"}},
			Limits: paceline.Limits{MaxPerMinute: 3, Pacing: paceline.Burst, WindowSlack: -1, Adaptive: paceline.Adaptive{Off: true}}}
		r := restarted(t, nil, p, []paceline.Record{
			with(func(r *paceline.Record) { r.Sent, r.Done, r.NotSent = ago(sec), ago(sec), true }),
			with(func(r *paceline.Record) { r.Done, r.NotSent = ago(sec), true }),
			with(func(r *paceline.Record) { r.Done, r.Cache = ago(sec), true }),
			with(func(r *paceline.Record) { r.Sent, r.Done = ago(240*sec), ago(sec) }),
			with(func(r *paceline.Record) { r.Done = ago(20 * sec) }),
			with(func(r *paceline.Record) { r.Sent, r.Done = ago(10*sec), ago(5*sec) }),
			with(func(r *paceline.Record) { r.Credential, r.Sent, r.Done = "test#7", ago(sec), ago(sec) }),
			with(func(r *paceline.Record) { r.Provider, r.Sent, r.Done = "gone", ago(sec), ago(sec) }),
		})
		r.Route = by("mine")
		script := func() *stub.Stub {
			s, err := stub.New(stub.Config{Script: []stub.Step{told(sec)}})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		r.Base = script()
		r.chat(t.Context()).want(t, 200)
		wantInstants(t, r.sent(now), 0, 40*sec)
		if e := r.logged()[0].Evidence; e == nil || e.Sent60s != 3 || !e.UnderLimit {
			t.Errorf("evidence %+v; want 3 starts in the minute, under the limit", e)
		}
	})
}

// P-86: a stated wait is rebuilt from the log, unless somebody has ended it.
func TestSeedRebuildsStatedWaits(t *testing.T) {
	for _, resumed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := paceline.Provider{Credentials: []paceline.Credential{{Name: "mine", Key: "sk-mine-1234"}}, Retry: paceline.Retry{MaxWait: time.Hour}}
			store := &mapStore{}
			before := newRig(t, stub.Config{}, p)
			before.Store = store
			done := time.Now()
			time.Sleep(5 * sec)
			if resumed {
				if err := before.Resume("test"); err != nil {
					t.Fatal(err)
				}
			}
			r := restarted(t, store, p, []paceline.Record{
				{Provider: "test", Credential: "mine", Model: "m", Sent: done, Done: done, Status: 429, Class: dialect.RateLimited, Told: true, Wait: time.Minute},
				{Provider: "test", Credential: "mine", Model: "m", Sent: done, Done: done, Status: 200, Class: dialect.OK, Told: true, Wait: time.Hour},
				{Provider: "test", Credential: "mine", Model: "m", Sent: done, Done: done, Status: 413, Class: dialect.RateLimited, Told: true, Wait: time.Hour},
				{Provider: "test", Credential: "mine", Model: "m", Sent: done, Done: done, Status: 429, Class: dialect.RateLimited, Told: true, Wait: 1 << 62},
			})
			r.Route = by("mine")
			r.chat(t.Context()).want(t, 200)
			want := time.Minute
			if resumed {
				want = 5 * sec
			}
			wantInstants(t, r.sent(done), want)
		})
	}
}

// Models with limits of their own count their own again, and a scope of models
// keeps its lines apart.
func TestSeedModels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := paceline.Provider{Credentials: []paceline.Credential{{Name: "mine", Key: "sk-mine-1234"}},
			Limits: paceline.Limits{MaxPerHour: 100, Pacing: paceline.Burst, WindowSlack: -1},
			Models: map[string]paceline.Limits{"m": {MaxPerMinute: 1}}}
		start := time.Now()
		time.Sleep(10 * sec)
		r := restarted(t, nil, p, []paceline.Record{
			{Provider: "test", Credential: "mine", Model: "m", Sent: start, Done: start, Status: 200},
			{Provider: "test", Credential: "mine", Model: "other", Sent: start.Add(5 * sec), Done: start, Status: 200},
		})
		r.Route = by("mine")
		r.chat(t.Context()).want(t, 200) // of m
		wantInstants(t, r.sent(start), time.Minute)
	})
}

// The window of a model may be the longest there is, and starts of several
// models come out of a log in any order.
func TestSeedModelsOfLongWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := paceline.Provider{Credentials: []paceline.Credential{{Name: "mine", Key: "sk-mine-1234"}}, Scope: paceline.ScopeProvider,
			Limits: paceline.Limits{MaxPerMinute: 10, Pacing: paceline.Burst, WindowSlack: -1},
			Models: map[string]paceline.Limits{"m": {MaxPerHour: 1}}}
		start := time.Now()
		time.Sleep(10 * time.Minute)
		records := []paceline.Record{{Provider: "test", Credential: "mine", Model: "m", Sent: start, Done: start, Status: 200}}
		for i := range 20 {
			at := time.Now().Add(-time.Duration(i) * 10 * sec)
			records = append(records, paceline.Record{Provider: "test", Credential: "mine", Model: fmt.Sprint("other", i%5), Sent: at, Done: at, Status: 200})
		}
		r := restarted(t, nil, p, records)
		r.Route = by("mine")
		if n := r.Status()[0].Sent60s; n != 6 {
			t.Errorf("%d starts in the last minute, want 6", n)
		}
		r.chat(t.Context()).want(t, 200) // of m
		wantInstants(t, r.sent(start), time.Hour)
	})
}

// A limiter that cannot be seeded says so.
func TestSeedNeedsASeeder(t *testing.T) {
	p := paceline.Provider{Credentials: []paceline.Credential{{Name: "mine", Key: "sk-mine-1234"}}, Limits: paceline.Limits{MaxPerMinute: 3}}
	r := newRig(t, stub.Config{}, p)
	r.Limiter = &plain{memory.New()}
	err := r.Seed(slices.Values([]paceline.Record{{Provider: "test", Credential: "mine", Sent: time.Now(), Status: 200}}))
	if err == nil || !strings.Contains(err.Error(), "cannot count what was granted earlier") {
		t.Errorf("error %v", err)
	}
}
