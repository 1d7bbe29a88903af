package dialect_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/dialect/dialecttest"
)

// What follows holds for every dialect that ships: a provider adds words of its
// own to the shared rules and takes none away.

var noon = time.Date(2026, 10, 4, 12, 0, 0, 0, time.UTC)

// head is a response's head that came at noon; headers come in pairs.
func head(status int, headers ...string) dialect.Head {
	h := dialect.Head{Status: status, Header: make(http.Header), Received: noon}
	for i := 0; i+1 < len(headers); i += 2 {
		name := http.CanonicalHeaderKey(headers[i])
		h.Header[name] = append(h.Header[name], headers[i+1])
	}
	return h
}

func everyDialect(t *testing.T, f func(t *testing.T, d *dialect.Dialect)) {
	for _, d := range dialect.All {
		t.Run(d.Name, func(t *testing.T) { f(t, d) })
	}
}

// readSound reads an answer and fails where the reading breaks a promise.
func readSound(t *testing.T, d *dialect.Dialect, h dialect.Head, body string) dialect.Reading {
	t.Helper()
	r := d.ReadHead(h, []byte(body))
	if err := dialecttest.Sound(r); err != nil {
		t.Errorf("%v to %q: %v", h.Header, body, err)
	}
	return r
}

// nonsense are values that say no wait, wherever they stand.
var nonsense = []string{
	"-1", "-11", "-0.5", "-5s", "-1536195196", "NaN", "nan", "inf", "Inf", "-Infinity", "1e3", "1e300", "1E-5", "0x10",
	"1_000", "+30", "   ", "soon", "null", "true", "PT30S", "1m 30s", "30 seconds from now", "120; comment", "5=5", "$5",
	"99999999999999999999999999999999999", "9223372036854775807", "18446744073709551616", "12345678901", "123456789012",
	"1791115195", "1791115195000", "999999999999999", "0001-01-01T00:00:00Z", "2026-13-45T99:00:00Z",
	"Sun, 06 Nov 1994 08:49:37 GMT", "Foo, 04 Oct 2026 12:00:30 GMT", "Sun, 04 Oct 100000 12:00:30 GMT", "Sun, 04 Oct",
	"5\r\nX-Evil: 1", "\x00", "\xff\xfe", "٣٠", "３０", "3O", ".5", "5.", "1.2.3", "1..5s", "5ss", "s", "m", "1h-5m",
	"106751991167d", strings.Repeat("9", 5000), strings.Repeat("9,", 5000),
}

// waitPlaces are where a wait may stand.
var waitPlaces = []struct {
	name string
	put  func(h dialect.Head, value string) (body string)
}{
	{"Retry-After", func(h dialect.Head, v string) string { h.Header["Retry-After"] = []string{v}; return "" }},
	{"retry-after with a space", func(h dialect.Head, v string) string { h.Header["retry-after "] = []string{v}; return "" }},
	{"Retry-After-Ms", func(h dialect.Head, v string) string { h.Header["Retry-After-Ms"] = []string{v}; return "" }},
	{"X-Ms-Retry-After-Ms", func(h dialect.Head, v string) string { h.Header["X-Ms-Retry-After-Ms"] = []string{v}; return "" }},
	{"RetryInfo", func(_ dialect.Head, v string) string {
		return fmt.Sprintf(`{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":%q}]}}`, v)
	}},
	{"quotaResetDelay", func(_ dialect.Head, v string) string {
		return fmt.Sprintf(`[{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","metadata":{"quotaResetDelay":%q}}]}}]`, v)
	}},
	{"retry_after", func(_ dialect.Head, v string) string { return fmt.Sprintf(`{"error":{"retry_after":%q}}`, v) }},
	{"resets_at", func(_ dialect.Head, v string) string { return fmt.Sprintf(`{"error":{"resets_at":%q}}`, v) }},
	{"resets_in_seconds", func(_ dialect.Head, v string) string { return fmt.Sprintf(`{"error":{"resets_in_seconds":%q}}`, v) }},
	{"estimated_time", func(_ dialect.Head, v string) string { return fmt.Sprintf(`{"error":"x","estimated_time":%q}`, v) }},
}

// resetPlaces are the resets of buckets, that say a wait where the bucket is
// empty; the last one may be sent by nobody's buckets but one dialect's.
var resetPlaces = []struct{ reset, remaining string }{
	{"X-Ratelimit-Reset", "X-Ratelimit-Remaining"},
	{"X-Ratelimit-Reset-Requests", "X-Ratelimit-Remaining-Requests"},
	{"X-Ratelimit-Reset-Tokens", "X-Ratelimit-Remaining-Tokens"},
	{"X-Ratelimit-Reset-After", "X-Ratelimit-Remaining"},
	{"Ratelimit-Reset", "Ratelimit-Remaining"},
	{"Ratelimitbysize-Reset", "Ratelimitbysize-Remaining"},
	{"X-Ratelimit-Reset-Requests-Minute", "X-Ratelimit-Remaining-Requests-Minute"},
	{"Anthropic-Ratelimit-Requests-Reset", "Anthropic-Ratelimit-Requests-Remaining"},
	{"Anthropic-Ratelimit-Input-Tokens-Reset", "Anthropic-Ratelimit-Input-Tokens-Remaining"},
}

// P-90, R-49, S-41: nonsense is not said. It is never a wait of zero, which
// would be a busy loop, and never one of years.
func TestNonsenseIsNotSaid(t *testing.T) {
	everyDialect(t, func(t *testing.T, d *dialect.Dialect) {
		for _, v := range nonsense {
			for _, place := range waitPlaces {
				h := head(429)
				body := place.put(h, v)
				if r := readSound(t, d, h, body); r.Told || r.Class != dialect.RateLimited {
					t.Errorf("%s: %.40q is %s, %v (%s)", place.name, v, r.Class, r.Wait, r.Why)
				}
			}
			for _, place := range resetPlaces {
				r := readSound(t, d, head(429, place.remaining, "0", place.reset, v), "")
				// Where requests are a day's, an empty bucket is a spent day.
				class := dialect.RateLimited
				if slices.ContainsFunc(r.Buckets, func(b dialect.Snapshot) bool { return b.Window == dialect.Day }) {
					class = dialect.QuotaExhausted
				}
				if r.Told || r.Class != class {
					t.Errorf("%s: %.40q is %s, %v (%s)", place.reset, v, r.Class, r.Wait, r.Why)
				}
				for _, b := range r.Buckets {
					if !b.Recovery.At.IsZero() {
						t.Errorf("%s: %.40q is an instant: %v", place.reset, v, b.Recovery.At)
					}
				}
			}
			for _, name := range []string{"Anthropic-Ratelimit-Unified-Reset", "Anthropic-Ratelimit-Unified-5h-Reset", "Anthropic-Ratelimit-Unified-5h-Utilization", "X-Codex-Primary-Reset-At", "X-Codex-Primary-Used-Percent", "X-Codex-Primary-Window-Minutes", "Ratelimit", "Ratelimit-Policy", "Age", "X-Ratelimit-Timeremaining", "X-Ratelimit-Renewalperiod-Requests", "Proxy-Status"} {
				if r := readSound(t, d, head(429, name, v), ""); r.Told || r.Class != dialect.RateLimited {
					t.Errorf("%s: %.40q is %s, %v (%s)", name, v, r.Class, r.Wait, r.Why)
				}
			}
		}
	})
}

// What can be read in one place can be read in all of them, but that some count
// milliseconds.
func TestSenseIsReadEverywhere(t *testing.T) {
	said := map[string]time.Duration{
		"30": 30 * time.Second, "030": 30 * time.Second, " 30 ": 30 * time.Second, "0.5": 500 * time.Millisecond,
		"0.0001": time.Millisecond, "30s": 30 * time.Second, "6m0s": 6 * time.Minute, "1m30.951s": 90951 * time.Millisecond,
		"300ms": 300 * time.Millisecond, "1791115230": 30 * time.Second, "1791115230000": 30 * time.Second,
		"Sun, 04 Oct 2026 12:00:30 GMT": 30 * time.Second, "Sun, 4 Oct 2026 12:00:30 GMT": 30 * time.Second,
		"Mon, 04 Oct 2026 12:00:30 GMT": 30 * time.Second, "Sunday, 04-Oct-26 12:00:30 GMT": 30 * time.Second,
		"Sun Oct  4 12:00:30 2026": 30 * time.Second, "Sun, 04 Oct 2026 21:00:30 +0900": 30 * time.Second,
		"2026-10-04T12:00:30Z": 30 * time.Second, "2026-10-04T12:00:30": 30 * time.Second, "2026-10-04T21:00:30+09:00": 30 * time.Second,
	}
	everyDialect(t, func(t *testing.T, d *dialect.Dialect) {
		for v, want := range said {
			for _, place := range waitPlaces {
				want := want
				if strings.HasSuffix(place.name, "-Ms") && strings.Trim(v, " 0123456789.") == "" && len(v) < 10 {
					want = max(want/1000, time.Millisecond)
				}
				h := head(429)
				body := place.put(h, v)
				if r := readSound(t, d, h, body); !r.Told || r.Wait != want || r.Class != dialect.RateLimited {
					t.Errorf("%s: %q is %s, %v, want %v (%s)", place.name, v, r.Class, r.Wait, want, r.Why)
				}
			}
			for _, place := range resetPlaces {
				if strings.HasPrefix(place.reset, "Anthropic") && d != dialect.Anthropic && d != dialect.LiteLLM ||
					strings.HasPrefix(place.reset, "Ratelimitbysize") && d != dialect.Mistral || d == dialect.Together && strings.HasPrefix(place.reset, "Ratelimit") {
					continue
				}
				r := readSound(t, d, head(429, place.remaining, "0", place.reset, v), "")
				if want > time.Millisecond && (!r.Told || r.Wait != want) {
					t.Errorf("%s: %q is %s, %v, want %v (%s)", place.reset, v, r.Class, r.Wait, want, r.Why)
				}
			}
		}
	})
}

// Counts that are none leave no bucket, or the half that can be read.
func TestCountsThatAreNone(t *testing.T) {
	everyDialect(t, func(t *testing.T, d *dialect.Dialect) {
		for _, place := range resetPlaces {
			limit := strings.Replace(place.remaining, "Remaining", "Limit", 1)
			for _, v := range []string{"NaN", "inf", "1e3", "unlimited", "1000/min", "18446744073709551616", "0x10", "+5", "1_0", "", "٣", "3.5"} {
				r := readSound(t, d, head(200, limit, v, place.remaining, v), "")
				if len(r.Buckets) > 0 {
					t.Errorf("%s: %q is %+v", limit, v, r.Buckets)
				}
			}
			// -1 beside -1 is not known, and so is its reset.
			r := readSound(t, d, head(429, limit, "-1", place.remaining, "-1", place.reset, "0"), "")
			if len(r.Buckets) > 0 || r.Told {
				t.Errorf("%s: -1 is %+v, %v", limit, r.Buckets, r.Wait)
			}
			// Beside a limit a negative remainder is an overdraft.
			for _, b := range readSound(t, d, head(200, limit, "60", place.remaining, "-4"), "").Buckets {
				if !b.Empty() || *b.Limit != 60 {
					t.Errorf("%s: -4 of 60 is %+v", limit, b)
				}
			}
			// Two lines, joined or not, are two opinions: the tighter one binds.
			for _, h := range []dialect.Head{
				head(200, limit, "60", place.remaining, "41", place.remaining, "3"),
				head(200, limit, "60", place.remaining, "41, 3"),
			} {
				for _, b := range readSound(t, d, h, "").Buckets {
					if *b.Remaining != 3 {
						t.Errorf("%s: %+v", place.remaining, b)
					}
				}
			}
			for _, b := range readSound(t, d, head(200, limit, "1,234,567", place.remaining, "30,000"), "").Buckets {
				if *b.Limit != 1234567 || *b.Remaining != 30000 {
					t.Errorf("%s: %+v", place.remaining, b)
				}
			}
			for _, b := range readSound(t, d, head(200, limit, "0", place.remaining, "0"), "").Buckets {
				if *b.Limit != 0 || b.Recovery.PerSecond != 0 {
					t.Errorf("%s: no allowance at all is %+v", limit, b)
				}
			}
		}
	})
}

// A success asks no wait, whatever it carries, and without headers it has no
// news.
func TestSuccessAsksNoWait(t *testing.T) {
	everyDialect(t, func(t *testing.T, d *dialect.Dialect) {
		for _, status := range []int{200, 201, 204, 206, 304, 307} {
			r := readSound(t, d, head(status, "Retry-After", "5", "Retry-After-Ms", "5", "X-Ratelimit-Reset", "5"), "")
			if r.Class != dialect.OK || r.Told {
				t.Errorf("%d is %s, %v", status, r.Class, r.Wait)
			}
		}
		if r := readSound(t, d, head(200), ""); r.Buckets != nil || r.Why == "" {
			t.Errorf("%+v", r)
		}
	})
}

// The order of what is said: milliseconds, Retry-After, the IETF's t, the
// longer of OpenAI's resets, the reset without a unit.
func TestOrderOfHints(t *testing.T) {
	for _, counted := range []bool{true, false} {
		h := head(429, "Retry-After-Ms", "1000", "Retry-After", "2", "Ratelimit", `"a";r=0;t=3`,
			"X-Ratelimit-Reset-Requests", "4s", "X-Ratelimit-Reset-Tokens", "5s", "X-Ratelimit-Reset", fmt.Sprint(noon.Unix()+6))
		if counted {
			for _, name := range []string{"X-Ratelimit-Remaining-Requests", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Remaining"} {
				h.Header.Set(name, "0")
			}
		}
		for _, step := range []struct {
			want time.Duration
			drop []string
		}{
			{1, []string{"Retry-After-Ms"}}, {2, []string{"Retry-After"}}, {3, []string{"Ratelimit"}},
			{5, []string{"X-Ratelimit-Reset-Tokens"}}, {4, []string{"X-Ratelimit-Reset-Requests"}}, {6, []string{"X-Ratelimit-Reset"}},
		} {
			if counted && step.want < 6 && step.want > 3 {
				h.Header.Del("X-Ratelimit-Reset") // of empty buckets the latest reset counts
			}
			if counted && step.want == 6 {
				h.Header.Set("X-Ratelimit-Reset", fmt.Sprint(noon.Unix()+6))
			}
			if r := readSound(t, dialect.OpenAI, h, ""); r.Wait != step.want*time.Second {
				t.Errorf("counted %v: %v, want %d s (%s)", counted, r.Wait, step.want, r.Why)
			}
			for _, name := range step.drop {
				h.Header.Del(name)
			}
		}
		if r := readSound(t, dialect.OpenAI, h, ""); r.Told {
			t.Errorf("nothing is said: %v", r.Wait)
		}
	}
}

// Every dialect reads every provider's cases without breaking a promise, and a
// body that is larger or deeper than any honest one.
func TestAnyAnswerIsSound(t *testing.T) {
	cases, err := dialecttest.Load(os.DirFS("testdata/cases"))
	if err != nil {
		t.Fatal(err)
	}
	large := `{"error":{"message":"` + strings.Repeat("x", 20<<20) + `"}}`
	deep := strings.Repeat(`{"error":`, 1<<16)
	lists := strings.Repeat(`[`, 1<<16) + strings.Repeat(`]`, 1<<16)
	quoted := `"rate limited"`
	for range 12 {
		quoted = fmt.Sprintf(`{"error":{"message":%q}}`, quoted)
	}
	var bodies [][]byte
	for _, body := range []string{large, deep, lists, quoted, "\xff\xfe{\"error\"", "\xff\xff\xff", "\x1f\x8b\x08", "null", "0", `""`, `{}`, `[]`, "event: error", "data:\n\n", "\n\n\n"} {
		bodies = append(bodies, []byte(body))
	}
	everyDialect(t, func(t *testing.T, d *dialect.Dialect) {
		for _, c := range cases {
			readSound(t, d, c.Head(), c.Body)
			for _, status := range []int{200, 429} {
				h := c.Head()
				h.Status = status
				readSound(t, d, h, c.Body)
			}
		}
		for _, body := range bodies {
			for _, status := range []int{200, 429, 503} {
				r := d.ReadHead(head(status), body)
				if err := dialecttest.Sound(r); err != nil {
					t.Error(err)
				}
				if status == 429 && r.Class != dialect.RateLimited || r.Told {
					t.Errorf("%d to %.20q is %s, %v", status, body, r.Class, r.Wait)
				}
			}
		}
	})
}

// One bucket under the names of two families is one bucket, read the same each
// time: the tighter numbers, the later reset.
func TestTwoNamesOfOneBucket(t *testing.T) {
	h := head(429, "X-Ratelimit-Limit", "100", "Ratelimit-Limit", "60", "X-Ratelimit-Remaining", "0", "Ratelimit-Remaining", "5", "X-Ratelimit-Reset", "20", "Ratelimit-Reset", "30")
	for range 50 {
		r := readSound(t, dialect.Generic, h, "")
		if len(r.Buckets) != 1 || *r.Buckets[0].Limit != 60 || !r.Buckets[0].Empty() || r.Wait != 30*time.Second {
			t.Fatalf("%+v", r)
		}
	}
}
