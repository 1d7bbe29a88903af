package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/internal/history"
)

// P-153: no proxy runs in these scripts.
func TestLogScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/log",
		Setup: func(e *testscript.Env) error {
			e.Setenv("PACELINE_HOME", e.WorkDir+"/home")
			e.Setenv("TZ", "UTC")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"rows": addRows},
	})
}

// addRows writes the records of a file to the log of the home: JSON lines, in
// which "ago" is how long ago the attempt was sent and "took" for how long it
// ran. With --limits, the first argument, a file holds declared limits.
func addRows(ts *testscript.TestScript, _ bool, args []string) {
	l, err := history.Open(ts.Getenv("PACELINE_HOME")+"/log.db", history.Options{})
	ts.Check(err)
	if args[0] == "--limits" {
		var ps []paceline.Provider
		ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &ps))
		l.Declare(ps)
		args = args[2:]
	}
	for _, file := range args {
		for line := range strings.Lines(ts.ReadFile(file)) {
			var r paceline.Record
			ts.Check(json.Unmarshal([]byte(line), &r))
			var when struct{ Ago, Took string }
			ts.Check(json.Unmarshal([]byte(line), &when))
			ago, err := time.ParseDuration(when.Ago)
			ts.Check(err)
			took, err := time.ParseDuration(when.Took)
			ts.Check(err)
			r.Sent = time.Now().Add(-ago)
			r.Arrived, r.Done = r.Sent.Add(-r.Queued), r.Sent.Add(took)
			l.Add(r)
		}
	}
	ts.Check(l.Close())
}

// The picture has a bar for every hour, those without a request too.
func TestSparks(t *testing.T) {
	noon := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	var rows []paceline.Record
	for hour, n := range map[int]int{0: 1, 1: 4, 3: 8} {
		for i := range n {
			r := paceline.Record{Provider: "p", Sent: noon.Add(time.Duration(hour) * time.Hour), Status: 200}
			if i >= 4 {
				r.Status = 429
			}
			rows = append(rows, r)
		}
	}
	q := paceline.StatsQuery{Since: noon.Add(-10 * time.Minute), Until: noon.Add(4 * time.Hour), Zone: time.UTC}
	s := q.Report(slices.Values(rows))
	want := "\nsent, by hour  ·▁▄·█\n          429  ····▄\n"
	if got := sparks(s, q, 80); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := sparks(s, q, 19); got != "" {
		t.Errorf("where it does not fit: %q", got)
	}
}

// P-156: what the running proxy says is printed as it is.
func TestStatsOfTheProxy(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/stats" {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		io.WriteString(w, `{"callers": [ ]}`)
	}))
	defer proxy.Close()
	t.Setenv("PACELINE_HOME", t.TempDir())
	t.Setenv("PACELINE_URL", proxy.URL)
	var stdout, stderr strings.Builder
	if code := run(t.Context(), []string{"stats", "--proxy"}, nil, &stdout, &stderr); code != exitOK || stdout.String() != "{\"callers\": [ ]}\n" {
		t.Errorf("exit code %d, %q, %q", code, stdout.String(), stderr.String())
	}
}
