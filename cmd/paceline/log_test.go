package main

import (
	"encoding/json"
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
