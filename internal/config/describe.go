package config

import (
	"fmt"
	"strings"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/policy"
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
	rate(l.MaxTokensPerMinute, " tokens/min")
	rate(l.MaxTokensPerDay, " tokens/day")
	rate(l.MaxInputTokensPerMinute, " input tokens/min")
	rate(l.MaxOutputTokensPerMinute, " output tokens/min")
	for _, w := range l.Windows {
		parts = append(parts, fmt.Sprintf("%d%s in %v", w.Calls, unit(w.Unit), w.Per))
	}
	rate(l.MaxConcurrent, " at once")
	says := strings.Join(parts, ", ")
	if l.DeclaresRequests() {
		if l.Pacing == paceline.Burst {
			says += "; burst"
		} else {
			says += "; even"
		}
	}
	if l.DeclaresRate() {
		if l.SafetyMargin > 0 {
			says += fmt.Sprintf("; %v %% left free", l.SafetyMargin*100)
		}
	}
	return says
}

// unit is what a window counts, as it stands behind a number; empty for
// requests.
func unit(u string) string {
	switch u {
	case "", policy.Requests:
		return ""
	case policy.Tokens:
		return " tokens"
	}
	return " " + u + " tokens"
}
