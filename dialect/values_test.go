package dialect

import (
	"testing"
	"time"
)

var noon = time.Date(2026, 10, 4, 12, 0, 0, 0, time.UTC)

// One table for everything a wait or a reset may be written as: S-37 to S-43,
// P-79, P-91, L-90 and L-91 speak of these values.
func TestParseWhen(t *testing.T) {
	const unsaid = -1
	for _, c := range []struct {
		id, in string
		want   time.Duration
	}{
		{"S-37 plain seconds", "20", 20 * time.Second},
		{"S-38 duration of minutes", "6m0s", 360 * time.Second},
		{"S-39 milliseconds before minutes", "300ms", 300 * time.Millisecond},
		{"S-40 an epoch is a deadline", "1791115230", 30 * time.Second},
		{"S-41 hours and minutes", "1h30m", 5400 * time.Second},
		{"S-41 decimals", "1.5s", 1500 * time.Millisecond},
		{"S-41 a word", "soon", unsaid},
		{"S-41 empty", "", unsaid},
		{"S-43 a millisecond epoch", "1791115230000", 30 * time.Second},
		{"P-91 fractional seconds", "7.66", 7660 * time.Millisecond},
		{"L-90 seconds", "7", 7 * time.Second},
		{"L-91 IMF-fixdate", "Sun, 04 Oct 2026 12:00:30 GMT", 30 * time.Second},
		{"L-91 RFC 850", "Sunday, 04-Oct-26 12:00:30 GMT", 30 * time.Second},
		{"L-91 asctime", "Sun Oct  4 12:00:30 2026", 30 * time.Second},
		{"P-79 a date a day off", "Mon, 05 Oct 2026 12:00:00 GMT", 24 * time.Hour},
		{"zero is now", "0", 0},
		{"zero as a duration", "0s", 0},
		{"base ten", "030", 30 * time.Second},
		{"nine digits are a delay", "999999999", 999999999 * time.Second},
		{"nine digits and zeros in front", "00000000007", 7 * time.Second},
		{"eleven digits are nothing", "17911152300", unsaid},
		{"fourteen digits are nothing", "17911152300000", unsaid},
		{"an epoch with a fraction", "1791115230.5", 30500 * time.Millisecond},
		{"a past epoch", "1791115100", unsaid},
		{"days", "1d2h", 26 * time.Hour},
		{"nanosecond digits", "0.539477544s", 539477544 * time.Nanosecond},
		{"beyond nanoseconds rounds up", "0.0000000001s", 1},
		{"microseconds", "12µs", 12 * time.Microsecond},
		{"one-digit day", "Sun, 4 Oct 2026 12:00:30 GMT", 30 * time.Second},
		{"numeric zone", "Sun, 04 Oct 2026 14:00:30 +0200", 30 * time.Second},
		{"UTC", "Sun, 04 Oct 2026 12:00:30 UTC", 30 * time.Second},
		{"wrong weekday", "Mon, 04 Oct 2026 12:00:30 GMT", 30 * time.Second},
		{"unknown weekday", "Xyz, 04 Oct 2026 12:00:30 GMT", unsaid},
		{"no such day", "Sun, 31 Feb 2027 12:00:30 GMT", unsaid},
		{"a date now", "Sun, 04 Oct 2026 12:00:00 GMT", 0},
		{"a date past", "Sun, 04 Oct 2026 11:59:59 GMT", unsaid},
		{"year 100000", "Sun, 04 Oct 100000 12:00:30 GMT", unsaid},
		{"year 9999", "Fri, 31 Dec 9999 23:59:59 GMT", unsaid},
		{"RFC 3339", "2026-10-04T12:00:20Z", 20 * time.Second},
		{"RFC 3339 fraction", "2026-10-04T12:00:20.25Z", 20250 * time.Millisecond},
		{"RFC 3339 zone", "2026-10-04T21:00:20+09:00", 20 * time.Second},
		{"no zone is UTC", "2026-10-04T12:00:20", 20 * time.Second},
		{"negative", "-11", unsaid},
		{"negative duration", "-5s", unsaid},
		{"plus", "+30", unsaid},
		{"exponent", "1e3", unsaid},
		{"exponent duration", "1e3s", unsaid},
		{"hexadecimal", "0x1p4", unsaid},
		{"underscore", "1_000", unsaid},
		{"NaN", "NaN", unsaid},
		{"infinity", "inf", unsaid},
		{"ISO 8601", "PT30S", unsaid},
		{"capital unit", "6S", unsaid},
		{"space inside", "1m 30s", unsaid},
		{"a tail", "120; comment", unsaid},
		{"bare point", ".", unsaid},
		{"point at the end", "5.", unsaid},
		{"two points", "1.5.2", unsaid},
		{"wide digits", "３０", unsaid},
		{"2^63", "9223372036854775808", unsaid},
		{"overflow of a duration", "9223372037s", unsaid},
		{"overflow of a sum", "106751d106751d", unsaid},
		{"unit without number", "s", unsaid},
	} {
		got, ok := parseWhen(c.in, noon, time.Second)
		if !ok {
			got = unsaid
		}
		if got != c.want {
			t.Errorf("%s: %q is %v, want %v", c.id, c.in, got, c.want)
		}
	}
}

// S-42: a past epoch asks for no wait. It is not said rather than a told 0,
// which would make a busy loop.
func TestPastEpochIsNoWait(t *testing.T) {
	if d, ok := parseWhen("1791115199", noon, time.Second); d != 0 || ok {
		t.Errorf("got %v, %v", d, ok)
	}
}

func TestParseRetryAfterLists(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  time.Duration
		ok    bool
	}{
		{[]string{"5", "60"}, time.Minute, true},
		{[]string{"5, 60, 7"}, time.Minute, true},
		{[]string{"soon, 5"}, 5 * time.Second, true},
		{[]string{"Sun, 04 Oct 2026 12:00:30 GMT, 5"}, 30 * time.Second, true},
		{[]string{"5,Sun, 04 Oct 2026 12:00:30 GMT"}, 30 * time.Second, true},
		{[]string{"-5", "soon"}, 0, false},
		{[]string{"Sun, soon"}, 0, false},
		{nil, 0, false},
	} {
		if got, ok := parseRetryAfter(c.lines, noon, time.Second); got != c.want || ok != c.ok {
			t.Errorf("%q is %v, %v; want %v, %v", c.lines, got, ok, c.want, c.ok)
		}
	}
}

func TestProseWait(t *testing.T) {
	for _, c := range []struct {
		text string
		want time.Duration
		ok   bool
	}{
		{"Please try again in 1h53m56.832s.", 6836832 * time.Millisecond, true},
		{"Please try again in 6ms. Visit https://x", 6 * time.Millisecond, true},
		{"Please try again in 20s", 20 * time.Second, true},
		{"Please retry in 56.185908122s.", 56185908122, true},
		{"Please retry after 86400 seconds.", 24 * time.Hour, true},
		{"Retry after 1 second", time.Second, true},
		{"Please wait 0 seconds before retrying", 0, true},
		{"Resets in 16 days", 16 * 24 * time.Hour, true},
		{"You will regain access on 2026-11-01 at 00:00 UTC.", 27*24*time.Hour + 12*time.Hour, true},
		{"Please try again later.", 0, false},
		{"try again in -5s", 0, false},
		{"retry 3 times", 0, false},
		{"retry after 5", 0, false},
		{"reduce your message size and try again.", 0, false},
	} {
		if got, ok := proseWait(c.text, noon); got != c.want || ok != c.ok {
			t.Errorf("%q is %v, %v; want %v, %v", c.text, got, ok, c.want, c.ok)
		}
	}
}

func TestParseCount(t *testing.T) {
	for _, c := range []struct {
		in   string
		want count
	}{
		{"5000", count{5000, true, false}},
		{" 42 ", count{42, true, false}},
		{"30,000", count{30000, true, false}},
		{"1,234,567", count{1234567, true, false}},
		{"30, 000", count{}},
		{"30,00", count{}},
		{"1000,000", count{}},
		{"-4", count{-4, true, true}},
		{"0", count{0, true, false}},
		{"unlimited", count{}},
		{"1000/min", count{}},
		{"18446744073709551616", count{}},
		{"1e6", count{}},
		{"", count{}},
	} {
		if got := parseCount(c.in); got != c.want {
			t.Errorf("%q is %+v, want %+v", c.in, got, c.want)
		}
	}
}

func TestNameLimit(t *testing.T) {
	for _, c := range []struct {
		words        string
		unit, window string
		long         bool
	}{
		{"on requests per min (rpm)", Requests, Minute, false},
		{"on tokens per min (tpm): limit 3", Tokens, Minute, false},
		{"on tokens per day (tpd)", Tokens, Day, true},
		{"limit rpd/google/model", Requests, Day, true},
		{"on output tokens per minute (otpm)", OutputTokens, Minute, false},
		{"the rate limit of 50,000 input tokens per minute", InputTokens, Minute, false},
		{"requests per day per user", Requests, Day, true},
		{"too many tokens per day, please wait", Tokens, Day, true},
		{"your weekly usage limit", "", Unknown, true},
		{"monthly usage limit reached", "", Month, true},
		{"rate limit exceeded", "", "", false},
	} {
		n := nameLimit(c.words)
		if n.unit != c.unit || n.window != c.window || n.long != c.long {
			t.Errorf("%q is %+v", c.words, n)
		}
	}
}
