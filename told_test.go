package paceline_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/stub"
)

// busy keeps clients sending for a while, and returns what they came to after
// the first minute.
func busy(t *testing.T, r *rig, clients int, span time.Duration) (admitted, refused int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	time.AfterFunc(span, stop)
	start := time.Now()
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for ctx.Err() == nil {
				if got := r.chat(ctx, "Content-Type", "application/json"); got.err == nil && got.status != 200 {
					time.Sleep(sec)
				}
			}
		})
	}
	wg.Wait()
	for _, rec := range r.logged() {
		switch after := rec.Sent.Sub(start); {
		case rec.NotSent || after < time.Minute:
		case rec.Class == dialect.RateLimited:
			refused++
		case rec.Status == http.StatusOK:
			admitted++
		}
	}
	return admitted, refused
}

// S-36, R-105: under a server that reports what is left nobody is refused in
// steady use, and the whole allowance is used. S-44: those that wait go one
// after the other. R-102: while there is plenty they go together.
func TestToldBudgetIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{
			Meters: []stub.Meter{{Kind: stub.Bucket, Limit: 60}}, Headers: stub.HeadersOpenAI, Service: 300 * time.Millisecond,
		}, paceline.Provider{Dialect: "openai"})
		start := time.Now()
		admitted, refused := busy(t, r, 8, 10*time.Minute)
		if refused > 0 || admitted < 530 {
			t.Errorf("%d admitted and %d refused in nine minutes, want about 540 and none", admitted, refused)
		}
		sent := r.sent(start)
		if n := mostWithin(sent[:8], 100*time.Millisecond); n < 8 {
			t.Errorf("of the first eight %d were sent together", n)
		}
		if n := mostWithin(sent[len(sent)-60:], 400*time.Millisecond); n > 1 {
			t.Errorf("with nothing left %d were sent together", n)
		}
	})
}

// where tokens are charged at admission by a rule that nobody knows, what
// the readings are short of is learned from.
func TestUnknownChargingIsLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{
			Meters: []stub.Meter{{Kind: stub.Bucket, Unit: stub.Tokens, Limit: 12_000}}, Charge: stub.ChargeOpaque,
			Headers: stub.HeadersOpenAI, Service: 300 * time.Millisecond,
		}, paceline.Provider{Dialect: "openai"})
		admitted, refused := busy(t, r, 8, 10*time.Minute)
		if refused*50 > admitted || admitted < 200 {
			t.Errorf("%d admitted and %d refused: want at most 2 per 100", admitted, refused)
		}
	})
}
