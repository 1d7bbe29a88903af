package stub_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/stub"
)

// what another client spends is gone from the same meters, in bursts,
// and the headers tell of it.
func TestOtherClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustStub(t, stub.Config{
			Meters:  []stub.Meter{{Kind: stub.Rolling, Limit: 60}, {Kind: stub.Bucket, Unit: stub.Tokens, Limit: 6000}},
			Headers: stub.HeadersOpenAI, Charge: stub.ChargeKept,
			Other: stub.Other{Share: 0.5, Every: 20 * time.Second},
		})
		left := func() string {
			resp, _ := post(t, s, chat, `{}`)
			return resp.Header.Get("X-Ratelimit-Remaining-Requests") + " " + resp.Header.Get("X-Ratelimit-Remaining-Tokens")
		}
		if got := left(); got != "59 5987" {
			t.Errorf("%s left at first", got)
		}
		// Ten requests of a hundred tokens each, once within the first period.
		time.Sleep(20*time.Second - 1)
		if got := left(); !strings.HasPrefix(got, "48 ") {
			t.Errorf("%s left after a burst", got)
		}
		time.Sleep(20 * time.Second)
		if got := left(); !strings.HasPrefix(got, "37 ") {
			t.Errorf("%s left after two", got)
		}
		if c := s.Counts(); c.Other != 20 || c.Admitted != 3 {
			t.Errorf("%+v", c)
		}
		others := 0
		for i, a := range s.Arrivals() {
			if a.Other {
				others++
			}
			if i > 0 && a.At.Before(s.Arrivals()[i-1].At) {
				t.Errorf("arrival %d came before the last", i)
			}
		}
		if others != 20 {
			t.Errorf("%d arrivals of the other client", others)
		}
		// A silence of years is caught up with at once.
		time.Sleep(30 * 365 * 24 * time.Hour)
		if got := left(); strings.HasPrefix(got, "59 ") || strings.HasPrefix(got, "-") {
			t.Errorf("%s left after years", got)
		}
	})
}

// What is refused to the other client counts where refusals count.
func TestOtherClientIsRefused(t *testing.T) {
	for penalise, want := range map[bool]string{false: "429 1", true: "429 4"} {
		synctest.Test(t, func(t *testing.T) {
			s := mustStub(t, stub.Config{
				Meters: []stub.Meter{{Kind: stub.Bucket, Limit: 60, Burst: 3}}, Penalise: penalise,
				Other: stub.Other{Share: 1, Every: 10 * time.Second},
			})
			expect(t, s, "200")
			time.Sleep(10 * time.Second) // ten requests within it, three of them admitted
			var at time.Time
			refused := 0
			for status(t, s); refused == 0; {
				for _, a := range s.Arrivals() {
					if a.Other && !a.Admitted {
						refused++
						at = a.At
					}
				}
			}
			if c := s.Counts(); c.Other != 3 || refused != 7 {
				t.Errorf("%d of 10 admitted and %d refused, want 3 and 7", c.Other, refused)
			}
			time.Sleep(time.Until(at.Add(10*time.Second + 1)))
			if got := status(t, s); got != want {
				t.Errorf("penalise %v: %q a moment after a burst, want %q", penalise, got, want)
			}
		})
	}
}

// FuzzParseOther reads any text: what is read is taken by a stub, and its own
// text reads as the same.
func FuzzParseOther(f *testing.F) {
	for _, text := range []string{"40%/20s", " 0.5%/1m ", "100%/1ms", "0%/1s", "101%/1s", "NaN%/1s", "40/20s", "40%", "40%/0s", "40%/-1s", "1e-300%/1s", "5e-324%/1h", "%/", "+40%/20s", "0x1p2%/1s"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := stub.ParseOther(text)
		if err != nil {
			if o != (stub.Other{}) || !strings.Contains(err.Error(), "40%/20s") {
				t.Errorf("%q: %+v, %v", text, o, err)
			}
			return
		}
		again, err := stub.ParseOther(o.String())
		if err != nil || again.Every != o.Every || again.Share < o.Share*(1-1e-9) || again.Share > o.Share*(1+1e-9) {
			t.Errorf("%q is %+v, whose text %q is %+v, %v", text, o, o, again, err)
		}
		if _, err := stub.New(stub.Config{Meters: []stub.Meter{{Kind: stub.Rolling, Limit: 1}}, Other: o}); err != nil {
			t.Errorf("%q was read and not taken: %v", text, err)
		}
	})
}
