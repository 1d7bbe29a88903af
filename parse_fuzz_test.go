package paceline_test

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline"
)

// FuzzParseStatsPeriod reads any text: what is read is as long as it says, and
// what is not is refused with what is allowed.
func FuzzParseStatsPeriod(f *testing.F) {
	for _, text := range []string{"", " ", "24h", " 30m ", "2w", "0d", "-1h", "+1h", "1.5h", "007d", "h", "1", "15250w", "15251w", "99999999999999999999m", "1µ", "１h"} {
		f.Add(text)
	}
	units := map[string]time.Duration{"m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := paceline.ParseStatsPeriod(text)
		if err != nil {
			if got != 0 || !strings.Contains(err.Error(), "such as 30m, 24h, 7d or 2w") {
				t.Errorf("%q: %v, %v", text, got, err)
			}
			return
		}
		said := strings.TrimSpace(text)
		if said == "" {
			said = "24h"
		}
		n, err := strconv.ParseInt(said[:len(said)-1], 10, 64)
		unit := units[said[len(said)-1:]]
		if err != nil || got <= 0 || unit == 0 || got/unit != time.Duration(n) || got%unit != 0 {
			t.Errorf("%q is %v", text, got)
		}
		if again, err := paceline.ParseStatsPeriod(strconv.FormatInt(int64(got/time.Minute), 10) + "m"); err != nil || again != got {
			t.Errorf("%q is %v, in minutes %v, %v", text, got, again, err)
		}
	})
}

// FuzzStatsBy sets a span to any text: it is one of two words, or nothing is
// changed.
func FuzzStatsBy(f *testing.F) {
	for _, text := range []string{"hour", "day", "", "Hour", "week"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var by paceline.StatsBy
		if err := by.Set(text); err == nil {
			if by.String() != text || by != paceline.ByHour && by != paceline.ByDay {
				t.Errorf("%q is %q", text, by)
			}
		} else if by != "" || !strings.Contains(err.Error(), "hour or day") {
			t.Errorf("%q: %q, %v", text, by, err)
		}
	})
}

// FuzzRecord reads any JSON as a record: what is read can be written, and
// reads the same but for what is finer than a millisecond.
func FuzzRecord(f *testing.F) {
	at := time.Date(2026, 10, 4, 12, 0, 0, 123456789, time.FixedZone("", 7200))
	for _, r := range []paceline.Record{
		{},
		{ID: "r", Attempt: 2, Arrived: at, Sent: at, Done: at, Provider: "openai", Credential: "openai#1", Account: "a", Scope: "s",
			Tier: "t", Model: "m", Status: 429, Class: "rate_limited", Wait: 1500 * time.Millisecond, Told: true, Queued: time.Second,
			Evidence: &paceline.Evidence{UnderLimit: true, Sent60s: 3, Sent1s: 1, Factor: 0.5, Adapted: true},
			NotSent:  true, Timeout: true, Aborted: true, Retry: true, Cache: true, Saved: 3,
			Client: "c", Purpose: "p", Run: "n", Priority: "high", InTokens: 10, OutTokens: 20, Error: "x\u2028<&>"},
		{Evidence: &paceline.Evidence{}, Told: true},
	} {
		b, err := json.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, text := range []string{
		`null`, `{"t_sent":null}`, `{"t_sent":"0001-01-01T00:00:00.0000001Z"}`, `{"t_sent":"0000-01-01T00:00:00+01:00"}`,
		`{"t_sent":"9999-12-31T23:59:59.9999-23:59"}`, `{"wait_ms":9223372036854775807}`, `{"wait_ms":-9223372036855}`,
		`{"queued_ms":-9223372036854775808}`, `{"rate_factor":1e308,"rate_adapted":true}`, `{"rate_factor":0.1,"under_limit":false}`,
		`{"ID":"\ud800","class":"` + "\xff" + `"}`, `{"status":1e2}`, `{"id":1}`, `[]`, ``,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again paceline.Record
		if json.Unmarshal(b, &r) != nil {
			return
		}
		written, err := json.Marshal(r)
		if err != nil {
			t.Fatalf("%s was read as %+v and cannot be written: %v", b, r, err)
		}
		if err := json.Unmarshal(written, &again); err != nil {
			t.Fatalf("%s was written as %s and cannot be read: %v", b, written, err)
		}
		if r, again := rounded(r), rounded(again); !reflect.DeepEqual(r, again) {
			t.Errorf("%s was read as\n%+v, written as %s, and read as\n%+v", b, r, written, again)
		}
	})
}

// rounded is a record in what its JSON tells.
func rounded(r paceline.Record) paceline.Record {
	for _, at := range []*time.Time{&r.Arrived, &r.Sent, &r.Done} {
		*at = at.UTC().Truncate(time.Millisecond)
	}
	return r
}
