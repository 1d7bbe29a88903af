package dialect

import (
	"net/http"
	"slices"
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
	d, why, ok := p.asked(a)
	if !ok && limited {
		d, why, ok = derived(buckets)
	}
	if !ok {
		// A zero of milliseconds counts only where nobody says otherwise.
		if ms, said := a.millis(); said && ms == 0 {
			d, why, ok = 0, "Retry-After-Ms: 0", true
		}
	}
	if limited {
		if later, from, found := a.longer(buckets); found && later > d {
			d, why, ok = later, from, true
		}
	}
	if ok {
		r.Told, r.Wait, r.Why = true, roundUp(d), r.Why+"; "+why
		return
	}
	// A hint that was there and could not be used is worth telling.
	for _, name := range []string{"retry-after-ms", "retry-after"} {
		if s := a.fields.get(name); s != "" {
			r.Why += "; " + header(name) + " is no wait: " + brief(s)
			return
		}
	}
}

// header is a name as people know it.
func header(name string) string { return http.CanonicalHeaderKey(name) }

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
func (p reader) asked(a *answer) (d time.Duration, why string, ok bool) {
	if d, ok := a.millis(); ok && d > 0 {
		return d, "milliseconds in Retry-After-Ms", true
	}
	for _, name := range append([]string{"retry-after"}, p.waits...) {
		if d, ok := parseRetryAfter(a.fields[name], a.now(), time.Second); ok {
			return d, header(name) + ": " + brief(a.fields.get(name)), true
		}
	}
	g := a.fault.google
	for _, said := range []struct{ name, value string }{
		{"retryDelay", g.retryDelay}, {"quotaResetDelay", g.resetDelay}, {"quotaResetTimeStamp", g.resetStamp},
	} {
		if d, ok := parseWhen(said.value, a.now(), time.Second); ok {
			return d, said.name + " " + brief(said.value), true
		}
	}
	for _, name := range waitFields {
		s, said := a.fault.hints[name]
		unit := time.Second
		if name == "retry_after_ms" {
			unit = time.Millisecond
		}
		if d, ok := parseWhen(s, a.now(), unit); said && ok {
			return d, name + " " + brief(s), true
		}
	}
	for _, t := range a.fault.texts {
		if d, ok := proseWait(t, a.now()); ok {
			return d, "its message says when", true
		}
	}
	return 0, "", false
}

// derived is a wait nobody asked for in words: the latest reset among the empty
// buckets, or a lone reset where no remaining count was given. A reset of zero
// beside an empty bucket proves nothing about when. The IETF's t goes before the
// older headers; of these, the longer of several in one window, and names that
// say what is counted before those that do not.
func derived(buckets []bucket) (d time.Duration, why string, ok bool) {
	var resets []*bucket
	counted := false
	for i := range buckets {
		b := &buckets[i]
		counted = counted || b.Remaining != nil
		if b.resetSaid && b.reset > 0 {
			resets = append(resets, b)
		}
	}
	latest := func(of func(*bucket) bool) bool {
		for _, b := range resets {
			if of(b) && b.reset > d {
				d, why, ok = b.reset, "the reset of "+b.title(), true
			}
		}
		return ok
	}
	if latest(func(b *bucket) bool { return b.exhausted() && b.standard }) || latest((*bucket).exhausted) || counted {
		return d, why, ok
	}
	// Requests and tokens of one window: both must fit. A plan's window that does
	// not refuse is no reason to wait.
	resets = slices.DeleteFunc(resets, func(b *bucket) bool { return b.Percent })
	named := slices.DeleteFunc(slices.Clone(resets), func(b *bucket) bool { return b.plain })
	if len(named) == 0 {
		named = resets
	}
	if len(named) > 0 && !slices.ContainsFunc(named, func(b *bucket) bool { return b.Window != named[0].Window }) {
		latest(func(b *bucket) bool { return slices.Contains(named, b) })
	}
	return d, why, ok
}

// longer is the latest statement about a window of a day or more: the reset of
// one that is empty, or a sentence about one.
func (a *answer) longer(buckets []bucket) (d time.Duration, why string, found bool) {
	for i := range buckets {
		b := &buckets[i]
		if b.firm && b.exhausted() && b.resetSaid && !b.evenly() && b.reset > d {
			d, why, found = b.reset, "the reset of "+b.title(), true
		}
	}
	for _, l := range a.said {
		if !l.long {
			continue
		}
		if w, ok := proseWait(l.text, a.now()); ok && w > d {
			d, why, found = w, "its message says when", true
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
