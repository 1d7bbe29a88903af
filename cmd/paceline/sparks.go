package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/paceline-proxy/paceline"
)

// sparks draws what was sent and what was refused in each hour or day of a
// report, a bar for each. It is empty where that is wider than width, and
// where there is nothing to compare.
func sparks(s *paceline.Stats, q paceline.StatsQuery, width int) string {
	by := q.By
	if by == "" {
		by = paceline.DefaultStatsBy(q.Until.Sub(q.Since))
	}
	rows := make(map[string]paceline.StatsRow)
	most := 1
	for _, r := range s.Hours {
		rows[r.Key] = r
		most = max(most, r.Sent)
	}
	var sent, refused strings.Builder
	n, last := 0, ""
	// Steps of half an hour miss none, whatever a zone does to its clocks.
	for at := q.Since; at.Before(q.Until) && n <= width; at = at.Add(30 * time.Minute) {
		if key := by.Key(at.In(q.Zone)); key != last {
			n, last = n+1, key
			sent.WriteRune(bar(rows[key].Sent, most))
			refused.WriteRune(bar(rows[key].R429, most))
		}
	}
	label := fmt.Sprintf("sent, by %s  ", by)
	if len(s.Hours) < 2 || len(label)+n > width {
		return ""
	}
	text := "\n" + label + sent.String() + "\n"
	if s.Total.R429 > 0 {
		text += fmt.Sprintf("%*s", len(label), "429  ") + refused.String() + "\n"
	}
	return text
}

// bar is as high as n is of most.
func bar(n, most int) rune {
	bars := []rune("·▁▂▃▄▅▆▇█")
	if n <= 0 {
		return bars[0]
	}
	return bars[1+(n-1)*(len(bars)-1)/most]
}
