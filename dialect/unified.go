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
		b := planBucket("unified " + window)
		b.long = window != "5h"
		b.takeUsed(a.fields.get(unifiedPrefix+window+"-utilization"), 1)
		status := a.fields.get(unifiedPrefix + window + "-status")
		b.takeReset(a, window+"-reset")
		if strings.EqualFold(status, "rejected") || refusedAll && window == claimed {
			b.remaining = count{said: true}
		}
		anyEmpty = anyEmpty || b.remaining.said
		if !b.resetSaid && window == claimed {
			b.takeReset(a, "reset")
		}
		out = append(out, b)
	}
	if refusedAll && !anyEmpty {
		b := planBucket("unified plan")
		b.remaining = count{said: true}
		b.takeReset(a, "reset")
		out = append(out, b)
	}
	return out
}

// planBucket is a window of a subscription. Its reset outranks shorter waits while
// it is empty.
func planBucket(scope string) bucket {
	b := bucket{firm: true, long: true}
	b.Unit, b.Window, b.Scope, b.Percent = Tokens, Unknown, scope, true
	b.Recovery.Kind = ResetAt
	return b
}

func (b *bucket) takeReset(a *answer, part string) {
	b.reset, b.resetSaid = parseRetryAfter(a.fields[unifiedPrefix+part], a.now(), time.Second)
}

// mostUsed is more than any window is overdrawn: beyond it is some other number.
const mostUsed = 10

// takeUsed reads the part that is spent, told in parts of whole. All of it spent
// leaves nothing.
func (b *bucket) takeUsed(s string, whole float64) {
	if _, _, ok := decimal(s); !ok || len(s) > 32 {
		return
	}
	used, err := strconv.ParseFloat(s, 64)
	if used /= whole; err != nil || used > mostUsed {
		return
	}
	b.Used = &used
	if used >= 1 {
		b.remaining = count{said: true}
	}
}
