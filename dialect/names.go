package dialect

import (
	"slices"
	"strings"
)

// readNames collects which limits the refusal names, in sentences, details, a
// header or a code.
func (a *answer) readNames() {
	for _, t := range a.fault.texts {
		if l, ok := readLimit(t); ok {
			a.named = append(a.named, l.namedLimit)
			a.said = append(a.said, l)
		}
	}
	for _, v := range a.fault.google.violations {
		if n := nameLimit(spaced(v.id)); n.window != "" {
			a.named = append(a.named, n)
		}
	}
	if kind := a.fields.get("x-ratelimit-type"); kind != "" {
		n := namedLimit{}
		words := spaced(kind)
		for _, w := range []string{"second", "minute", "hour", "day", "month"} {
			if strings.Contains(words, "by "+w) || strings.Contains(words, "per "+w) {
				n.window = windowOf[w]
			}
		}
		if strings.Contains(words, "token") {
			n.unit = Tokens
		} else if strings.Contains(words, "request") {
			n.unit = Requests
		}
		n.long = n.window == Day || n.window == Month
		a.named = append(a.named, n)
	}
	for _, code := range a.fault.codes {
		if code == Requests || code == Tokens {
			a.named = append(a.named, namedLimit{unit: code})
		}
	}
	for _, policy := range a.fault.policies {
		a.named = append(a.named, namedLimit{policy: policy})
	}
}

// namesLimit reports whether a name says which limit refused. "requests" alone
// does not: every limit is one on requests to somebody.
func (a *answer) namesLimit() bool {
	return slices.ContainsFunc(a.named, func(n namedLimit) bool {
		return n.window != "" || n.policy != "" || n.unit != "" && n.unit != Requests
	})
}

// mergeNamed adds the buckets that only the refusal's body tells.
func (a *answer) mergeNamed(reported []bucket) []bucket {
	for _, n := range a.named {
		if n.window != "" && n.window != Unknown {
			nameWindow(reported, n)
		}
	}
	var named []bucket
	for _, l := range a.said {
		if b, ok := l.bucket(); ok {
			named = append(named, b)
		}
	}
	named = append(named, a.fault.google.buckets(a.fault.texts)...)
	return merge(reported, settled(a, named, UnknownRecovery))
}

// longWindow is true where a window of a day or more is what refused: named by
// the refusal, or reported empty.
func (a *answer) longWindow(buckets []bucket) (why string, long bool) {
	if slices.ContainsFunc(a.named, func(n namedLimit) bool { return n.long }) {
		return "a window of a day or more is named", true
	}
	for i := range buckets {
		b := &buckets[i]
		if b.long && (b.exhausted() || slices.ContainsFunc(a.fault.policies, func(p string) bool {
			return p != "" && (b.Scope == p || strings.HasPrefix(b.Scope, p+" "))
		})) {
			return "a window of a day or more is empty", true
		}
	}
	return "", false
}

// namesShort is true where the refusal names a window below a day, so that a
// long wait is a deep debt and not a spent allowance.
func (a *answer) namesShort() bool {
	return slices.ContainsFunc(a.named, func(n namedLimit) bool {
		return !n.long && n.window != "" && n.window != Unknown
	})
}
