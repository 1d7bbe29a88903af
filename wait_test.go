package paceline_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/stub"
)

// waitLog notes what OnWait is told, since an instant.
type waitLog struct {
	start time.Time
	mu    sync.Mutex
	lines []string
	last  *paceline.Wait
}

func (l *waitLog) note(w *paceline.Wait) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := func(t time.Time) string {
		if t.IsZero() {
			return "?"
		}
		return fmt.Sprint(t.Sub(l.start))
	}
	line := fmt.Sprintf("%v %s %s since %s until %s", time.Since(l.start), w.ID, w.Kind, at(w.Since), at(w.Until))
	if w.Over {
		line = fmt.Sprintf("%v %s over", time.Since(l.start), w.ID)
	}
	l.lines, l.last = append(l.lines, line), w
}

func (l *waitLog) latest() *paceline.Wait {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

func (l *waitLog) want(t *testing.T, want ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if fmt.Sprint(l.lines) != fmt.Sprint(want) {
		t.Errorf("OnWait was told\n%q, want\n%q", l.lines, want)
	}
}

func id(name string) []string { return []string{"X-Paceline-Request-Id", name} }

// OnWait hears of a request that waits for its turn once when it begins and
// once when it is over, of a new cause, and of nothing where nobody waits.
func TestOnWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{Script: []stub.Step{{}, {}, {Status: 429, Wait: 30 * sec}}}, paceline.Provider{Limits: paceline.Limits{
			Windows: []paceline.Window{{Calls: 1, Per: 10 * sec, Slack: -1}}, Pacing: paceline.Burst}})
		log := &waitLog{start: time.Now()}
		r.OnWait = log.note
		r.chat(t.Context(), id("first")...).want(t, 200)
		log.want(t)
		r.chat(t.Context(), id("second")...).want(t, 200)
		want := []string{"0s second turn since 0s until 10s", "10s second over"}
		log.want(t, want...)
		if log.latest().SendAnyway() {
			t.Error("a declared limit was sent into")
		}
		r.chat(t.Context(), id("third")...).want(t, 200)
		log.want(t, append(want, "10s third turn since 10s until 20s", "20s third over",
			"20s third pause since 20s until 50s", "50s third over")...)
		if got := r.logged(); got[0].ID != "first" || got[3].ID != "third" {
			t.Errorf("recorded %+v", got)
		}
	})
}

// A wait is over also where its caller leaves, and where an operator's pause
// ends; those behind others say so.
func TestOnWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 60}})
		log := &waitLog{start: time.Now()}
		r.OnWait = log.note
		if err := r.Pause("test", time.Now().Add(time.Hour), "a test"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*sec, cancel)
		var wg sync.WaitGroup
		wg.Go(func() { r.chat(ctx, id("a")...) })
		synctest.Wait()
		wg.Go(func() { r.chat(t.Context(), id("not a name!")...) })
		synctest.Wait()
		second := log.latest()
		if len(second.ID) != 16 || second.Why == "" {
			t.Errorf("the second waits as %+v", second)
		}
		b := second.ID
		time.Sleep(6 * sec)
		if err := r.Resume("test"); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		log.want(t, "0s a operator since 0s until 1h0m0s", "0s "+b+" operator since 0s until 1h0m0s", "5s a over",
			"5s "+b+" operator since 0s until 1h0m0s", "6s "+b+" over")
	})
}

// S-09: one refusal does not end a task. With WaitForCapacity pauses are waited
// for however long, and tries are not counted.
func TestWaitForCapacityInAContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := make([]stub.Step, 12)
		for i := range script {
			script[i] = stub.Step{Status: 429, Wait: 40 * time.Minute}
		}
		r := newRig(t, stub.Config{Script: script}, paceline.Provider{Retry: paceline.Retry{Max: 2}})
		start := time.Now()
		r.chat(t.Context()).want(t, 429)
		got := r.chat(paceline.WaitForCapacity(t.Context()))
		if got.want(t, 200); time.Since(start) != 12*40*time.Minute {
			t.Errorf("it took %v", time.Since(start))
		}
	})
}
