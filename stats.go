package paceline

import (
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"strings"
	"time"
)

// A StatsQuery says which records a report is about and how it divides them.
type StatsQuery struct {
	// Provider is the entry to report. Empty: all of them.
	Provider string
	// The period, from Since up to but without Until; zero is without an end.
	// A request belongs to the instant it was sent.
	Since, Until time.Time
	// By is what a row of Stats.Hours covers. Empty: as long as DefaultStatsBy
	// says.
	By StatsBy
	// Zone is whose hours and days these are. nil is UTC.
	Zone *time.Location
	// Minutes is an instant at which a minute begins, for StatsRow.AvgPerMin.
	// Zero: minutes are the clock's.
	Minutes time.Time
	// Limits are the configured limits by provider. They are named in the
	// report, and judge the refusals that carry no evidence.
	Limits map[string]Limits
}

// Stats is a report over records.
type Stats struct {
	Provider     string    // where it is about one
	Since, Until time.Time // zero where there was no such end
	// Limits are the configured limits of the reported providers.
	Limits map[string]Limits
	Total  StatsRow
	Models []StatsRow // by provider/model
	Hours  []StatsRow // or days, in order
}

// A StatsRow counts the attempts of one group. Sent is the sum of OK, R429,
// Err and Timeout. Requests that were refused before sending are in none of
// them.
type StatsRow struct {
	// Key is "total", a provider/model, an hour (2026-11-29T12:00Z) or a day.
	Key string `json:"key"`
	// Sent counts attempts sent upstream, repeats included.
	Sent int `json:"sent"`
	OK   int `json:"ok"`
	// R429 counts attempts refused for a rate, R429UnderLimit those of them
	// that came while our sending was within every configured rate.
	R429           int `json:"r429"`
	R429UnderLimit int `json:"r429_under_limit"`
	// Err counts what else went wrong, clients that left included.
	Err int `json:"err"`
	// Retry counts attempts after the first of their request.
	Retry int `json:"retry"`
	// Timeout counts attempts cut by a duration cap.
	Timeout int `json:"timeout"`
	Cache   int `json:"cache"`
	// Saved counts requests that batching made unnecessary.
	Saved     int `json:"saved"`
	InTokens  int `json:"in_tokens"`
	OutTokens int `json:"out_tokens"`
	// QueueAvg is how long a sent attempt stood in our line, in seconds.
	QueueAvg float64 `json:"queue_avg_s"`
	// PeakPerMin is the most attempts sent within any 60 s, whatever the limit.
	PeakPerMin int `json:"peak_per_min"`
	// AvgPerMin is attempts per active minute: per minute in which any was
	// sent.
	AvgPerMin float64 `json:"avg_per_min"`
	// Tiers that were served, in alphabetical order.
	Tiers []string `json:"tiers"`
}

// Report counts the records of the query. They may come in any order.
//
// A refusal without evidence is judged by the starts among the records, so
// where such records exist, give those of the longest configured window before
// Since too.
func (q StatsQuery) Report(records iter.Seq[Record]) *Stats {
	c := newCounting(q)
	for r := range records {
		c.add(&r)
	}
	return c.report()
}

// A StatsBy is what one row of a report's hours covers.
type StatsBy string

// The spans of a row.
const (
	ByHour StatsBy = "hour"
	ByDay  StatsBy = "day"
)

// DefaultStatsBy is by hour, and beyond two days by day.
func DefaultStatsBy(period time.Duration) StatsBy {
	if period > 48*time.Hour {
		return ByDay
	}
	return ByHour
}

// Set reads a span from text, as a command's flag does.
func (b *StatsBy) Set(text string) error {
	switch by := StatsBy(text); by {
	case ByHour, ByDay:
		*b = by
		return nil
	}
	return fmt.Errorf("%q is not a span of rows: use hour or day", text)
}

func (b StatsBy) String() string { return string(b) }

// Type names the value in a command's help.
func (b StatsBy) Type() string { return "hour|day" }

// Key names the hour or day of an instant, as StatsRow.Key does.
func (b StatsBy) Key(at time.Time) string {
	if b == ByDay {
		return at.Format(time.DateOnly)
	}
	return at.Format("2006-01-02T15:00Z07:00")
}

// statsPeriod is a StatsPeriod where nobody says otherwise.
const statsPeriod = "24h"

// ParseStatsPeriod reads how far back a report goes: a whole number of
// minutes, hours, days or weeks such as 30m, 24h, 7d or 2w. Empty is 24h.
func ParseStatsPeriod(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		text = statsPeriod
	}
	wrong := fmt.Errorf("%q is not a period: use a whole number of m, h, d or w, such as 30m, 24h, 7d or 2w", text)
	unit := map[byte]time.Duration{'m': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}[text[len(text)-1]]
	if unit == 0 {
		return 0, wrong
	}
	n, digits := int64(0), text[:len(text)-1]
	for _, d := range []byte(digits) {
		if d < '0' || d > '9' || n > math.MaxInt64/10-1 {
			return 0, wrong
		}
		n = n*10 + int64(d-'0')
	}
	if n == 0 || n > int64(math.MaxInt64/unit) {
		return 0, wrong
	}
	return time.Duration(n) * unit, nil
}

// statsJSON is a report as scripts see it. Limits are those of the one
// provider it is about; where it is about several, nobody's.
type statsJSON struct {
	Provider string      `json:"provider,omitempty"`
	Since    *instant    `json:"since,omitempty"`
	Until    *instant    `json:"until,omitempty"`
	Limits   *limitsJSON `json:"limits,omitempty"`
	Total    StatsRow    `json:"total"`
	Models   []StatsRow  `json:"models"`
	Hours    []StatsRow  `json:"hours"`
}

type limitsJSON struct {
	PerSecond  int          `json:"per_second,omitempty"`
	PerMinute  int          `json:"per_minute,omitempty"`
	PerHour    int          `json:"per_hour,omitempty"`
	PerDay     int          `json:"per_day,omitempty"`
	Concurrent int          `json:"concurrent,omitempty"`
	Windows    []windowJSON `json:"windows,omitempty"`
	Pacing     string       `json:"pacing,omitempty"`
}

type windowJSON struct {
	Calls int   `json:"calls"`
	PerMs int64 `json:"per_ms"`
}

// MarshalJSON writes the report in snake_case; unknown is absent.
func (s Stats) MarshalJSON() ([]byte, error) {
	j := statsJSON{
		Provider: s.Provider, Since: instantOf(s.Since), Until: instantOf(s.Until),
		Total: s.Total, Models: notNil(s.Models), Hours: notNil(s.Hours),
	}
	if l, ok := s.Limits[s.Provider]; ok && s.Provider != "" {
		j.Limits = &limitsJSON{
			PerSecond: l.MaxPerSecond, PerMinute: l.MaxPerMinute, PerHour: l.MaxPerHour, PerDay: l.MaxPerDay,
			Concurrent: l.MaxConcurrent, Pacing: string(l.Pacing),
		}
		for _, w := range l.Windows {
			j.Limits.Windows = append(j.Limits.Windows, windowJSON{w.Calls, w.Per.Milliseconds()})
		}
	}
	return json.Marshal(j)
}

// MarshalJSON writes an empty list of tiers as one.
func (r StatsRow) MarshalJSON() ([]byte, error) {
	type plain StatsRow
	r.Tiers = notNil(r.Tiers)
	return json.Marshal(plain(r))
}

// notNil makes JSON say [] and not null.
func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
