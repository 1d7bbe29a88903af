package dialect

import (
	"strconv"
	"strings"
	"time"
)

// The windows of Anthropic's plans: a status, a fraction spent and a reset for
// each, and a verdict over all of them.
const unifiedPrefix = "anthropic-ratelimit-unified-"

// claimNames turns a representative claim into the window's name in headers.
var claimNames = strings.NewReplacer("five_hour", "5h", "seven_day", "7d", "overage_included", "oi")

// unifiedRejected is true where the plan refuses as a whole or by one window.
// A rejected overage only means that paid overflow is off.
func unifiedRejected(a *answer) bool {
	if strings.EqualFold(a.fields.get(unifiedPrefix+"status"), "rejected") {
		return true
	}
	for _, window := range unifiedWindows(a) {
		if strings.EqualFold(a.fields.get(unifiedPrefix+window+"-status"), "rejected") {
			return true
		}
	}
	return false
}

// unifiedWindows are the windows the answer names: "5h", "7d", "7d_oi".
func unifiedWindows(a *answer) []string {
	seen := make(map[string]bool)
	for name := range a.fields {
		rest, ok := strings.CutPrefix(name, unifiedPrefix)
		if !ok {
			continue
		}
		for _, part := range []string{"-status", "-utilization", "-reset"} {
			if window, ok := strings.CutSuffix(rest, part); ok && window != "overage" && window != "fallback" {
				seen[window] = true
			}
		}
	}
	return sortedKeys(seen)
}

// unifiedBudgets are the plan's windows. Only a percentage exists, so limit and
// remaining stay unsaid and the unit is a stand-in, but a rejected window has
// nothing left.
func unifiedBudgets(a *answer) []bucket {
	refusedAll := strings.EqualFold(a.fields.get(unifiedPrefix+"status"), "rejected")
	claimed := claimNames.Replace(strings.ToLower(a.fields.get(unifiedPrefix + "representative-claim")))
	windows := unifiedWindows(a)
	if len(windows) == 0 && claimed != "" && claimed != "overage" {
		// The older form: one claim, whose reset is the overall one.
		windows = []string{claimed}
	}
	var out []bucket
	anyEmpty := false
	for _, window := range windows {
		b := unifiedBucket(window)
		status := a.fields.get(unifiedPrefix + window + "-status")
		b.takeReset(a, window+"-reset")
		if strings.EqualFold(status, "rejected") || spent(a.fields.get(unifiedPrefix+window+"-utilization")) ||
			refusedAll && window == claimed {
			b.remaining = count{said: true}
			anyEmpty = true
		}
		if !b.resetSaid && window == claimed {
			b.takeReset(a, "reset")
		}
		out = append(out, b)
	}
	if refusedAll && !anyEmpty {
		b := unifiedBucket("plan")
		b.remaining = count{said: true}
		b.takeReset(a, "reset")
		out = append(out, b)
	}
	return out
}

func unifiedBucket(window string) bucket {
	var b bucket
	b.Unit, b.Window, b.Scope = Tokens, Unknown, "unified "+window
	b.Recovery.Kind = ResetAt
	b.firm = true
	b.long = window != "5h"
	return b
}

func (b *bucket) takeReset(a *answer, part string) {
	b.reset, b.resetSaid = parseRetryAfter(a.fields[unifiedPrefix+part], a.now(), time.Second)
}

// spent is true for a utilization of 1 and more.
func spent(utilization string) bool {
	if _, _, ok := decimal(utilization); !ok {
		return false
	}
	f, err := strconv.ParseFloat(utilization, 64)
	return err == nil && f >= 1
}
