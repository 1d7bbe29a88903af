package dialect

import (
	"encoding/json"
	"testing"
	"time"
)

// promised fails where a parser breaks what every one of them promises: what is
// not said is zero, and nothing is negative or beyond belief.
func promised(t *testing.T, in string, d time.Duration, ok bool) {
	t.Helper()
	if d < 0 || d > longestDelay || !ok && d != 0 {
		t.Errorf("%q is %v, %v", in, d, ok)
	}
}

func FuzzParseWhen(f *testing.F) {
	for _, s := range []string{"20", "6m0s", "1d2h", "1791115230", "1791115230000", "-5s", "1e3", "Sun, 4 Oct 2026 12:00:30 GMT", "2026-10-04T12:00:20", "5, 60", "0.1ns"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, unit := range []time.Duration{time.Second, time.Millisecond} {
			d, ok := parseWhen(s, noon, unit)
			promised(t, s, d, ok)
		}
		d, ok := parseRetryAfter([]string{s, s}, noon, time.Second)
		promised(t, s, d, ok)
	})
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"6m0s", "1d2h", "300ms", "0.5h", "12µs", "9999999999h", "1.", "106751d23h47m16.854775807s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, ok := parseDuration(s)
		if d < 0 || !ok && d != 0 {
			t.Fatalf("%q is %v, %v", s, d, ok)
		}
		// Where Go's own parser agrees that it is a duration, so does the sum.
		if want, err := time.ParseDuration(s); ok && err == nil && (d < want || d-want > time.Microsecond) {
			t.Errorf("%q is %v, Go says %v", s, d, want)
		}
	})
}

func FuzzParseDate(f *testing.F) {
	for _, form := range dateForms {
		f.Add(form)
		f.Add(noon.Format(form))
	}
	f.Fuzz(func(t *testing.T, s string) {
		if at, ok := parseDate(s); !ok && !at.IsZero() {
			t.Errorf("%q is %v", s, at)
		}
	})
}

func FuzzParseCount(f *testing.F) {
	for _, s := range []string{"5000", "30,000", "-1", "1e3", "18446744073709551616", "100, 100;w=60", "100;w=60, 5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if c := parseCount(s); !c.said && c.n != 0 || c.neg != (c.n < 0) {
			t.Errorf("%q is %+v", s, c)
		}
		readLimitLines([]string{s, s})
	})
}

func FuzzProse(f *testing.F) {
	for _, s := range []string{
		"Rate limit reached on tokens per day (TPD): Limit 100000, Used 97843, Requested 9191. Please try again in 1h53m56.832s.",
		"Rate limit of 50 per 86400s exceeded for UserByModelByDay. Please wait 43127 seconds before retrying.",
		"regain access on 2026-11-01 at 00:00 UTC", "GenerateRequestsPerDayPerProject",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, ok := proseWait(s, noon)
		promised(t, s, d, ok)
		if l, ok := readLimit(s); ok {
			if b, ok := l.bucket(); ok && (b.limit.n < 0 || b.remaining.n < 0) {
				t.Errorf("%q is %+v", s, b)
			}
		}
		nameLimit(spaced(s))
	})
}

func FuzzIETF(f *testing.F) {
	f.Add(`"burst";r=0;t=12,"daily";r=400;t=40000`, `"burst";q=100;w=60,"daily";q=1000;w=86400`)
	f.Add(`"api";r=495;t=140`, `"fixed window";"api";q=500;w=300`)
	f.Add(`limit=100, remaining=50, reset=5`, `100;w=60`)
	f.Add(`default;r=abc;t=30`, `"default";q=;w=60`)
	f.Add(`"a;,\"";r=1`, `"a";q=1;pk=:AA==:`)
	f.Fuzz(func(t *testing.T, left, policy string) {
		r := Generic.ReadHead(answerTo(429, "Ratelimit", left, "Ratelimit-Policy", policy), nil)
		promised(t, left, r.Wait, r.Told)
	})
}

func FuzzReadFault(f *testing.F) {
	for _, s := range []string{`{"error":{"code":"x","message":"y"}}`, "event: error\ndata: {}\n\n", `[{"error":{}}]`, `"text"`, `<html>`, `{"error":{"message":"{\"error\":1}"}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if got := readFault(body); len(got.texts) > maxTexts || len(got.codes) > maxCodes {
			t.Errorf("unbounded: %d texts, %d codes", len(got.texts), len(got.codes))
		}
	})
}

// FuzzTopLevel compares with the standard decoder: of every valid object the
// scanner sees the same fields.
func FuzzTopLevel(f *testing.F) {
	for _, s := range []string{`{"a":1,"b":[{"c":"]}\""}],"d":"\\"}`, `{}`, `{"a":{"b":{}}}`, ` { "a" : null } `, `{"a":`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		n := 0
		for _, v := range topLevel(doc) {
			n++
			v.text()
			v.natural()
		}
		var want map[string]json.RawMessage
		if json.Unmarshal(doc, &want) == nil && n < len(want) {
			t.Errorf("%q has %d fields, %d seen", doc, len(want), n)
		}
	})
}

// FuzzNames takes anything for a header's name, a code or a host's metric.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"x-ratelimit-limit-input-tokens-10-second", "x-ratelimit-reset-after-requests", "ratelimitbysize-remaining-month", "com.amazonaws#ThrottlingException"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if part, suffix, ok := splitName(s, familyPrefixes); ok {
			if n, ok := parseBucketName(suffix); ok && (n.unit == "" || n.window == "" || part == "") {
				t.Errorf("%q is %+v", s, n)
			}
		}
		if v, ok := judgeCode(plainCode(s)); ok && v.class == "" {
			t.Errorf("%q has no class", s)
		}
	})
}

// FuzzOwn takes anything for the values of the headers that one provider alone
// sends.
func FuzzOwn(f *testing.F) {
	for _, s := range []string{"42.5", "101", "NaN", "brd; error=x; details=\"client_10100 y\"", "client_10100", "rejected", "five_hour", "1791118800"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var b bucket
		b.takeUsed(s, 100)
		if b.Used != nil && !(*b.Used >= 0 && *b.Used <= mostUsed) {
			t.Errorf("%q is %v used", s, *b.Used)
		}
		for _, d := range All {
			for _, status := range []int{200, 429} {
				r := d.ReadHead(answerTo(status, "X-Brd-Err-Code", s, "Proxy-Status", s, "X-Codex-A-Used-Percent", s, "X-Codex-A-Reset-At", s, "X-Codex-A-Window-Minutes", s,
					"Anthropic-Ratelimit-Unified-Status", s, "Anthropic-Ratelimit-Unified-Representative-Claim", s, "Anthropic-Ratelimit-Unified-5h-Utilization", s, "X-Ratelimit-Type", s, "X-Ratelimit-Resource", s), nil)
				promised(t, s, r.Wait, r.Told)
			}
		}
	})
}
