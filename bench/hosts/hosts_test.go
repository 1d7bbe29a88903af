package hosts

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/fleet"
	"github.com/paceline-proxy/paceline/internal/servertest"
	"github.com/paceline-proxy/paceline/stub"
)

var (
	real   = flag.Bool("real", false, "measure, in real time: half a minute a row")
	lines  = flag.Bool("json", false, "one JSON object a line")
	outage = flag.Bool("outage", false, "kill the limiter's server in the middle of each row")
)

// What the provider allows, and how far apart requests that start together may
// arrive: less than the slack, since sockets and the scheduler take their part.
const (
	hosts   = 3
	clients = 8 // of each host
	calls   = 60
	per     = 10 * time.Second
	slack   = 200 * time.Millisecond
	jitter  = slack * 3 / 4
	warm    = per
	span    = 2 * per
)

// A Row is what was measured. Ratio is of what a client with all knowledge gets.
type Row struct {
	Row            string  `json:"row"`
	Scenario       string  `json:"scenario"`
	System         string  `json:"system"`
	Ratio          float64 `json:"ratio"`
	RefusalsPer100 float64 `json:"refusals_per_100"`
	PeakWindow     int     `json:"peak_window"`
	Seed           uint64  `json:"seed"`
	// AwayMs and BackMs are how long the server was gone, and how long after its
	// start the last host had found it. PeakAlone is the fullest window meanwhile.
	AwayMs    int64 `json:"away_ms,omitempty"`
	BackMs    int64 `json:"back_ms,omitempty"`
	PeakAlone int   `json:"peak_alone,omitempty"`
}

func (r Row) print(t *testing.T) {
	if *lines {
		if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
			t.Error(err)
		}
		return
	}
	fmt.Printf("%-34s %-10s ratio %.3f  refusals/100 %.2f  peak %d of %d", r.Scenario, r.System, r.Ratio, r.RefusalsPer100, r.PeakWindow, calls)
	if r.AwayMs > 0 {
		fmt.Printf("  away %d ms, back after %d ms, peak meanwhile %d", r.AwayMs, r.BackMs, r.PeakAlone)
	}
	fmt.Println()
}

// TestHosts measures; it asserts only what holds on a busy machine, too: that
// everybody is answered, and that no window is exceeded by what its hosts may
// not.
func TestHosts(t *testing.T) {
	if !*real {
		t.Skip("a measurement in real time: give -args -real")
	}
	servers := map[string]func(t *testing.T) *servertest.Server{
		"redis":    func(t *testing.T) *servertest.Server { return servertest.StartRedis(t, "--appendonly", "yes") },
		"postgres": func(t *testing.T) *servertest.Server { return servertest.StartPostgres(t) },
	}
	for _, system := range []string{"redis", "postgres"} {
		for _, pacing := range []string{"even", "burst"} {
			t.Run(system+" "+pacing, func(t *testing.T) { measure(t, system, pacing, servers[system](t)) })
		}
	}
}

func measure(t *testing.T, system, pacing string, s *servertest.Server) {
	meter := stub.Meter{Kind: stub.Rolling, Limit: calls, Per: per}
	config := stub.Config{Meters: []stub.Meter{meter}, Jitter: jitter, Service: 100 * time.Millisecond, Seed: 1, RetryAfter: stub.RetryAfterSeconds}
	if *outage {
		config.Meters = nil // what is over the limit is to be counted, not refused
	}
	f := fleet.Start(t, hosts, fmt.Sprintf("{url: %q}", s.URL), config,
		fmt.Sprintf("{windows: [{calls: %d, perMs: %d, slackMs: %d}], pacing: %s}", calls, per.Milliseconds(), slack.Milliseconds(), pacing))
	r := Row{Row: "hosts", Scenario: fmt.Sprintf("rolling %d/%v, 3 hosts, %s", calls, per, pacing), System: system, Seed: 1}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var script sync.WaitGroup
	var from, to, down, up, back time.Time
	script.Go(func() {
		defer cancel()
		time.Sleep(warm)
		if *outage {
			down = time.Now()
			s.Kill()
			time.Sleep(per)
			s.Restart()
			up = time.Now()
			for i := range hosts {
				fleet.Await(t, time.Minute, func() bool { return f.Status(t, i).Limiter.State == "ok" })
			}
			back = time.Now()
			time.Sleep(per)
		}
		from = time.Now()
		time.Sleep(span)
		to = time.Now()
	})
	f.Load(ctx, t, clients)
	script.Wait()
	admitted := 0
	at := f.Arrivals()
	for _, a := range at {
		if !a.Before(from) && a.Before(to) {
			admitted++
		}
	}
	c := f.Provider.Counts()
	r.Ratio = float64(admitted) / (float64(calls) * float64(to.Sub(from)) / float64(per))
	r.RefusalsPer100 = 100 * float64(c.Refused) / float64(max(1, c.Admitted))
	r.PeakWindow = fleet.Busiest(at, per, from, to)
	if *outage {
		r.AwayMs, r.BackMs = up.Sub(down).Milliseconds(), back.Sub(up).Milliseconds()
		r.PeakAlone = fleet.Busiest(at, per, down, back)
		// Beside what was granted before, each host may have its share: a third.
		if r.PeakAlone > 2*calls {
			t.Errorf("%d in a window of %d while the limiter was away", r.PeakAlone, calls)
		}
	}
	r.print(t)
}
