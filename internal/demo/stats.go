package demo

import (
	"slices"

	"github.com/paceline-proxy/paceline"
)

// StatsOf are the statistics of one side.
func StatsOf(side Pacing, r Result) *paceline.Stats {
	records := r.Even
	if side == Burst {
		records = r.Burst
	}
	q := paceline.StatsQuery{
		Provider: string(side), Since: r.Start, By: paceline.ByHour, Minutes: r.Start,
		Limits: map[string]paceline.Limits{string(side): Limits(side)},
	}
	return q.Report(slices.Values(records))
}
