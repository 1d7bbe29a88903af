package paceline_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/dialect"
)

// noon is a minute and an hour beginning.
var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// row is an attempt sent s seconds after noon that was answered at once.
func row(s float64, status int, change ...func(*paceline.Record)) paceline.Record {
	at := noon.Add(time.Duration(s * float64(sec)))
	r := paceline.Record{Provider: "p", Model: "m", Arrived: at, Sent: at, Done: at, Status: status, Class: dialect.OK, Attempt: 1}
	switch {
	case status == 429:
		r.Class = dialect.RateLimited
	case status >= 500:
		r.Class = dialect.Unavailable
	case status >= 400:
		r.Class = dialect.Rejected
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func evidence(under bool) func(*paceline.Record) {
	return func(r *paceline.Record) { r.Evidence = &paceline.Evidence{UnderLimit: under} }
}

func report(q paceline.StatsQuery, rows ...paceline.Record) *paceline.Stats {
	return q.Report(slices.Values(rows))
}

// P-136, P-137, P-138, P-139, P-140, P-141, P-142, P-143, P-144, P-145, P-146,
// P-149: each column counts what it says, and nothing twice.
func TestStatsColumns(t *testing.T) {
	got := report(paceline.StatsQuery{},
		row(0, 200, func(r *paceline.Record) { r.InTokens, r.OutTokens, r.Tier, r.Saved = 10, 3, "small", 4 }),
		row(1, 200, func(r *paceline.Record) { r.Retry, r.Attempt, r.Queued, r.Tier = true, 2, 3*sec, "large" }),
		row(2, 429, evidence(true)),
		row(3, 429, evidence(false)),
		row(4, 500),
		row(5, 504, func(r *paceline.Record) { r.Timeout = true }),
		row(6, 499, func(r *paceline.Record) { r.Aborted = true }),
		row(7, 200, func(r *paceline.Record) { r.Error = "the answer was cut" }),
		row(8, 429, func(r *paceline.Record) { r.NotSent, r.Sent = true, time.Time{} }),
		row(9, 200, func(r *paceline.Record) { r.Cache, r.NotSent, r.Tier = true, true, "small" }),
		row(10, 200, func(r *paceline.Record) { r.Cache = true }),
		row(11, 403, func(r *paceline.Record) { r.Class = dialect.RateLimited; evidence(true)(r) }),
	).Total
	want := paceline.StatsRow{
		Key: "total", Sent: 9, OK: 2, R429: 3, R429UnderLimit: 2, Err: 3, Retry: 1, Timeout: 1, Cache: 2, Saved: 4,
		InTokens: 10, OutTokens: 3, QueueAvg: 0.333, PeakPerMin: 9, AvgPerMin: 9, Tiers: []string{"large", "small"},
	}
	if g, w := asJSON(t, got), asJSON(t, want); g != w {
		t.Errorf("total\n got %s\nwant %s", g, w)
	}
	if got.Sent != got.OK+got.R429+got.Err+got.Timeout {
		t.Errorf("the columns do not add up: %+v", got)
	}
}

// P-132, P-134, P-150: one provider or all, a row per provider/model.
func TestStatsByProviderAndModel(t *testing.T) {
	rows := []paceline.Record{
		row(0, 200), row(1, 200, func(r *paceline.Record) { r.Model = "a/b" }),
		row(2, 200, func(r *paceline.Record) { r.Provider = "q" }), row(3, 200),
	}
	for _, c := range []struct {
		filter, provider, models string
		sent                     int
	}{
		{"", "", "p/a/b:1 p/m:2 q/m:1", 4},
		{"p", "p", "p/a/b:1 p/m:2", 3},
		{"q", "q", "q/m:1", 1},
		{"none", "none", "", 0},
	} {
		s := report(paceline.StatsQuery{Provider: c.filter}, rows...)
		if s.Provider != c.provider || keys(s.Models) != c.models || s.Total.Sent != c.sent {
			t.Errorf("filter %q: provider %q, %s, total %d", c.filter, s.Provider, keys(s.Models), s.Total.Sent)
		}
	}
}

// P-133, P-135, P-155: the period, and its rows by hour or day.
func TestStatsByTime(t *testing.T) {
	hours := func(h float64) paceline.Record { return row(h*3600, 200) }
	rows := []paceline.Record{hours(-60), hours(-1), hours(0), hours(0.99), hours(1), hours(13)}
	berlin := time.FixedZone("", 3600)
	for _, c := range []struct {
		name  string
		query paceline.StatsQuery
		want  string
	}{
		{"hours", paceline.StatsQuery{Since: noon, Until: noon.Add(24 * time.Hour)},
			"2026-11-29T12:00Z:2 2026-11-29T13:00Z:1 2026-11-30T01:00Z:1"},
		{"until is without its end", paceline.StatsQuery{Since: noon.Add(-time.Hour), Until: noon},
			"2026-11-29T11:00Z:1"},
		{"beyond two days", paceline.StatsQuery{Since: noon.Add(-61 * time.Hour), Until: noon.Add(24 * time.Hour)},
			"2026-11-27:1 2026-11-29:4 2026-11-30:1"},
		{"two days", paceline.StatsQuery{Since: noon.Add(-24 * time.Hour), Until: noon.Add(24 * time.Hour)},
			"2026-11-29T11:00Z:1 2026-11-29T12:00Z:2 2026-11-29T13:00Z:1 2026-11-30T01:00Z:1"},
		{"days as asked", paceline.StatsQuery{Since: noon, Until: noon.Add(24 * time.Hour), By: paceline.ByDay},
			"2026-11-29:3 2026-11-30:1"},
		{"another zone", paceline.StatsQuery{Since: noon, Until: noon.Add(time.Hour), Zone: berlin},
			"2026-11-29T13:00+01:00:2"},
		{"everything", paceline.StatsQuery{}, "2026-11-27:1 2026-11-29:4 2026-11-30:1"},
	} {
		if got := keys(report(c.query, rows...).Hours); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// P-120, P-122: an attempt belongs to the minute it was sent; without a send
// time to that of its end.
func TestStatsGoBySendTime(t *testing.T) {
	long := row(0, 200, func(r *paceline.Record) { r.Sent, r.Done = noon.Add(-sec), noon.Add(239*sec) })
	old := row(0, 200, func(r *paceline.Record) { r.Arrived, r.Sent, r.Done = noon.Add(-sec), time.Time{}, noon.Add(sec) })
	s := report(paceline.StatsQuery{By: paceline.ByHour}, long, old)
	if got, want := keys(s.Hours), "2026-11-29T11:00Z:1 2026-11-29T12:00Z:1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if s.Total.Sent != 2 || s.Total.PeakPerMin != 2 {
		t.Errorf("%+v", s.Total)
	}
}

// P-147, P-152: the peak is of any 60 s and shown as it is, above the limit
// too.
func TestStatsPeak(t *testing.T) {
	var rows []paceline.Record
	for i := range 19 {
		rows = append(rows, row(30+float64(i)*3, 200)) // to 84 s, over two minutes of the clock
	}
	rows = append(rows, row(90, 200), row(89.999, 200), row(200, 200))
	rand.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	s := report(paceline.StatsQuery{Limits: map[string]paceline.Limits{"p": {MaxPerMinute: 15}}}, rows...)
	// 30 s and 90 s are a whole minute apart.
	if s.Total.PeakPerMin != 20 {
		t.Errorf("peak %d, want 20", s.Total.PeakPerMin)
	}
}

// P-148: minutes without an attempt do not count.
func TestStatsAverage(t *testing.T) {
	rows := []paceline.Record{row(50, 200), row(70, 200), row(80, 200), row(3000, 200)}
	for _, c := range []struct {
		minutes time.Time
		want    float64
	}{
		{time.Time{}, 1.33},
		{noon.Add(50 * sec), 2}, // 50 to 110 s are one minute
	} {
		if got := report(paceline.StatsQuery{Minutes: c.minutes}, rows...).Total.AvgPerMin; got != c.want {
			t.Errorf("minutes from %v: %v, want %v", c.minutes, got, c.want)
		}
	}
}

// P-154: --since takes m, h, d and w.
func TestParseStatsPeriod(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 24 * time.Hour, "30m": 30 * time.Minute, "24h": 24 * time.Hour, "7d": 168 * time.Hour, "2w": 336 * time.Hour, " 1h ": time.Hour,
	} {
		if got, err := paceline.ParseStatsPeriod(text); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"h", "24", "0h", "-1h", "1.5h", "5s", "1y", "1e3h", "+1h", "1h30m", "99999999999999999999w", "20000w", "１h"} {
		got, err := paceline.ParseStatsPeriod(text)
		if err == nil || !strings.Contains(err.Error(), "m, h, d or w") {
			t.Errorf("%q is %v, %v; want an error that says what is allowed", text, got, err)
		}
	}
}

func TestStatsBySet(t *testing.T) {
	var by paceline.StatsBy
	if err := by.Set("day"); err != nil || by != paceline.ByDay {
		t.Error(by, err)
	}
	if err := by.Set("week"); err == nil || !strings.Contains(err.Error(), "hour or day") {
		t.Error(err)
	}
}

// P-157, P-117, P-121: a refusal without evidence is judged by the send times
// before it and the configured limits, starts before the period included.
func TestStatsJudgeRefusalsWithoutEvidence(t *testing.T) {
	minute := map[string]paceline.Limits{"p": {MaxPerMinute: 3}}
	places := map[string]paceline.Limits{"p": {MaxConcurrent: 2}}
	tokens := map[string]paceline.Limits{"p": {MaxTokensPerMinute: 1000}}
	cost := func(in, out int) func(*paceline.Record) {
		return func(r *paceline.Record) { r.InTokens, r.OutTokens = in, out }
	}
	done := func(s float64) func(*paceline.Record) {
		return func(r *paceline.Record) { r.Done = noon.Add(time.Duration(s * float64(sec))) }
	}
	for _, c := range []struct {
		name   string
		limits map[string]paceline.Limits
		rows   []paceline.Record
		under  int
	}{
		{"the third of three", minute, []paceline.Record{row(0, 200), row(1, 200), row(2, 429)}, 1},
		{"the fourth of three", minute, []paceline.Record{row(0, 200), row(1, 200), row(2, 200), row(3, 429)}, 0},
		{"one has left the window", minute, []paceline.Record{row(-57, 200), row(1, 200), row(2, 200), row(3, 429)}, 1},
		{"starts before the period count", minute, []paceline.Record{row(-3, 200), row(-2, 200), row(-1, 200), row(3, 429)}, 0},
		{"one was sent before the refusal came", minute, []paceline.Record{row(0, 200), row(1, 200), row(2, 429, done(4)), row(3, 200)}, 0},
		{"by send time, not by end", minute, []paceline.Record{row(-58, 200, done(1)), row(0, 200), row(1, 200), row(3, 429)}, 1},
		{"another provider's do not count", minute, []paceline.Record{row(0, 200), row(1, 200), row(2, 200, func(r *paceline.Record) { r.Provider = "q" }), row(3, 429)}, 1},
		{"another account's do not count", minute, []paceline.Record{row(0, 200), row(1, 200), row(2, 200, func(r *paceline.Record) { r.Account = "q" }), row(3, 429)}, 1},
		{"cache hits and what was not sent do not count", minute, []paceline.Record{
			row(0, 200), row(1, 200), row(2, 200, func(r *paceline.Record) { r.Cache = true }),
			row(2, 200, func(r *paceline.Record) { r.NotSent = true }), row(3, 429)}, 1},
		{"no configured limit is exceeded", nil, []paceline.Record{row(0, 200), row(1, 429)}, 1},
		{"a second in which two were sent", map[string]paceline.Limits{"p": {MaxPerSecond: 1, MaxPerMinute: 9}},
			[]paceline.Record{row(0, 200), row(0.9, 429, done(0.95))}, 0},
		{"a late refusal finds its second still", map[string]paceline.Limits{"p": {MaxPerSecond: 1}},
			[]paceline.Record{row(0, 200), row(0.9, 429, done(5))}, 1},
		{"more at once than places", places, []paceline.Record{row(0, 200, done(9)), row(1, 200, done(9)), row(2, 429, done(3))}, 0},
		{"as many as places", places, []paceline.Record{row(0, 200, done(1)), row(1, 200, done(9)), row(2, 429, done(3))}, 1},
		{"more tokens than a minute has", tokens, []paceline.Record{row(0, 200, cost(600, 100)), row(1, 200, cost(300, 100)), row(2, 429)}, 0},
		{"fewer tokens", tokens, []paceline.Record{row(0, 200, cost(600, 100)), row(1, 200, cost(200, 50)), row(2, 429)}, 1},
		{"tokens that have left the window", tokens, []paceline.Record{row(-59, 200, cost(600, 100)), row(1, 200, cost(300, 100)), row(2, 429)}, 1},
		{"evidence is believed", minute, []paceline.Record{row(0, 200), row(1, 200), row(2, 200), row(3, 429, evidence(true))}, 1},
	} {
		s := report(paceline.StatsQuery{Since: noon, Limits: c.limits}, c.rows...)
		if s.Total.R429 != 1 || s.Total.R429UnderLimit != c.under {
			t.Errorf("%s: %d of %d under limit, want %d of 1", c.name, s.Total.R429UnderLimit, s.Total.R429, c.under)
		}
		for _, r := range slices.Concat(s.Models[:1], s.Hours) {
			if r.R429 == 1 && r.R429UnderLimit != c.under {
				t.Errorf("%s: row %s says otherwise", c.name, r.Key)
			}
		}
	}
}

// P-151: the report as data.
func TestStatsJSON(t *testing.T) {
	q := paceline.StatsQuery{Provider: "p", Since: noon, Until: noon.Add(time.Hour), Limits: map[string]paceline.Limits{
		"p": {MaxPerMinute: 15, MaxConcurrent: 4, Pacing: paceline.Even, Windows: []paceline.Window{{Calls: 9, Per: 5 * time.Minute}}},
		"q": {MaxPerDay: 1},
	}}
	zero := `"sent":0,"ok":0,"r429":0,"r429_under_limit":0,"err":0,"retry":0,"timeout":0,"cache":0,"saved":0,` +
		`"in_tokens":0,"out_tokens":0,"queue_avg_s":0,"peak_per_min":0,"avg_per_min":0,"tiers":[]`
	want := `{"provider":"p","since":"2026-11-29T12:00:00.000Z","until":"2026-11-29T13:00:00.000Z",` +
		`"limits":{"per_minute":15,"concurrent":4,"windows":[{"calls":9,"per_ms":300000}],"pacing":"even"},` +
		`"total":{"key":"total",` + zero + `},"models":[],"hours":[]}`
	if got := asJSON(t, report(q)); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if got := asJSON(t, report(paceline.StatsQuery{})); got != `{"total":{"key":"total",`+zero+`},"models":[],"hours":[]}` {
		t.Errorf("without anything known: %s", got)
	}
	s := report(q, row(0, 200), row(1, 200, func(r *paceline.Record) { r.Tier = "small" }))
	if m := s.Models[0]; m.Key != "p/m" || asJSON(t, m.Tiers) != `["small"]` || s.Hours[0].Key != "2026-11-29T12:00Z" {
		t.Errorf("%s", asJSON(t, s))
	}
}

// P-136 to P-150, P-158: the table, and its footer of limits and refusals.
func TestStatsTable(t *testing.T) {
	s := report(paceline.StatsQuery{
		Since: noon, Until: noon.Add(time.Hour),
		Limits: map[string]paceline.Limits{"p": {MaxPerMinute: 15, MaxConcurrent: 4, Pacing: paceline.Burst, Windows: []paceline.Window{{Calls: 9, Per: time.Hour}}}},
	},
		row(0, 200, func(r *paceline.Record) { r.Tier, r.InTokens, r.Queued = "small", 12345, 1500*time.Millisecond }),
		row(1, 429, evidence(true)), row(2, 429, evidence(false)), row(3, 200, func(r *paceline.Record) { r.Model = "ünï" }),
	)
	var b strings.Builder
	if err := s.WriteTable(&b, 0); err != nil {
		t.Fatal(err)
	}
	want := `
provider/model     sent  ok  429  429<lim  err  retry  tmout  cache  saved  in tok  out tok  q avg s  peak/min  avg/min  tiers
p/m                   3   1    2        1    0      0      0      0      0   12345        0      0.5         3      3.0  small
p/ünï                 1   1    0        0    0      0      0      0      0       0        0      0.0         1      1.0  -

2026-11-29T12:00Z     4   2    2        1    0      0      0      0      0   12345        0      0.4         4      4.0  small

total                 4   2    2        1    0      0      0      0      0   12345        0      0.4         4      4.0  small

configured limits of p: 15/minute, 4 at once, 9/1h, burst pacing
429s while under every configured limit: 1 of 2
`
	if got := "\n" + b.String(); got != want {
		t.Errorf("got%s\nwant%s", got, want)
	}
}

// Where there is less room, what says nothing goes first.
func TestStatsTableFits(t *testing.T) {
	s := report(paceline.StatsQuery{Since: noon, Until: noon.Add(time.Hour)}, row(0, 200), row(1, 429, evidence(true)))
	var b strings.Builder
	if err := s.WriteTable(&b, 80); err != nil {
		t.Fatal(err)
	}
	want := `
provider/model     sent  ok  429  429<lim  err  retry  q avg s  peak/min  avg/min
p/m                   2   1    1        1    0      0      0.0         2      2.0

2026-11-29T12:00Z     2   1    1        1    0      0      0.0         2      2.0

total                 2   1    1        1    0      0      0.0         2      2.0

configured limits: none
429s while under every configured limit: 1 of 1
`
	if got := "\n" + b.String(); got != want {
		t.Errorf("got%s\nwant%s", got, want)
	}
}

// What says something is left out only where the rest does not fit, and named.
func TestStatsTableNamesWhatIsMissing(t *testing.T) {
	tokens := row(0, 200)
	tokens.InTokens, tokens.OutTokens = 12, 34
	s := report(paceline.StatsQuery{Since: noon, Until: noon.Add(time.Hour)}, tokens)
	for width, missing := range map[int]string{
		100: "", 92: "too wide to be shown here: out tok", 82: "too wide to be shown here: in tok, out tok",
	} {
		var b strings.Builder
		if err := s.WriteTable(&b, width); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")
		last := lines[len(lines)-1]
		if len(lines[0]) > width || strings.HasPrefix(last, "too wide") != (missing != "") || missing != "" && last != missing {
			t.Errorf("width %d: the last line is %q, want %q:\n%s", width, last, missing, b.String())
		}
	}
}

func keys(rows []paceline.StatsRow) string {
	var words []string
	for _, r := range rows {
		words = append(words, r.Key+":"+strconv.Itoa(r.Sent))
	}
	return strings.Join(words, " ")
}

func asJSON(t testing.TB, v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A report over a day of a busy key is quick: figure 12 has a million rows in
// a week.
func BenchmarkStats(b *testing.B) {
	rows := make([]paceline.Record, 150_000)
	for i := range rows {
		rows[i] = row(float64(i)/2, 200)
	}
	q := paceline.StatsQuery{Limits: map[string]paceline.Limits{"p": {MaxPerMinute: 150}}}
	for b.Loop() {
		q.Report(slices.Values(rows))
	}
}
