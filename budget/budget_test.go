package budget_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/budget"
	"github.com/paceline-proxy/paceline/dialect"
)

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// A stored state whose instants cannot be true neither closes a key nor keeps
// it from learning.
func TestDecodeMendsInstants(t *testing.T) {
	for name, tt := range map[string]struct {
		stored string
		check  func(budget.State) bool
	}{
		"a pause of the past":       {`{"pause":{"until":"1970-01-01T00:00:00Z","reason":"rate_limit"}}`, func(s budget.State) bool { return s.Pause == budget.Pause{} }},
		"a pause until year 9999":   {`{"pause":{"until":"9999-01-01T00:00:00Z"}}`, func(s budget.State) bool { return !s.Pause.Active(now) }},
		"a pause of a week":         {`{"pause":{"until":"2026-12-06T12:00:00Z"}}`, func(s budget.State) bool { return s.Pause.Active(now) }},
		"a factor changed tomorrow": {`{"factor":{"value":0.5,"changed":"2027-01-01T00:00:00Z"}}`, func(s budget.State) bool { return s.Factor.Changed.Equal(now) && s.Factor.Value == 0.5 }},
		"a factor of 7":             {`{"factor":{"value":7}}`, func(s budget.State) bool { return s.Factor.Value == 0 }},
		"a negative rate":           {`{"rate":{"per_second":-3}}`, func(s budget.State) bool { return s.Rate == budget.Rate{} }},
		"a probe sent tomorrow":     {`{"probe":{"needed":true,"sent":"2027-01-01T00:00:00Z"}}`, func(s budget.State) bool { return s.Probe.Needed && s.Probe.Sent.IsZero() }},
		"an episode of the future":  {`{"episode":{"open":true,"changed":"2050-01-01T00:00:00Z","refusals":-4}}`, func(s budget.State) bool { return s.Episode.Changed.Equal(now) && s.Episode.Refusals == 0 }},
		"a spacing of a year":       {`{"spacing":{"every":31536000000000000}}`, func(s budget.State) bool { return s.Spacing.Every <= time.Minute }},
		"an overload for ever":      {`{"overload":{"every":1,"until":"2100-01-01T00:00:00Z"}}`, func(s budget.State) bool { return s.Overload.Until.IsZero() }},
		"a reading of the future":   {`{"readings":[{"unit":"requests","window":"minute","sent":"2027-01-01T00:00:00Z"}]}`, func(s budget.State) bool { return len(s.Readings) == 0 }},
	} {
		s, err := budget.Decode([]byte(tt.stored), now)
		if err != nil || !tt.check(s) {
			t.Errorf("%s: read as %+v, %v", name, s, err)
		}
	}
	for _, broken := range []string{"{", "[]", `{"pause":7}`, "\x00\xff", `{"pause":{"until":"soon"}}`} {
		if s, err := budget.Decode([]byte(broken), now); err == nil {
			t.Errorf("%q: read as %+v, want an error", broken, s)
		}
	}
	if _, err := budget.Decode(nil, now); err != nil {
		t.Errorf("nothing stored: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"pause":{"until":"2026-12-06T12:00:00Z","reason":"quota_exhausted","source":"told"},"factor":{"value":0.7},"readings":[{"unit":"tokens","window":"minute","limit":5,"recovery":{"kind":"full_at","at":"2026-11-29T12:00:01Z"},"sent":"2026-11-29T11:59:59Z"}]}`))
	f.Add([]byte(`{"rate":{"per_second":1e308,"refused":-1},"spacing":{"every":-9223372036854775808},"places":{"n":-1}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := budget.Decode(b, now)
		if err != nil {
			return
		}
		if s.Pause.Active(now.Add(36 * 24 * time.Hour)) {
			t.Errorf("paused until %v", s.Pause.Until)
		}
		if s.Spacing.Every < 0 || s.Places.N < 0 || s.Rate.PerSecond < 0 || s.Factor.Value < 0 || s.Factor.Value >= 1 {
			t.Errorf("impossible: %+v", s)
		}
		// What was read can be written, and reads the same.
		w, err := budget.Encode(s)
		if err != nil {
			t.Fatalf("%+v: %v", s, err)
		}
		again, err := budget.Decode(w, now)
		if err != nil {
			t.Fatalf("%s: %v", w, err)
		}
		w2, _ := budget.Encode(again)
		if string(w) != string(w2) {
			t.Errorf("%s became %s", w, w2)
		}
	})
}

// Merging keeps the longer pause and the latest of each lesson, whichever
// comes first.
func TestMerge(t *testing.T) {
	at := func(d time.Duration) time.Time { return now.Add(d) }
	a := budget.State{
		Pause:  budget.Pause{Until: at(time.Minute), Reason: budget.RateLimit},
		Factor: budget.Factor{Value: 0.5, Changed: at(2), Refused: at(2)},
		Rate:   budget.Rate{PerSecond: 1, Changed: at(1)},
	}
	b := budget.State{
		Pause:   budget.Pause{Until: at(time.Hour), Reason: budget.Quota},
		Probe:   budget.Probe{Needed: true, Changed: at(1)},
		Factor:  budget.Factor{Value: 0.7, Changed: at(1), Refused: at(3)},
		Rate:    budget.Rate{PerSecond: 2, Changed: at(2)},
		Places:  budget.Places{N: 3, Changed: at(1)},
		Spacing: budget.Spacing{Every: time.Second, Changed: at(1)},
	}
	for _, m := range []budget.State{budget.Merge(a, b), budget.Merge(b, a)} {
		if m.Pause.Reason != budget.Quota || !m.Probe.Needed || m.Factor.Value != 0.5 || !m.Factor.Refused.Equal(at(3)) ||
			m.Rate.PerSecond != 2 || m.Places.N != 3 || m.Spacing.Every != time.Second {
			t.Errorf("merged to %+v", m)
		}
	}
}

// The reading of the latest-sent request stands; of one instant the smaller
// remaining; a changed limit is another bucket; and what is kept is bounded.
func TestObserve(t *testing.T) {
	var s budget.State
	see := func(sent time.Duration, limit, remaining int64) {
		s.Observe(nil, budget.Observation{Sent: now.Add(sent), Head: now.Add(sent), Buckets: []dialect.Snapshot{{Unit: dialect.Requests, Window: dialect.Minute, Limit: &limit, Remaining: &remaining}}})
	}
	see(2, 60, 10)
	see(1, 60, 50) // an older one that comes late
	see(2, 60, 9)
	see(2, 60, 11)
	if len(s.Readings) != 1 || *s.Readings[0].Remaining != 9 {
		t.Errorf("read %+v", s.Readings)
	}
	see(3, 100, 99)
	if len(s.Readings) != 2 {
		t.Errorf("a changed limit: %+v", s.Readings)
	}
	for i := range int64(100) {
		see(time.Duration(i), i+1000, 1)
	}
	if len(s.Readings) > 32 {
		t.Errorf("%d readings kept", len(s.Readings))
	}
}

// Starts counts as a plain list would.
func TestStarts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var s budget.Starts
	var all []time.Time
	at := now
	for range 5000 {
		at = at.Add(time.Duration(rng.IntN(2000)) * time.Millisecond)
		s.Add(at, time.Hour, budget.Charge{})
		all = append(all, at)
		per := time.Duration(1+rng.IntN(3600)) * time.Second
		end := at.Add(-time.Duration(rng.IntN(100)) * time.Millisecond)
		want := 0
		for _, a := range all {
			if a.After(end.Add(-per)) && !a.After(end) {
				want++
			}
		}
		if end.Add(-per).Before(at.Add(-time.Hour)) {
			continue // beyond what is kept
		}
		if got := s.Within(per, end); got != want {
			t.Fatalf("within %v: %d, want %d", per, got, want)
		}
	}
}

// A log of starts does not grow without bound.
func TestStartsAreBounded(t *testing.T) {
	var s budget.Starts
	for i := range 200_000 {
		s.Add(now.Add(time.Duration(i)), time.Hour, budget.Charge{})
	}
	if n := s.Within(time.Hour, now.Add(time.Second)); n != 1<<16 {
		t.Errorf("%d starts kept", n)
	}
}

// memoryStore is a store in a map, which may be broken.
type memoryStore struct {
	m      map[string][]byte
	err    error
	reads  int
	writes int
}

func (s *memoryStore) Get(_ context.Context, key string) ([]byte, error) {
	s.reads++
	return s.m[key], s.err
}

func (s *memoryStore) Update(_ context.Context, key string, f func([]byte) []byte) error {
	s.writes++
	if s.err == nil {
		s.m[key] = f(s.m[key])
	}
	return s.err
}

// two processes over one store see each other's pauses: read at most every
// 50 ms, written at most every 100 ms.
func TestBooksShareAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memoryStore{m: map[string][]byte{}}
		a := (&budget.Book{Store: store}).Caller("k", time.Now())
		b := (&budget.Book{Store: store}).Caller("k", time.Now())
		until := time.Now().Add(time.Minute)
		paused := func(c *budget.Caller) (is bool) {
			c.Use(time.Now(), func(s *budget.State, _ *budget.Starts) bool { is = s.Pause.Active(time.Now()); return false })
			return is
		}
		if paused(b) {
			t.Fatal("paused before anything happened")
		}
		a.Use(time.Now(), func(s *budget.State, _ *budget.Starts) bool {
			return s.Pause.Extend(until, budget.RateLimit, budget.Told)
		})
		if paused(b) {
			t.Error("the store was read again at once")
		}
		time.Sleep(50 * time.Millisecond)
		if !paused(b) {
			t.Error("after 50 ms the pause has not been seen")
		}
		writes := store.writes
		for range 10 {
			a.Use(time.Now(), func(*budget.State, *budget.Starts) bool { return true })
		}
		if store.writes > writes {
			t.Errorf("%d writes within 100 ms", store.writes-writes)
		}
		time.Sleep(50 * time.Millisecond)
		paused(a) // any use carries what gathered
		if store.writes != writes+1 {
			t.Errorf("%d writes after 100 ms, want 1", store.writes-writes)
		}
	})
}

// What is forgotten is forgotten everywhere.
func TestForgottenRateStaysForgotten(t *testing.T) {
	stored, err := budget.Encode(budget.State{Rate: budget.Rate{PerSecond: 2, Changed: now.Add(-time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	old, err := budget.Decode(stored, now)
	if err != nil {
		t.Fatal(err)
	}
	if m := budget.Merge(budget.State{Rate: budget.Rate{Changed: now}}, old); m.Rate.PerSecond != 0 {
		t.Errorf("the rate came back: %+v", m.Rate)
	}
	stored, _ = budget.Encode(budget.State{Rate: budget.Rate{Changed: now}})
	if gone, err := budget.Decode(stored, now); err != nil || !budget.Merge(old, gone).Rate.Changed.Equal(now) {
		t.Errorf("that it was forgotten is not stored: %s, %v", stored, err)
	}
}

// a store that fails, as where a file must not be read, or holds nonsense
// means that nothing more is known.
func TestBrokenStore(t *testing.T) {
	for _, store := range []*memoryStore{
		{m: map[string][]byte{}, err: errors.New("read-only")},
		{m: map[string][]byte{"k": []byte("{{{")}},
	} {
		var faults []string
		c := (&budget.Book{Store: store, Fault: func(err error) { faults = append(faults, err.Error()) }}).Caller("k", now)
		called := false
		c.Use(now, func(s *budget.State, _ *budget.Starts) bool {
			called = true
			return s.Pause.Extend(now.Add(time.Minute), budget.RateLimit, budget.Told)
		})
		if !called || len(faults) == 0 {
			t.Errorf("called %v, faults %v", called, faults)
		}
		if !c.PausedUntil().After(now) {
			t.Error("what this process saw itself is lost")
		}
	}
	// Nonsense is replaced by the first write.
	store := &memoryStore{m: map[string][]byte{"k": []byte("{{{")}}
	(&budget.Book{Store: store}).Caller("k", now).Use(now, func(*budget.State, *budget.Starts) bool { return true })
	if !json.Valid(store.m["k"]) {
		t.Errorf("stored %s", store.m["k"])
	}
}

// A store that goes on failing is said once for reading and once for writing,
// and again where it fails otherwise or after it worked.
func TestBrokenStoreIsSaidOnce(t *testing.T) {
	store := &memoryStore{m: map[string][]byte{}}
	var faults []string
	c := (&budget.Book{Store: store, Fault: func(err error) { faults = append(faults, err.Error()) }}).Caller("k", now)
	at := now
	use := func(want int) {
		t.Helper()
		for range 20 {
			at = at.Add(time.Second)
			c.Use(at, func(*budget.State, *budget.Starts) bool { return true })
		}
		if len(faults) != want {
			t.Errorf("said %q, want %d", faults, want)
		}
		faults = nil
	}
	store.err = errors.New("read-only")
	use(2)
	use(0)
	store.err = errors.New("no such device")
	use(2)
	store.err = nil
	use(0)
	store.err = errors.New("no such device")
	use(2)
}

// The encoded form is what other processes and people read.
func TestEncodedForm(t *testing.T) {
	b, err := budget.Encode(budget.State{Pause: budget.Pause{Until: now, Reason: budget.Quota, Source: budget.Told}})
	if err != nil || !strings.Contains(string(b), `"pause":{"until":"2026-11-29T12:00:00Z","reason":"quota_exhausted","source":"told"}`) {
		t.Errorf("%s, %v", b, err)
	}
	if b, _ := budget.Encode(budget.State{}); string(b) != "{}" {
		t.Errorf("nothing known is written as %s", b)
	}
}

// Keys that come and go are forgotten: at once but for their starts where they
// learned nothing, after an hour where they did, and never during a pause.
func TestIdleCallersAreForgotten(t *testing.T) {
	var b budget.Book
	at := now
	learn := func(key string, f func(*budget.State)) *budget.Caller {
		c := b.Caller(key, at)
		c.Use(at, func(s *budget.State, _ *budget.Starts) bool { f(s); return true })
		return c
	}
	blank := learn("blank", func(*budget.State) {})
	factor := learn("factor", func(s *budget.State) { s.Factor = budget.Factor{Value: 0.5, Changed: at} })
	paused := learn("paused", func(s *budget.State) { s.Pause.Extend(at.Add(24*time.Hour), budget.Quota, budget.Told) })
	crowd := func() {
		for i := range 3000 {
			b.Caller(strconv.Itoa(i)+at.String(), at)
		}
	}
	for _, step := range []struct {
		after time.Duration
		kept  [3]bool
	}{
		{time.Minute, [3]bool{true, true, true}},
		{3 * time.Minute, [3]bool{false, true, true}},
		{2 * time.Hour, [3]bool{false, false, true}},
	} {
		at = now.Add(step.after)
		crowd()
		for i, c := range []*budget.Caller{blank, factor, paused} {
			key := []string{"blank", "factor", "paused"}[i]
			if kept := b.Caller(key, at) == c; kept != step.kept[i] {
				t.Errorf("after %v %s is kept: %v", step.after, key, kept)
			}
		}
	}
}
