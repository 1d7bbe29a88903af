package goodput

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/stub"
)

var overSockets = flag.Bool("real", false, "check row 1 over real sockets, which takes about 40 seconds")

// TestReal is row 1 once over sockets and in real time, as a check on what the
// virtual one says. It asserts nothing: a busy machine is late.
func TestReal(t *testing.T) {
	if !*overSockets {
		t.Skip("a measurement in real time: give -args -real")
	}
	s := scenario("rolling 20/10s, sockets", noFigure, stub.Meter{Kind: stub.Rolling, Limit: 20, Per: 10 * time.Second})
	// What the sockets and the scheduler add to the transit comes out of the
	// slack as well: the stub's part of the jitter is smaller than what the
	// client allows for.
	s.Jitter = s.Slack * 3 / 4
	row := Row{Row: "1", Scenario: s.Name, Figure: declaredFigure, PeakWindow: 20, Trial: Trial{
		Scenario: s, System: Declared(paceline.Even), Tells: stub.RetryAfterSeconds, Seed: 1,
		From: 5 * time.Second, To: 35 * time.Second,
	}}

	provider := must(stub.New(s.config(row.Trial.Tells, row.Trial.Seed)))
	server := httptest.NewServer(provider)
	defer server.Close()
	client := &http.Transport{MaxIdleConnsPerHost: clients}
	defer client.CloseIdleConnections()
	o := row.Trial.over(provider, client, server.URL+"/v1")

	// Three windows of 20: what the oracle comes to needs no playing.
	report := Report{Rows: []Row{row}, Results: [][]Result{{row.result(o, 60)}}}
	write := report.WriteTable
	if *lines {
		write = report.WriteJSON
	}
	if err := write(os.Stdout); err != nil {
		t.Error(err)
	}
	fmt.Println()
}
