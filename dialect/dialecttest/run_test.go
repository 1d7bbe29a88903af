package dialecttest

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/paceline-proxy/paceline/dialect"
)

const one = `{"provider":"x","observed_at":"2026-01-01T00:00:00Z","status":429,
"headers":{"retry-after":["1","5"],"Date":"Thu, 01 Jan 2026 00:00:00 GMT"},"body":"",
"expect":{"class":"rate_limited","wait_ms":5000,"buckets":[]},"why":"two lines"}`

// The kit must find fault with readers that break one rule each.
func TestCheckFindsFaults(t *testing.T) {
	cases, err := Load(fstest.MapFS{"a/one.json": {Data: []byte(one)}})
	if err != nil || len(cases) != 1 || cases[0].Name != "one" {
		t.Fatal(cases, err)
	}
	right := dialect.Reading{Class: dialect.RateLimited, Told: true, Wait: 5 * time.Second}
	for _, c := range []struct {
		name  string
		spoil func(*dialect.Reading)
		want  string
	}{
		{"right", func(*dialect.Reading) {}, ""},
		{"class", func(r *dialect.Reading) { r.Class = dialect.Billing }, "+ class billing"},
		{"wait", func(r *dialect.Reading) { r.Wait = time.Second }, "+ wait 1s"},
		{"not told", func(r *dialect.Reading) { r.Told, r.Wait = false, 0 }, "+ wait not said"},
		{"wait untold", func(r *dialect.Reading) { r.Told = false }, "what was not said is no wait"},
		{"bucket", func(r *dialect.Reading) { r.Buckets = []dialect.Snapshot{{Unit: "requests", Window: "day"}} }, "+ bucket requests per day: ? of ?, reset ?"},
		{"negative", func(r *dialect.Reading) { r.Wait = -1 }, "never negative"},
	} {
		reading := right
		c.spoil(&reading)
		d := &dialect.Dialect{Read: func(dialect.Head, []byte) dialect.Reading { return reading }}
		err := cases[0].Check(d)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestRun(t *testing.T) {
	Run(t, dialect.Generic, fstest.MapFS{"one.json": {Data: []byte(one)}})
}

func TestLoadRefusesBrokenFiles(t *testing.T) {
	if _, err := Load(fstest.MapFS{"bad.json": {Data: []byte("{")}}); err == nil {
		t.Error("no error")
	}
}
