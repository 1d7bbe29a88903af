package stub_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/stub"
)

// cost asks for an answer that costs what it says, and returns the status and
// the remaining tokens told.
func cost(t *testing.T, s *stub.Stub, usage string) (status int, remaining string) {
	t.Helper()
	req, err := http.NewRequest("POST", "http://stub.test/v1/chat/completions", strings.NewReader(`{"max_tokens":500}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(stub.UsageHeader, usage)
	res, err := s.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, res.Body)
	res.Body.Close()
	return res.StatusCode, res.Header.Get("X-Ratelimit-Remaining-Tokens")
}

// Each rule counts what it says at admission, and settles it when the
// generation ends.
func TestCharges(t *testing.T) {
	const usage = "input=300 cached=200 output=50"
	for _, tt := range []struct {
		charge             stub.Charge
		unit               stub.Unit
		admission, settled string
	}{
		{stub.ChargeProduced, stub.Tokens, "700", "650"},
		{stub.ChargeUncached, stub.Tokens, "900", "850"},
		{stub.ChargeReserved, stub.Tokens, "200", "650"},
		{stub.ChargeKept, stub.Tokens, "200", "200"},
		{stub.ChargeOpaque, stub.Tokens, "669", "669"},
	} {
		for _, kind := range []stub.MeterKind{stub.Fixed, stub.Rolling} {
			t.Run(string(tt.charge)+" "+string(kind), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := mustStub(t, stub.Config{
						Meters: []stub.Meter{{Kind: kind, Unit: tt.unit, Limit: 1000, Per: time.Hour}},
						Charge: tt.charge, Headers: stub.HeadersOpenAI, Service: time.Second,
					})
					if status, left := cost(t, s, usage); status != 200 || left != tt.admission {
						t.Errorf("at admission: %d with %s left, want %s", status, left, tt.admission)
					}
					// A request that costs nothing shows what is left.
					nothing := "input=0 output=0"
					if tt.charge == stub.ChargeReserved || tt.charge == stub.ChargeKept || tt.charge == stub.ChargeOpaque {
						return // its bound counts
					}
					if _, left := cost(t, s, nothing); left != tt.settled {
						t.Errorf("afterwards %s left, want %s", left, tt.settled)
					}
				})
			})
		}
	}
}

// What was reserved and not used is given back when the generation ends, and a
// meter of tokens refuses what does not fit until it does.
func TestReservationIsGivenBack(t *testing.T) {
	for _, kind := range []stub.MeterKind{stub.Fixed, stub.Rolling, stub.Bucket} {
		synctest.Test(t, func(t *testing.T) {
			s := mustStub(t, stub.Config{
				Meters: []stub.Meter{{Kind: kind, Unit: stub.Tokens, Limit: 1000, Per: 1000 * time.Hour}},
				Charge: stub.ChargeReserved, Headers: stub.HeadersOpenAI, Service: time.Second,
			})
			done := make(chan struct{})
			go func() { defer close(done); cost(t, s, "input=100 output=0") }()
			synctest.Wait()
			if status, left := cost(t, s, "input=100 output=0"); status != 429 || left != "400" {
				t.Errorf("%s: %d with %s left, want 429 with 400", kind, status, left)
			}
			<-done
			if status, left := cost(t, s, "input=100 output=0"); status != 200 || left != "300" {
				t.Errorf("%s: %d with %s left, want 200 with 300", kind, status, left)
			}
		})
	}
}
