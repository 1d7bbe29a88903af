package paceline_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/stub"
)

// budgets are heeded where nothing else is said. R-04: ignored, nothing is
// kept and nothing waits. R-89: logged, they are kept, nothing waits, and the
// record says what would have.
func TestBudgets(t *testing.T) {
	for _, tt := range []struct {
		budgets  paceline.Budgets
		sent     time.Duration // the second request
		kept     int
		observed time.Duration
	}{
		{"", 500 * time.Millisecond, 1, 0},
		{paceline.HeedBudgets, 500 * time.Millisecond, 1, 0},
		{paceline.IgnoreBudgets, 0, 0, 0},
		{paceline.LogBudgets, 0, 1, 500 * time.Millisecond},
	} {
		t.Run(string(tt.budgets), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, stub.Config{}, paceline.Provider{Dialect: "openai", Budgets: tt.budgets})
				start := time.Now()
				r.Base = answers(func(*http.Request) (*http.Response, error) {
					return answer(200, http.Header{
						"X-Ratelimit-Limit-Requests": {"60"}, "X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"30s"}, // full then: one in half a second
					}, "{}"), nil
				})
				r.chat(t.Context()).want(t, 200)
				if n := len(r.Status()[0].Buckets); n != tt.kept {
					t.Errorf("%d buckets kept, want %d", n, tt.kept)
				}
				r.chat(t.Context()).want(t, 200)
				last := r.logged()[1]
				if got := last.Sent.Sub(start); got != tt.sent {
					t.Errorf("sent after %v, want %v", got, tt.sent)
				}
				if o := last.Observed; (o != nil) != (tt.observed > 0) || o != nil && (o.Wait != tt.observed || o.Why == "") {
					t.Errorf("observed: %+v", o)
				}
			})
		})
	}
	if _, err := (paceline.Provider{Name: "openai", Budgets: "perhaps"}).Complete(); err == nil {
		t.Error("perhaps is no way to treat budgets")
	}
}

// who waits for a budget sees what another process is told meanwhile, in
// the store that they share. R-21: the wait ends by that.
func TestBudgetOfAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mapStore{}
		left, full := "0", "100s" // one in fifty seconds
		process := func() *rig {
			r := newRig(t, stub.Config{}, paceline.Provider{Dialect: "openai"})
			r.Store = store
			r.Base = answers(func(*http.Request) (*http.Response, error) {
				return answer(200, http.Header{
					"X-Ratelimit-Limit-Requests": {"2"}, "X-Ratelimit-Remaining-Requests": {left}, "X-Ratelimit-Reset-Requests": {full},
				}, "{}"), nil
			})
			return r
		}
		here, there := process(), process()
		start := time.Now()
		here.chat(t.Context()).want(t, 200)
		done := make(chan struct{})
		go func() { defer close(done); here.chat(t.Context()).want(t, 200) }()
		time.Sleep(10 * sec)
		waits := make(chan *paceline.Wait, 10)
		there.OnWait = func(w *paceline.Wait) { waits <- w }
		left, full = "1", "50s"
		go there.chat(t.Context())
		if w := <-waits; !w.SendAnyway() {
			t.Fatalf("it waits for %+v", w)
		}
		<-done
		if at := here.logged()[1].Sent.Sub(start); at < 10*sec || at > 10*sec+100*time.Millisecond {
			t.Errorf("sent after %v", at)
		}
	})
}
