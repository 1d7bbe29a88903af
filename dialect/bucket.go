package dialect

import (
	"strings"
	"time"
)

// A bucket is a Snapshot being read: what was said, before it is judged.
type bucket struct {
	Snapshot
	limit, remaining count
	// reset is from now; resetSaid tells a reset of 0 from none.
	reset     time.Duration
	resetSaid bool
	// relative: it was told as a time, not as an instant.
	relative bool
	// after: the reset was told as a delay under a name of its own.
	after bool
	// garbled: a count was sent that is no number.
	garbled bool
	// long: the window is a day or more, also where Window cannot say so.
	long bool
	// told: the answer said how long the window is, also where Window has no name
	// for it.
	told bool
	// plain: the name has no words for what is counted.
	plain bool
	// standard: from the IETF's fields.
	standard bool
	// firm: while the bucket is empty its reset outranks a shorter wait said
	// elsewhere. A bucket that refills evenly is never firm.
	firm bool
}

// exhausted is true where the bucket was reported to have nothing left.
func (b *bucket) exhausted() bool { return b.Snapshot.Empty() }

// title names the bucket for people.
func (b *bucket) title() string {
	switch {
	case b.Percent:
		return "the plan's window " + brief(b.Scope)
	case b.Window == Unknown:
		return strings.ReplaceAll(b.Unit, "_", " ")
	}
	return strings.ReplaceAll(b.Unit, "_", " ") + " per " + b.Window
}

// evenly is true where some is there again long before all is.
func (b *bucket) evenly() bool { return b.Recovery.Kind == FullAt || b.Recovery.Kind == Continuous }

// settle turns the counts into a Snapshot. It is false where nothing usable is
// left: -1 beside -1 is "not known", and the reset of such a bucket means
// nothing; a word for a number is not one.
func (b *bucket) settle(h Head, kind Recovers) bool {
	if b.limit.said && !b.limit.neg {
		b.Limit = new(b.limit.n)
	}
	switch {
	case b.remaining.said && !b.remaining.neg:
		b.Remaining = new(b.remaining.n)
	case b.remaining.said && b.Limit != nil:
		// Overdrawn: a number, since the limit is one.
		b.Remaining = new(int64)
	}
	if b.Limit == nil && b.Remaining == nil &&
		(!b.resetSaid || b.garbled || b.limit.said || b.remaining.said) {
		return false
	}
	if b.Window == "" {
		b.Window = Unknown
	}
	b.long = b.long || b.Window == Day || b.Window == Month
	b.Recovery = Recovery{}
	if b.resetSaid {
		b.Recovery = Recovery{Kind: kind, At: h.Received.Add(b.reset), Relative: b.relative}
	}
	length := windowLength[b.Window]
	switch {
	case kind == Continuous && b.Limit != nil && length > 0:
		b.Recovery.Kind, b.Recovery.PerSecond = Continuous, float64(*b.Limit)/length.Seconds()
	case kind == Continuous && b.resetSaid:
		b.Recovery.Kind = ResetAt
	}
	if kind == Rolls {
		b.Recovery.Kind = Rolls
	}
	if b.resetSaid && b.reset == 0 && b.exhausted() && b.Recovery.Kind != Continuous {
		b.Recovery.Kind = UnknownRecovery
	}
	return true
}

// windowLength is how long the windows are that always have one length.
var windowLength = map[string]time.Duration{
	Second: time.Second, Minute: time.Minute, Hour: time.Hour, Day: 24 * time.Hour,
}

// windowed gives the buckets whose names say no window the provider's.
func windowed(buckets []bucket, requests, tokens string) []bucket {
	for i := range buckets {
		b := &buckets[i]
		window := tokens
		if b.Unit == Requests {
			window = requests
		}
		if b.Window == Unknown && !b.told && window != "" {
			b.Window, b.long = window, window == Day || window == Month
			b.firm = b.firm || b.long
		}
	}
	return buckets
}

// A span is a window's length under the schema's names.
type span struct {
	name string
	long bool
}

// seconds names a window of so many seconds; name is empty for none.
func seconds(n int64) span {
	switch {
	case n <= 0:
		return span{}
	case n == 1:
		return span{Second, false}
	case n == 60:
		return span{Minute, false}
	case n == 3600:
		return span{Hour, false}
	case n == 86400:
		return span{Day, true}
	case n >= 28*86400 && n <= 31*86400:
		return span{Month, true}
	}
	return span{Unknown, n > 86400}
}

// merge adds the buckets named in a refusal's sentences or details to those in
// its headers. The headers know more of a bucket both report; and where they
// leave open which window the empty one has, the refusal has said it.
func merge(reported, named []bucket) []bucket {
	for _, n := range named {
		if !absorb(reported, n) {
			reported = append(reported, n)
		}
	}
	return reported
}

func absorb(reported []bucket, n bucket) bool {
	for i := range reported {
		b := &reported[i]
		if b.Unit == n.Unit && b.Window == n.Window {
			if b.Limit == nil {
				b.Limit = n.Limit
			}
			if b.Remaining == nil {
				b.Remaining = n.Remaining
			}
			return true
		}
	}
	return false
}

// nameWindow gives the one empty bucket of unknown window the window that the
// refusal names.
func nameWindow(reported []bucket, n namedLimit) {
	var only *bucket
	for i := range reported {
		b := &reported[i]
		if b.Window == n.window {
			return
		}
		if b.Window == Unknown && b.exhausted() && (n.unit == "" || n.unit == b.Unit) {
			if only != nil {
				return
			}
			only = b
		}
	}
	if only != nil {
		only.Window, only.long = n.window, n.long
		only.firm = n.long
	}
}

// A bucketName is what a header's name says about its bucket.
type bucketName struct {
	unit, window, scope string
	told, long          bool
}

// parseBucketName reads the words after the family's prefix: "input-tokens",
// "requests-day", "req-10-second", "tokens-per-day", "project-tokens". No words
// at all count requests. It is false where the unit is none that is counted
// here.
func parseBucketName(suffix string) (bucketName, bool) {
	var n bucketName
	if suffix == "" {
		return bucketName{unit: Requests, window: Unknown}, true
	}
	n.window = Unknown
	side, tokens, requests := "", false, false
	var rest []string
	words := strings.Split(suffix, "-")
	for i, w := range words {
		switch w {
		case "token", "tokens":
			tokens = true
		case "request", "requests", "req":
			requests = true
		case "input", "prompt", "output", "generated", "completion":
			side = w
		case "second", "minute", "min", "hour", "day", "month":
			n.told = true
			if i == 0 || !digits(words[i-1]) {
				n.window = windowOf[w]
			}
		case "per", "":
		default:
			if !digits(w) {
				rest = append(rest, w)
			}
		}
	}
	switch {
	case tokens:
		n.unit = unitOf(side, "tokens")
	case requests, side == "" && (len(rest) == 0 || len(rest) == 1 && rest[0] == "dynamic"):
		n.unit = Requests
	default:
		return n, false
	}
	n.long = n.window == Day || n.window == Month
	n.scope = strings.Join(rest, "-")
	return n, true
}
