package config

import (
	"fmt"
	"strings"

	"github.com/paceline-proxy/paceline"
)

// Describe says in a line what limits allow: "15/min, 4 at once; even". It is
// empty where nothing is declared.
func Describe(l paceline.Limits) string {
	var parts []string
	rate := func(n int, per string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d%s", n, per))
		}
	}
	rate(l.MaxPerSecond, "/s")
	rate(l.MaxPerMinute, "/min")
	rate(l.MaxPerHour, "/h")
	rate(l.MaxPerDay, "/day")
	for _, w := range l.Windows {
		parts = append(parts, fmt.Sprintf("%d in %v", w.Calls, w.Per))
	}
	rate(l.MaxConcurrent, " at once")
	says := strings.Join(parts, ", ")
	if l.DeclaresRate() {
		if l.Pacing == paceline.Burst {
			says += "; burst"
		} else {
			says += "; even"
		}
		if l.SafetyMargin > 0 {
			says += fmt.Sprintf("; %v %% left free", l.SafetyMargin*100)
		}
	}
	return says
}
