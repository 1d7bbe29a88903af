package dialect

import (
	"strconv"
	"time"
)

// waitFields are body fields that state a wait, first that is usable.
var waitFields = []string{
	"resets_in_seconds", "resets_at", "retry_after_ms", "retry_after", "retryafter",
	"retry_after_seconds", "estimated_time",
}

// wait finds how long the provider said to wait, first statement that is
// usable; a later statement about a longer bucket then outranks it. limited:
// the refusal is about the caller's own budget, so an empty bucket's reset is a
// statement too.
func (p reader) wait(a *answer, r *Reading, buckets []bucket, limited bool) {
	d, why, ok := a.asked()
	if !ok && limited {
		d, why, ok = derived(buckets)
	}
	if !ok {
		// A zero of milliseconds counts only where nobody says otherwise.
		if ms, said := a.millis(); said && ms == 0 {
			d, why, ok = 0, "retry-after-ms: 0", true
		}
	}
	if limited {
		if later, from, found := a.longer(buckets); found && later > d {
			d, why, ok = later, from, true
		}
	}
	if !ok {
		return
	}
	r.Told, r.Wait, r.Why = true, roundUp(d), r.Why+"; "+why
}

// millis reads the finer headers, with which some providers accompany a
// Retry-After in whole seconds.
func (a *answer) millis() (time.Duration, bool) {
	for _, name := range []string{"retry-after-ms", "x-ms-retry-after-ms"} {
		if d, ok := parseRetryAfter(a.fields[name], a.now(), time.Millisecond); ok {
			return d, true
		}
	}
	return 0, false
}

// asked is the first usable wait that was asked for in so many words.
func (a *answer) asked() (d time.Duration, why string, ok bool) {
	if d, ok := a.millis(); ok && d > 0 {
		return d, "retry-after-ms", true
	}
	if d, ok := parseRetryAfter(a.fields["retry-after"], a.now(), time.Second); ok {
		return d, "retry-after: " + brief(a.fields.get("retry-after")), true
	}
	for _, s := range []string{a.fault.google.retryDelay, a.fault.google.resetDelay, a.fault.google.resetStamp} {
		if d, ok := parseWhen(s, a.now(), time.Second); ok {
			return d, "retryDelay: " + brief(s), true
		}
	}
	for _, name := range waitFields {
		s, said := a.fault.hints[name]
		unit := time.Second
		if name == "retry_after_ms" {
			unit = time.Millisecond
		}
		if d, ok := parseWhen(s, a.now(), unit); said && ok {
			return d, name + ": " + brief(s), true
		}
	}
	for _, t := range a.fault.texts {
		if d, ok := proseWait(t, a.now()); ok {
			return d, "message", true
		}
	}
	return 0, "", false
}

// derived is a wait nobody asked for in words: the latest reset among the empty
// buckets, or a lone reset where no remaining count was given. A reset of zero
// beside an empty bucket proves nothing about when.
func derived(buckets []bucket) (d time.Duration, why string, ok bool) {
	resets, counted := 0, false
	var lone time.Duration
	for i := range buckets {
		b := &buckets[i]
		counted = counted || b.Remaining != nil
		if !b.resetSaid {
			continue
		}
		resets++
		lone = b.reset
		if b.exhausted() && b.reset > d {
			d, why, ok = b.reset, "reset of "+b.Unit+" per "+b.Window, true
		}
	}
	if !ok && !counted && resets == 1 && lone > 0 {
		return lone, "reset", true
	}
	return d, why, ok
}

// longer is the latest statement about a window of a day or more: the reset of
// one that is empty, or a sentence about one.
func (a *answer) longer(buckets []bucket) (d time.Duration, why string, found bool) {
	for i := range buckets {
		b := &buckets[i]
		if b.firm && b.exhausted() && b.resetSaid && !b.evenly() && b.reset > d {
			d, why, found = b.reset, "reset of "+b.Unit+" per "+b.Window, true
		}
	}
	for _, l := range a.said {
		if !l.long {
			continue
		}
		if w, ok := proseWait(l.text, a.now()); ok && w > d {
			d, why, found = w, "message", true
		}
	}
	return d, why, found
}

// brief is a value fit for a log line.
func brief(s string) string {
	if len(s) > 40 {
		s = s[:40]
	}
	q := strconv.QuoteToASCII(s)
	return q[1 : len(q)-1]
}
