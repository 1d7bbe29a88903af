package paceline

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/paceline-proxy/paceline/dialect"
)

// A counting is a report in the making.
type counting struct {
	query     StatsQuery
	by        StatsBy
	total     group
	models    map[[2]string]*group // by provider and model
	hours     map[string]*group
	providers map[string]bool
	// The minute of the latest record, and the hour or day that it is in.
	minute int64
	hour   *group

	// What judges refusals without evidence, after everything has been seen:
	// what each caller was sent, and the refusals.
	starts map[callerKey]*starts
	unsure []unsureRefusal
}

// An unsureRefusal waits for all starts to be known.
type unsureRefusal struct {
	key        callerKey
	sent, came int64
	groups     [3]*group
}

// A group is a row in the making.
type group struct {
	row    StatsRow
	first  time.Time // of its records
	at     []int64   // of each attempt, in nanoseconds
	queued time.Duration
	tiers  map[string]bool
}

func newCounting(q StatsQuery) *counting {
	if q.Zone == nil {
		q.Zone = time.UTC
	}
	c := &counting{
		query: q, by: q.By, models: make(map[[2]string]*group), hours: make(map[string]*group),
		providers: make(map[string]bool), starts: make(map[callerKey]*starts),
	}
	switch {
	case q.By != "":
	case q.Since.IsZero():
		c.by = ByDay
	case q.Until.IsZero():
		c.by = DefaultStatsBy(time.Since(q.Since))
	default:
		c.by = DefaultStatsBy(q.Until.Sub(q.Since))
	}
	return c
}

// add counts one record.
func (c *counting) add(r *Record) {
	q := c.query
	if q.Provider != "" && r.Provider != q.Provider {
		return
	}
	at := r.at()
	sent := !r.NotSent && !r.Cache
	// Limits are the account's; where it is not known, the credential's.
	key := callerKey{r.Provider, orElse(r.Account, r.Credential), r.Scope}
	if limits := q.Limits[r.Provider]; sent && limits.Declared() {
		of := c.starts[key]
		if of == nil {
			of = &starts{tokens: limits.DeclaresTokens()}
			c.starts[key] = of
		}
		of.add(r, at)
	}
	if !q.Since.IsZero() && at.Before(q.Since) || !q.Until.IsZero() && !at.Before(q.Until) {
		return
	}
	c.providers[r.Provider] = true
	groups := [3]*group{
		&c.total,
		c.modelOf(r),
		c.hourOf(at),
	}
	for _, g := range groups {
		g.add(r, at, sent)
	}
	if sent && r.refused() && r.Evidence == nil {
		c.unsure = append(c.unsure, unsureRefusal{key, at.UnixNano(), r.ended(at).UnixNano(), groups})
	}
}

func (c *counting) modelOf(r *Record) *group {
	key := [2]string{r.Provider, r.Model}
	g := c.models[key]
	if g == nil {
		g = &group{row: StatsRow{Key: r.Provider + "/" + r.Model}}
		c.models[key] = g
	}
	return g
}

// hourOf is the group of the hour or day of an instant. Records mostly come in
// order, and zones are whole minutes apart.
func (c *counting) hourOf(at time.Time) *group {
	minute := at.Unix() / 60
	if c.hour != nil && minute == c.minute {
		return c.hour
	}
	key := c.by.Key(at.In(c.query.Zone))
	g := c.hours[key]
	if g == nil {
		g = &group{row: StatsRow{Key: key}}
		c.hours[key] = g
	}
	c.minute, c.hour = minute, g
	return g
}

// at is the instant a record belongs to: when it was sent, in older logs when
// it ended, and where nothing was sent when that was known.
func (r *Record) at() time.Time {
	switch {
	case !r.Sent.IsZero():
		return r.Sent
	case !r.Done.IsZero():
		return r.Done
	}
	return r.Arrived
}

// refused reports whether the provider refused the attempt for a rate. One
// that hid its refusal behind another status refused it all the same.
func (r *Record) refused() bool {
	return r.Status == http.StatusTooManyRequests || r.Class == dialect.RateLimited
}

func (g *group) add(r *Record, at time.Time, sent bool) {
	if g.first.IsZero() || at.Before(g.first) {
		g.first = at
	}
	row := &g.row
	row.Saved += r.Saved
	if r.Cache {
		row.Cache++
	}
	if r.Tier != "" && (sent || r.Cache) {
		if g.tiers == nil {
			g.tiers = make(map[string]bool)
		}
		g.tiers[r.Tier] = true
	}
	if !sent {
		return
	}
	row.Sent++
	row.InTokens += r.InTokens
	row.OutTokens += r.OutTokens
	g.queued += r.Queued
	g.at = append(g.at, at.UnixNano())
	if r.Retry {
		row.Retry++
	}
	switch {
	case r.Timeout:
		row.Timeout++
	case r.refused():
		row.R429++
		if r.Evidence != nil && r.Evidence.UnderLimit {
			row.R429UnderLimit++
		}
	case r.OK():
		row.OK++
	default:
		row.Err++
	}
}

// report finishes the counting.
func (c *counting) report() *Stats {
	c.judge()
	s := &Stats{Provider: c.query.Provider, Since: c.query.Since, Until: c.query.Until, Limits: make(map[string]Limits)}
	if s.Provider != "" {
		c.providers[s.Provider] = true
	}
	for p := range c.providers {
		if l, ok := c.query.Limits[p]; ok {
			s.Limits[p] = l
		}
		if len(c.providers) == 1 {
			s.Provider = p
		}
	}
	c.total.row.Key = "total"
	s.Total = c.total.finish(c.query.Minutes)
	s.Models = c.rows(maps.Values(c.models), func(a, b *group) int { return cmp.Compare(a.row.Key, b.row.Key) })
	// Where clocks are set back, an hour's name does not tell its order.
	s.Hours = c.rows(maps.Values(c.hours), func(a, b *group) int { return a.first.Compare(b.first) })
	return s
}

// judge says of the refusals without evidence whether what we sent was within
// every configured limit when they came.
func (c *counting) judge() {
	for _, of := range c.starts {
		of.sort()
	}
	for _, u := range c.unsure {
		limits, of := c.query.Limits[u.key.provider], c.starts[u.key]
		if of != nil && of.exceed(limits, u.sent, u.came) {
			continue
		}
		for _, g := range u.groups {
			g.row.R429UnderLimit++
		}
	}
}

func (c *counting) rows(groups iter.Seq[*group], order func(a, b *group) int) []StatsRow {
	var rows []StatsRow
	for _, g := range slices.SortedFunc(groups, order) {
		rows = append(rows, g.finish(c.query.Minutes))
	}
	return rows
}

// finish works out what needs all attempts of the group.
func (g *group) finish(minutes time.Time) StatsRow {
	row := g.row
	row.Tiers = slices.Sorted(maps.Keys(g.tiers))
	if row.Sent == 0 {
		return row
	}
	slices.Sort(g.at)
	row.PeakPerMin = peak(g.at, time.Minute)
	row.QueueAvg = rounded(g.queued.Seconds()/float64(row.Sent), 1000)
	row.AvgPerMin = rounded(float64(row.Sent)/float64(active(g.at, minutes)), 100)
	return row
}

// peak is the most of the sorted instants within any span of per.
func peak(at []int64, per time.Duration) int {
	most, first := 0, 0
	for last, t := range at {
		for at[first] <= t-int64(per) {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}

// active counts the minutes that hold any of the sorted instants. One of them
// begins at origin.
func active(at []int64, origin time.Time) int {
	offset := int64(0)
	if !origin.IsZero() {
		offset = origin.UnixNano() % int64(time.Minute)
	}
	n, last := 0, int64(math.MinInt64)
	for _, t := range at {
		if minute := (t - offset) / int64(time.Minute); minute != last {
			n, last = n+1, minute
		}
	}
	return n
}

func rounded(v, steps float64) float64 { return math.Round(v*steps) / steps }
