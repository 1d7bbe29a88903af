package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/dialect/dialecttest"
	"github.com/paceline-proxy/paceline/policy"
)

// asCurlPrints is a case as a person has it.
func asCurlPrints(c dialecttest.Case, line string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/2 %d %s", c.Status, line)
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		for _, value := range c.Headers[name] {
			fmt.Fprintf(&b, "%s: %s%s", name, value, line)
		}
	}
	return b.String() + line + c.Body
}

// What explain says of an answer that is printed is what its dialect reads in it,
// for every golden case.
func TestExplainGoldenCases(t *testing.T) {
	const root = "../../dialect/testdata/cases"
	t.Setenv("PACELINE_HOME", t.TempDir())
	folders, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		cases, err := dialecttest.Load(os.DirFS(root + "/" + folder.Name()))
		if err != nil || len(cases) == 0 {
			t.Fatal(folder.Name(), err)
		}
		as := dialect.Generic.Name
		if d, ok := dialect.ByName(folder.Name()); ok {
			as = d.Name
		}
		for i, c := range cases {
			if slices.ContainsFunc(slices.Collect(maps.Values(c.Headers)), func(v dialecttest.Values) bool { return strings.ContainsAny(strings.Join(v, ""), "\r\n") }) {
				continue // no line as printed
			}
			printed := asCurlPrints(c, []string{"\n", "\r\n"}[i%2])
			var out, errs bytes.Buffer
			code := run(t.Context(), []string{"explain", "--json", "--provider", as, "--at", c.ObservedAt.Format(time.RFC3339Nano), "-"}, strings.NewReader(printed), &out, &errs)
			if code != 0 || errs.Len() > 0 {
				t.Errorf("%s: exit code %d: %s", c.Name, code, &errs)
				continue
			}
			var got dialecttest.Expect
			if err := json.Unmarshal(out.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			order := func(a, b dialecttest.Bucket) int { return strings.Compare(a.String(), b.String()) }
			slices.SortFunc(got.Buckets, order)
			slices.SortFunc(c.Expect.Buckets, order)
			wait := func(e dialecttest.Expect) string {
				if e.WaitMS == nil {
					return "not said"
				}
				return fmt.Sprint(*e.WaitMS)
			}
			if got.Class != c.Expect.Class || wait(got) != wait(c.Expect) || fmt.Sprint(got.Buckets) != fmt.Sprint(c.Expect.Buckets) {
				t.Errorf("%s: %s, wait %s, %v; want %s, wait %s, %v", c.Name, got.Class, wait(got), got.Buckets, c.Expect.Class, wait(c.Expect), c.Expect.Buckets)
			}
		}
	}
}

// What a person may have before them: heads with either line end, of several
// answers, folded; bodies as they came.
func TestParseResponse(t *testing.T) {
	for _, tt := range []struct {
		name, raw string
		status    int
		header    http.Header
		body      string
	}{
		{"HTTP/1.1", "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\n\r\n{}\n", 429, http.Header{"Retry-After": {"3"}}, "{}\n"},
		{"HTTP/2 in lines of Unix", "HTTP/2 429 \nretry-after:3\n\n{}", 429, http.Header{"Retry-After": {"3"}}, "{}"},
		{"no body", "HTTP/2 503 \r\n\r\n", 503, http.Header{}, ""},
		{"no end of the head", "HTTP/2 503\nretry-after: 1", 503, http.Header{"Retry-After": {"1"}}, ""},
		{"100 Continue", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nA: b\r\n\r\nhi", 200, http.Header{"A": {"b"}}, "hi"},
		{"a proxy and a redirect", "HTTP/1.1 200 Connection established\r\n\r\nHTTP/2 301 \r\nlocation: /x\r\n\r\n\r\nHTTP/2 429 \r\n\r\n", 429, http.Header{}, ""},
		{"folded, twice, empty", "HTTP/1.1 429\nA: b\n  c\nA: d\nE:\n\n", 429, http.Header{"A": {"b c", "d"}, "E": {""}}, ""},
		{"before it", "\xef\xbb\xbf\n \r\nHTTP/3 429\n\nx", 429, http.Header{}, "x"},
		{"an empty line in the body", "HTTP/2 500\n\n\n\nx", 500, http.Header{}, "\n\nx"},
		{"chunked, decoded", "HTTP/1.1 429 x\nTransfer-Encoding: chunked\n\n{\"a\":1}", 429, http.Header{"Transfer-Encoding": {"chunked"}}, `{"a":1}`},
		{"chunked, as sent", "HTTP/1.1 429 x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n", 429, http.Header{"Transfer-Encoding": {"chunked"}}, `{"a":1}`},
		{"no gzip", "HTTP/1.1 429 x\r\n\r\n\x1f\x8b\x08\x00", 429, http.Header{}, "\x1f\x8b\x08\x00"},
	} {
		got, err := parseResponse([]byte(tt.raw))
		if err != nil || got.head.Status != tt.status || !reflect.DeepEqual(got.head.Header, tt.header) || string(got.body) != tt.body {
			t.Errorf("%s: %d %v %q, %v", tt.name, got.head.Status, got.head.Header, got.body, err)
		}
	}
	var z bytes.Buffer
	z.WriteString("HTTP/1.1 429 x\r\nContent-Encoding: gzip\r\n\r\n")
	w := gzip.NewWriter(&z)
	w.Write([]byte(`{"a":1}`))
	w.Close()
	if got, err := parseResponse(z.Bytes()); err != nil || string(got.body) != `{"a":1}` {
		t.Errorf("%q, %v", got.body, err)
	}
}

// What is no response is refused with what to give instead.
func TestParseResponseRefuses(t *testing.T) {
	for raw, want := range map[string]string{
		"":                      "it is empty; give it what curl -i prints",
		" \n\n":                 "it is empty",
		`{"error":{}}`:          `line 1 is "{\"error\":{}}"; a response begins with a line such as "HTTP/1.1 429 Too Many Requests": curl prints it with -i`,
		"retry-after: 3\n":      `line 1 is "retry-after: 3"`,
		"\n\nHTTP/1.1 OK\n":     `line 3 is "HTTP/1.1 OK"`,
		"HTTP/1.1 42 x\n":       "line 1",
		"HTTP/1.1 4290 x\n":     "line 1",
		"HTTP/2 429\nretry 3\n": `line 2 is "retry 3", and neither a header nor the empty line that ends them; write headers as "retry-after: 20"`,
		"HTTP/2 429\n: 3\n":     "line 2",
		"HTTP/2 429\n folded\n": "line 2",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/2 429\r\nx\r\n": `line 4 is "x"`,
		"HTTP/2 429\n" + strings.Repeat("y", 500):          `y…"`,
	} {
		if _, err := parseResponse([]byte(raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", raw, err, want)
		}
	}
}

func FuzzParseResponse(f *testing.F) {
	for _, raw := range []string{
		"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nA: b\r\n c\r\n\r\n{}", "HTTP/1.1 100 Continue\r\n\r\nHTTP/2 200 \n\nhi",
		"HTTP/1.1 429 x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n0\r\n\r\n", "HTTP/2 429\n\n\x1f\x8b", "{}", "HTTP/2 429\nx",
	} {
		f.Add([]byte(raw))
	}
	as, err := paceline.Provider{Name: "other", BaseURL: "https://localhost", Dialect: "generic"}.Complete()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		res, err := parseResponse(raw)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r\x00") || !strings.Contains(err.Error(), "curl") && !strings.Contains(err.Error(), "retry-after") {
				t.Errorf("%q is refused with %v", raw, err)
			}
			return
		}
		if res.head.Status < 100 || res.head.Status > 999 || len(res.body) > 0 && res.body == nil {
			t.Errorf("%q: %+v", raw, res)
		}
		res.head.Received = time.Unix(1e9, 0)
		e := explain(as, res)
		var out strings.Builder
		if err := e.print(&out); err != nil || e.Class == "" || e.Why == "" {
			t.Errorf("%+v, %v", e, err)
		}
	})
}

// What explain says would be done is what the one path does.
func TestExplainConsequences(t *testing.T) {
	as, err := paceline.Provider{Name: "other", BaseURL: "https://localhost", Dialect: "generic"}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	var readings []dialect.Reading
	for _, class := range []dialect.Class{dialect.OK, dialect.RateLimited, dialect.Overloaded, dialect.Unavailable, dialect.QuotaExhausted, dialect.Billing, dialect.Rejected} {
		readings = append(readings, dialect.Reading{Class: class}, dialect.Reading{Class: class, Told: true})
		for _, wait := range []time.Duration{time.Second, 5 * time.Minute, time.Hour} {
			readings = append(readings, dialect.Reading{Class: class, Told: true, Wait: wait})
		}
	}
	readings = append(readings, dialect.Reading{Class: dialect.RateLimited, TooLarge: true}, dialect.Reading{Class: dialect.RateLimited, Concurrent: true})
	for _, r := range readings {
		now := time.Unix(1e9, 0)
		again := policy.Rules{Retry: as.Retry}.Judge(&policy.Tally{}, r, now, true).Again
		if r.Class == dialect.RateLimited && r.Wait > as.Retry.Patience() {
			again = false // its pause is beyond its caller's patience
		}
		says := explanation{reading: r, as: as}.consequence()
		if strings.Contains(says, "send it again") != again || strings.Contains(says, "hand it") == again {
			t.Errorf("%+v: %q, and again is %v", r, says, again)
		}
	}
}
