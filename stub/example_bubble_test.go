package stub_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/stub"
)

// testEvenPacing is how a test looks that takes an hour of the bubble's time
// and none of its reader's: one request every four seconds is never refused by
// a bucket of three that gains one every four seconds.
func testEvenPacing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider, err := stub.New(stub.Config{
			Meters:  []stub.Meter{{Kind: stub.Bucket, Limit: 15, Per: time.Minute, Burst: 3}},
			Service: 2 * time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		client := http.Client{Transport: provider}

		for next := time.Now(); provider.Counts().Admitted < 900; next = next.Add(4 * time.Second) {
			time.Sleep(time.Until(next))
			resp, err := client.Post("https://api.example.com/v1/messages", "application/json", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("refused with a wait of %s s", resp.Header.Get("Retry-After"))
			}
		}
		if c := provider.Counts(); c.PeakWindow != 15 || c.PeakLive != 1 {
			t.Errorf("%+v", c)
		}
	})
}

// In a testing/synctest bubble, waits are exact and take no time.
func Example_bubble() {
	// As func TestEvenPacing(t *testing.T) in a test file of your own:
	_ = testEvenPacing
}
