package dialect_test

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/dialect/dialecttest"
)

// FuzzReadHead reads anything with every dialect: whatever a server sends, a
// reading keeps its promises. Headers are lines as on the wire.
func FuzzReadHead(f *testing.F) {
	cases, err := dialecttest.Load(os.DirFS("testdata/cases"))
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range cases {
		var lines []string
		for name, values := range c.Headers {
			for _, v := range values {
				lines = append(lines, name+": "+v)
			}
		}
		f.Add(c.Status, strings.Join(lines, "\n"), c.Body)
	}
	f.Fuzz(func(t *testing.T, status int, lines, body string) {
		h := dialect.Head{Status: status, Header: make(http.Header), Received: time.Date(2026, 10, 4, 12, 0, 0, 0, time.UTC)}
		for line := range strings.SplitSeq(lines, "\n") {
			name, value, _ := strings.Cut(line, ":")
			h.Header[name] = append(h.Header[name], value)
		}
		for _, d := range dialect.All {
			r := d.ReadHead(h, []byte(body))
			if err := dialecttest.Sound(r); err != nil {
				t.Errorf("%s: %v", d.Name, err)
			}
			if again := d.ReadHead(h, []byte(body)); again.Class != r.Class || again.Wait != r.Wait || len(again.Buckets) != len(r.Buckets) {
				t.Errorf("%s reads one answer in two ways:\n%+v\n%+v", d.Name, r, again)
			}
		}
	})
}

// FuzzDemandOf takes any body for a request's.
func FuzzDemandOf(f *testing.F) {
	for _, body := range []string{
		`{"model":"m","stream":true,"max_tokens":5,"messages":[{"a":"\"]"}]}`,
		`{"generationConfig":{"maxOutputTokens":7}}`, `{"model":"`, `{"a":[[[`, `{"a\`, `"`, ``, `{"max_tokens":-1}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, d := range dialect.All {
			if got := d.DemandOf(nil, body); got.Input < 0 || got.Output < 0 {
				t.Errorf("%s: %+v", d.Name, got)
			}
		}
	})
}
